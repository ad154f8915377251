#include "models/calibration.h"

#include "base/json.h"

namespace anabranch {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxIds = 1 << 20;

// Ascending numbers from 0 on; absent: none.
Result<std::vector<int>> read_ids(const Json& object, const char* key) {
  std::vector<int> out;
  const auto it = object.find(key);
  if (it == object.end()) return out;
  if (!it->is_array() || it->size() > kMaxIds)
    return make_error(ErrorKind::invalid, "\"{}\" is not a list of at most {} numbers", key, kMaxIds);
  for (const Json& id : *it) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX ||
        (!out.empty() && id.get<int>() <= out.back()))
      return make_error(ErrorKind::invalid, "\"{}\" is not a list of ascending numbers", key);
    out.push_back(id.get<int>());
  }
  return out;
}

double read_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : 0;
}

}  // namespace

Result<Calibration> parse_calibration(std::string_view text) {
  TRY(const Json json, parse_json(text));
  if (!json.is_object() || json.value("version", Json()) != kVersion)
    return make_error(ErrorKind::invalid, "it is not a JSON object of version {}", kVersion);
  Calibration out;
  TRY(out.draft_vocab, read_ids(json, "draft_vocab"));
  TRY(out.exit_layers, read_ids(json, "exit_layers"));
  TRY(out.skip_layers, read_ids(json, "skip_layers"));
  out.vocab_coverage = read_number(json, "draft_vocab_coverage");
  out.exit_agreement = read_number(json, "exit_agreement");
  out.skip_agreement = read_number(json, "skip_agreement");
  out.perplexity = read_number(json, "perplexity");
  out.skip_perplexity = read_number(json, "skip_perplexity");
  return out;
}

std::string calibration_text(const Calibration& c) {
  const Json json = {{"version", kVersion},
                     {"exit_layers", c.exit_layers},
                     {"exit_agreement", c.exit_agreement},
                     {"skip_layers", c.skip_layers},
                     {"skip_agreement", c.skip_agreement},
                     {"perplexity", c.perplexity},
                     {"skip_perplexity", c.skip_perplexity},
                     {"draft_vocab_coverage", c.vocab_coverage},
                     {"draft_vocab", c.draft_vocab}};
  return json.dump() + "\n";
}

}  // namespace anabranch
