#include "models/calibration.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/part_name.h"

namespace anabranch {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxIds = 1 << 20;
constexpr size_t kMaxBytes = 32 << 20;

bool is_id(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX;
}

// A list of ascending numbers from 0 on, where [first, last] stands for a range. Absent: an empty list.
Result<std::vector<int>> read_ids(const Json& object, const char* key) {
  std::vector<int> out;
  const auto it = object.find(key);
  if (it == object.end()) return out;
  const auto fail = [&](const char* what) {
    return make_error(ErrorKind::invalid, "\"{}\" is not a list of {}", key, what);
  };
  if (!it->is_array()) return fail("numbers");
  for (const Json& item : *it) {
    const bool run = item.is_array() && item.size() == 2;
    const Json &first = run ? item[0] : item, &last = run ? item[1] : item;
    if (!is_id(first) || !is_id(last)) return fail("numbers and [first, last]");
    const int64_t from = first.get<int64_t>(), to = last.get<int64_t>();
    if (to < from || (!out.empty() && from <= out.back())) return fail("ascending numbers");
    if (out.size() + static_cast<size_t>(to - from) + 1 > kMaxIds) return fail("at most a million numbers");
    for (int64_t id = from; id <= to; id++) out.push_back(static_cast<int>(id));
  }
  return out;
}

Json ids_json(const std::vector<int>& ids) {
  Json out = Json::array();
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) end++;
    if (end - i > 2) {
      out.push_back({ids[i], ids[end - 1]});
    } else {
      for (size_t k = i; k < end; k++) out.push_back(ids[k]);
    }
    i = end;
  }
  return out;
}

double read_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? std::max(0.0, it->get<double>()) : 0;
}

// Rounds to enough digits for people, so that a file of a few thousand numbers stays readable.
double rounded(double x) {
  return std::isfinite(x) ? std::round(x * 1e4) / 1e4 : 0;
}

}  // namespace

std::string calibration_path(const std::string& model_path) {
  namespace fs = std::filesystem;
  fs::path path(model_path);
  std::error_code code;
  if (fs::is_directory(path, code)) return (path / "speculation.json").string();
  if (const auto part = parse_part_name(model_path)) return part->stem + ".speculation.json";
  if (path.extension() == ".gguf") return path.replace_extension(".speculation.json").string();
  return (path.parent_path() / "speculation.json").string();
}

Result<Calibration> parse_calibration(std::string_view text) {
  JsonLimits limits;
  limits.bytes = kMaxBytes;
  TRY(const Json json, parse_json(text, limits));
  if (!json.is_object() || json.value("version", Json()) != kVersion)
    return make_error(ErrorKind::invalid, "it is not a JSON object of version {}", kVersion);
  Calibration out;
  out.layers = static_cast<int>(std::min(read_number(json, "layers"), 1e9));
  out.text = string_at(json, "text");
  out.tokens = static_cast<int>(std::min(read_number(json, "tokens"), 1e9));
  TRY(out.draft_vocab, read_ids(json, "draft_vocab"));
  TRY(out.exit_layers, read_ids(json, "exit_layers"));
  TRY(out.skip_layers, read_ids(json, "skip_layers"));
  out.vocab_coverage = read_number(json, "draft_vocab_coverage");
  out.exit_agreement = read_number(json, "exit_agreement");
  out.exit_rate = read_number(json, "exit_rate");
  out.skip_agreement = read_number(json, "skip_agreement");
  out.skip_rate = read_number(json, "skip_rate");
  out.perplexity = read_number(json, "perplexity");
  out.skip_perplexity = read_number(json, "skip_perplexity");
  out.lossy_agreement = read_number(json, "lossy_agreement");
  return out;
}

std::string calibration_text(const Calibration& c) {
  const Json json = {{"version", kVersion},
                     {"layers", c.layers},
                     {"text", c.text},
                     {"tokens", c.tokens},
                     {"exit_layers", ids_json(c.exit_layers)},
                     {"exit_agreement", rounded(c.exit_agreement)},
                     {"exit_rate", rounded(c.exit_rate)},
                     {"skip_layers", ids_json(c.skip_layers)},
                     {"skip_agreement", rounded(c.skip_agreement)},
                     {"skip_rate", rounded(c.skip_rate)},
                     {"perplexity", rounded(c.perplexity)},
                     {"skip_perplexity", rounded(c.skip_perplexity)},
                     {"lossy_agreement", rounded(c.lossy_agreement)},
                     {"draft_vocab_coverage", rounded(c.vocab_coverage)},
                     {"draft_vocab", ids_json(c.draft_vocab)}};
  // One key per line; lists stay on the line of their key.
  std::string text;
  for (const auto& [key, value] : json.items())
    text += fmt::format("{}{}: {}", text.empty() ? "{\n " : ",\n ", Json(key).dump(), dump_json(value));
  return text + "\n}\n";
}

Result<void> check_calibration(const Calibration& c, int layers) {
  if (c.layers != 0 && c.layers != layers)
    return make_error(ErrorKind::invalid, "it is of a model of {} layers, this one has {}", c.layers, layers);
  for (const auto* some : {&c.exit_layers, &c.skip_layers})
    if (!some->empty() && some->back() >= layers)
      return make_error(ErrorKind::invalid, "it names layer {} of a model of {}", some->back(), layers);
  if (!c.exit_layers.empty() && c.exit_layers.back() + 1 != static_cast<int>(c.exit_layers.size()))
    return make_error(ErrorKind::invalid, "its exit_layers are not the model's first ones");
  if (static_cast<int>(c.skip_layers.size()) >= layers)
    return make_error(ErrorKind::invalid, "it leaves out all layers");
  return {};
}

Result<void> save_calibration(const Calibration& calibration, const std::string& path) {
  std::string temporary = path + ".partial-XXXXXX";
  const auto fail = [&] {
    return make_error(ErrorKind::io, "cannot write {}: {}; name another place with --output", path,
                      std::strerror(errno));
  };
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return fail();
  const std::string text = calibration_text(calibration);
  bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
              fchmod(fd, 0644) == 0 && fsync(fd) == 0;
  good = close(fd) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Error error = fail();
  unlink(temporary.c_str());
  return error;
}

}  // namespace anabranch
