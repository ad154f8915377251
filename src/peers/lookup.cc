#include "peers/lookup.h"

namespace anabranch {
namespace {

constexpr size_t kMaxKeys = (1 << 16) + 1;  // for 16 million tokens

std::optional<PrefixKey> key_at(const Json& json) {
  return json.is_string() ? key_from_hex(json.get_ref<const std::string&>()) : std::nullopt;
}

// A whole number from 0 to `most`.
std::optional<uint32_t> number_at(const Json& json, uint32_t most) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > most) return std::nullopt;
  return json.get<uint32_t>();
}

const Json* array_at(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_array() ? &*at : nullptr;
}

}  // namespace

std::string states_version() {
  return ANABRANCH_VERSION;
}

Json to_json(const StatesQuestion& question) {
  Json keys = Json::array();
  for (const PrefixKey& key : question.keys) keys.push_back(to_hex(key));
  return {{"version", question.version},
          {"fingerprint", to_hex(question.fingerprint)},
          {"keys", std::move(keys)}};
}

Result<StatesQuestion> parse_question(const Json& json) {
  const auto wrong = [](const char* what) { return make_error(ErrorKind::invalid, "{}", what); };
  if (!json.is_object()) return wrong("the body must be an object");
  StatesQuestion question;
  question.version = string_at(json, "version");
  const auto fingerprint = key_from_hex(string_at(json, "fingerprint"));
  if (!fingerprint) return wrong("'fingerprint' must be 32 hexadecimal digits");
  question.fingerprint = *fingerprint;
  const Json* keys = array_at(json, "keys");
  if (!keys || keys->empty() || keys->size() > kMaxKeys)
    return wrong("'keys' must be a list of 1 to 65537 keys");
  for (const Json& text : *keys) {
    const auto key = key_at(text);
    if (!key) return wrong("each of 'keys' must be 32 hexadecimal digits");
    question.keys.push_back(*key);
  }
  return question;
}

Json to_json(const KeptPrefix& kept) {
  Json points = Json::array();
  for (const KeptPoint& point : kept.points) points.push_back(Json::array({point.length, point.mark}));
  return {{"blocks", kept.blocks}, {"points", std::move(points)}};
}

Result<KeptPrefix> parse_kept(const Json& json, uint32_t most_blocks) {
  const auto wrong = [](const char* what) { return make_error(ErrorKind::invalid, "{}", what); };
  if (!json.is_object() || !json.contains("blocks")) return wrong("its answer has no number of blocks");
  KeptPrefix kept;
  const auto blocks = number_at(json["blocks"], most_blocks);
  const Json* points = array_at(json, "points");
  if (!blocks || !points || points->size() > kMaxKeptPoints)
    return wrong("its answer has other numbers than were asked for");
  kept.blocks = *blocks;
  for (const Json& point : *points) {
    const bool pair = point.is_array() && point.size() == 2;
    const auto length = pair ? number_at(point[0], kMaxLength) : std::nullopt;
    const auto mark = pair ? number_at(point[1], UINT32_MAX) : std::nullopt;
    if (!length || !mark || *length / kBlockTokens > kept.blocks)
      return wrong("its answer names an entry that it cannot have");
    kept.points.push_back({*length, *mark});
  }
  return kept;
}

}  // namespace anabranch
