#include "tokenizer/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "base/outside_text.h"
#include "base/python_json.h"

namespace anabranch {
namespace {

constexpr size_t kMaxAdded = 100'000;
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                  "sep_token", "cls_token", "mask_token"};
constexpr const char* kMoreSpecial[] = {"additional_special_tokens", "extra_special_tokens"};

Error wrong(const char* file, std::string_view key, std::string_view expected) {
  return make_error(ErrorKind::invalid, "{}: '{}' should be {}", file, key, expected);
}

Result<Json> parse(const std::string& text, const char* file) {
  if (text.empty()) return Json(Json::object());
  auto json = parse_json(text, {.keys_per_object = kMaxAdded});
  if (!json) return make_error(json.error().kind, "{}: {}", file, json.error().message);
  if (!json->is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", file);
  return json;
}

// "<s>" or {"content": "<s>", ...}
Result<std::string> content_of(const Json& token, const char* file, std::string_view key) {
  const Json* text = &token;
  if (token.is_object() && token.contains("content")) text = &token["content"];
  if (!text->is_string()) return wrong(file, key, "a token");
  auto content = text->get<std::string>();
  if (content.size() > kMaxTokenBytes)
    return wrong(file, key, fmt::format("of at most {} bytes", kMaxTokenBytes));
  return content;
}

Result<std::optional<bool>> bool_at(const Json& json, const char* file, const char* key) {
  const auto at = json.find(key);
  if (at == json.end() || at->is_null()) return std::optional<bool>();
  if (!at->is_boolean()) return wrong(file, key, "true or false");
  return std::optional(at->get<bool>());
}

// The roles of tokens in tokenizer_config.json or special_tokens_map.json. The first value read stays.
Result<void> read_roles(const Json& json, const char* file, TokenizerSettings& out) {
  for (const char* role : kRoles) {
    const auto at = json.find(role);
    if (at == json.end()) continue;
    std::string content;
    if (!at->is_null()) {
      TRY(content, content_of(*at, file, role));
    }
    for (const auto& [name, field] : {std::pair{"bos_token", &out.bos}, {"eos_token", &out.eos}})
      if (std::string_view(role) == name && !*field) *field = content;
    if (!content.empty()) out.special.push_back(std::move(content));
  }
  for (const char* key : kMoreSpecial) {
    const auto at = json.find(key);
    if (at == json.end() || at->is_null()) continue;
    if (!at->is_structured()) return wrong(file, key, "a list or an object of tokens");
    for (const Json& token : *at) {
      if (out.special.size() >= kMaxAdded)
        return make_error(ErrorKind::exhausted, "{}: more than {} special tokens", file, kMaxAdded);
      TRY(std::string content, content_of(token, file, key));
      if (!content.empty()) out.special.push_back(std::move(content));
    }
  }
  return {};
}

Result<AddedToken> new_token(const std::string& content, int64_t id, const char* file) {
  if (content.empty() || content.size() > kMaxTokenBytes)
    return make_error(ErrorKind::invalid, "{}: the token of id {} should have 1 to {} bytes", file, id,
                      kMaxTokenBytes);
  if (id < 0 || id > Vocab::kMaxId)
    return make_error(ErrorKind::invalid, "{}: the id of '{}' should be from 0 to {}", file, shown(content),
                      Vocab::kMaxId);
  AddedToken token;
  token.id = static_cast<int>(id);
  token.content = content;
  return token;
}

// {"32000": {"content": "<|im_end|>", "special": true, ...}, ...}
Result<void> read_decoder_table(const Json& table, const char* file, TokenizerSettings& out) {
  constexpr const char* kKey = "added_tokens_decoder";
  if (!table.is_object()) return wrong(file, kKey, "an object");
  for (const auto& [key, value] : table.items()) {
    int64_t id = -1;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
    if (end.ec != std::errc() || end.ptr != key.data() + key.size()) return wrong(file, kKey, "keyed by ids");
    TRY(const std::string content, content_of(value, file, kKey));
    TRY(AddedToken token, new_token(content, id, file));
    const std::pair<const char*, bool AddedToken::*> flags[] = {{"special", &AddedToken::special},
                                                                {"normalized", &AddedToken::normalized},
                                                                {"lstrip", &AddedToken::lstrip},
                                                                {"rstrip", &AddedToken::rstrip},
                                                                {"single_word", &AddedToken::single_word}};
    for (const auto& [name, flag] : flags) {
      if (!value.is_object()) break;
      TRY(const auto set, bool_at(value, file, name));
      token.*flag = set.value_or(false);
    }
    out.added.push_back(std::move(token));
  }
  return {};
}

// {"<|im_end|>": 32000, ...}
Result<void> read_added_tokens(const Json& json, TokenizerSettings& out) {
  constexpr const char* kFile = "added_tokens.json";
  const std::unordered_set<std::string_view> special(out.special.begin(), out.special.end());
  for (const auto& [content, id] : json.items()) {
    if (!id.is_number_integer()) return wrong(kFile, shown(content), "a number");
    TRY(AddedToken token, new_token(content, id.get<int64_t>(), kFile));
    token.special = special.contains(content);
    token.normalized = !token.special;
    out.added.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<TokenizerSettings> read_tokenizer_settings(const TokenizerSideFiles& files) {
  constexpr const char* kConfig = "tokenizer_config.json";
  TokenizerSettings out;
  TRY(const Json config, parse(files.tokenizer_config, kConfig));
  TRY_VOID(read_roles(config, kConfig, out));
  TRY(out.add_bos, bool_at(config, kConfig, "add_bos_token"));
  TRY(out.legacy, bool_at(config, kConfig, "legacy"));
  if (config.contains("legacy") && !out.legacy) out.legacy = false;  // null
  TRY(const auto prefix, bool_at(config, kConfig, "add_prefix_space"));
  out.add_prefix_space = prefix.value_or(false);
  out.tokenizer_class = string_at(config, "tokenizer_class");
  if (out.tokenizer_class.ends_with("Fast")) out.tokenizer_class.resize(out.tokenizer_class.size() - 4);
  const auto table = config.find("added_tokens_decoder");
  if (table != config.end() && !table->is_null()) {
    TRY_VOID(read_decoder_table(*table, kConfig, out));
  } else {
    TRY(const Json map, parse(files.special_tokens_map, "special_tokens_map.json"));
    TRY_VOID(read_roles(map, "special_tokens_map.json", out));
    TRY(const Json added, parse(files.added_tokens, "added_tokens.json"));
    TRY_VOID(read_added_tokens(added, out));
  }
  // The model loader reports a config.json that cannot be read.
  const auto model = files.config.empty() ? Result<Json>(Json()) : parse_python_json(files.config);
  if (model) out.model_type = string_at(*model, "model_type");
  return out;
}

Result<void> apply_tokenizer_settings(const TokenizerSettings& settings, TokenizerParts& parts) {
  std::unordered_map<int, size_t> by_id;
  std::unordered_map<std::string, size_t> by_content;
  int next = parts.vocab->size();
  const auto add = [&](AddedToken token) -> Result<void> {
    const auto same = by_id.find(token.id);
    if (same != by_id.end()) {
      if (parts.added[same->second].content != token.content)
        return make_error(ErrorKind::invalid, "id {} is that of '{}' and of '{}'", token.id,
                          shown(parts.added[same->second].content), shown(token.content));
      parts.added[same->second] = std::move(token);
      return {};
    }
    const int known = parts.vocab->lookup(token.content);
    if (known >= 0 ? known != token.id : parts.vocab->has(token.id))
      return make_error(ErrorKind::invalid,
                        "token '{}' has id {} among the added tokens; in the vocabulary {}",
                        shown(token.content), token.id,
                        known >= 0 ? fmt::format("it has id {}", known)
                                   : fmt::format("that is '{}'", shown(parts.vocab->text(token.id))));
    if (by_content.contains(token.content))
      return make_error(ErrorKind::invalid, "token '{}' has two ids", shown(token.content));
    next = std::max(next, token.id + 1);
    by_id.emplace(token.id, parts.added.size());
    by_content.emplace(token.content, parts.added.size());
    parts.added.push_back(std::move(token));
    return {};
  };
  for (AddedToken& token : std::exchange(parts.added, {})) TRY_VOID(add(std::move(token)));
  for (const AddedToken& token : settings.added) TRY_VOID(add(token));
  if (settings.bos) parts.bos = *settings.bos;
  if (settings.eos) parts.eos = *settings.eos;
  for (const std::string& content : settings.special) {
    if (const auto known = by_content.find(content); known != by_content.end()) {
      parts.added[known->second].special = true;
      continue;
    }
    AddedToken token;
    token.content = content;
    token.special = true;
    const int id = parts.vocab->lookup(content);
    token.id = id >= 0 ? id : next;
    if (token.id > Vocab::kMaxId) return make_error(ErrorKind::exhausted, "too many added tokens");
    TRY_VOID(add(std::move(token)));
  }
  return {};
}

}  // namespace anabranch
