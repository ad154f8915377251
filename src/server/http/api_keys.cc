#include "server/http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "base/log.h"
#include "base/mapped_file.h"
#include "base/white_space.h"

namespace anabranch::server {
namespace {

// The token after "Bearer " (case-insensitive, RFC 9110, 11.1); empty for another scheme.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = header[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kScheme[i]) return "";
  }
  return trimmed(header.substr(kScheme.size()));
}

bool is_visible(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

constexpr std::pair<std::string_view, Role> kRoles[] = {
    {"chat", Role::chat}, {"tools", Role::tools}, {"models", Role::models}, {"admin", Role::admin}};

Result<unsigned> read_roles(std::string_view list) {
  unsigned roles = 0;
  while (true) {
    const size_t comma = list.find(',');
    const auto* const known =
        std::ranges::find(kRoles, list.substr(0, comma), &std::pair<std::string_view, Role>::first);
    if (known == std::end(kRoles))
      return make_error(ErrorKind::invalid,
                        "roles= has one or more of chat, tools, models and admin, with commas between");
    roles |= role_bit(known->second);
    if (comma == list.npos) return roles;
    list.remove_prefix(comma + 1);
  }
}

// One "field=N" of a line, "cache=SCOPE" or "roles=...".
Result<void> read_limit(std::string_view word, ApiKey& key) {
  if (word.starts_with("roles=")) {
    TRY(key.roles, read_roles(word.substr(6)));
    return {};
  }
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view digits = equals == word.npos ? "" : word.substr(equals + 1);
  if (name == "cache" && equals != word.npos) {
    key.cache = parse_cache_scope(digits);
    if (!key.cache) return make_error(ErrorKind::invalid, "'cache' must be key or all, not '{}'", digits);
    return {};
  }
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || (name != "priority" && value < 1))
    return make_error(ErrorKind::invalid, "behind NAME and KEY come limits such as concurrent=4, above 0");
  if (name == "concurrent")
    key.concurrent = value;
  else if (name == "tokens_per_minute")
    key.tokens_per_minute = value;
  else if (name == "priority")
    key.priority = value;
  else
    return make_error(ErrorKind::invalid,
                      "there is no limit '{}': concurrent, tokens_per_minute, priority, cache and roles are",
                      name);
  return {};
}

constexpr std::string_view kFields[] = {"concurrent", "tokens_per_minute", "priority", "cache", "roles"};

// Whether the word is a field, and not a key or a name. A key may contain =.
bool is_field(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != word.npos && std::ranges::find(kFields, word.substr(0, equals)) != std::end(kFields);
}

Result<ApiKey> read_line(std::string_view line) {
  std::vector<std::string> words;
  std::istringstream text{std::string(line)};
  for (std::string word; text >> word;) words.push_back(std::move(word));
  ApiKey key;
  if (is_field(words[0]) || (words.size() > 1 && is_field(words[1])))
    return make_error(ErrorKind::invalid, "before limits or a remark come a name and the key");
  if (words.size() == 1) {
    key.key = std::move(words[0]);
    return key;
  }
  key.name = std::move(words[0]);
  key.key = std::move(words[1]);
  if (!is_visible(key.name) || key.name.size() > 64)
    return make_error(ErrorKind::invalid, "a key's name has up to 64 visible ASCII characters");
  // Base64 ends with up to two =.
  if (key.key[0] == '#' || key.key.find('=') < key.key.find_last_not_of('=') + 1)
    return make_error(ErrorKind::invalid, "before limits or a remark come a name and the key");
  std::set<std::string> given;
  for (size_t i = 2; i < words.size(); ++i) {
    if (!given.insert(words[i].substr(0, words[i].find('='))).second)
      return make_error(ErrorKind::invalid, "'{}' is there twice", words[i].substr(0, words[i].find('=')));
    TRY_VOID(read_limit(words[i], key));
  }
  return key;
}

}  // namespace

std::optional<CacheScope> parse_cache_scope(std::string_view name) {
  if (name == "key") return CacheScope::key;
  if (name == "all") return CacheScope::all;
  return std::nullopt;
}

ApiError missing_role(const std::string& key, Role role) {
  std::string_view name = "admin";
  for (const auto& [word, known] : kRoles)
    if (known == role) name = word;
  return {
      403,
      fmt::format(
          "The key '{}' lacks the role '{}', which this needs: add it to the 'roles=' of the key's line in "
          "the file of --api-key-file",
          key, name),
      "", "missing_role"};
}

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

Result<ApiKeys> ApiKeys::make(const std::vector<ApiKey>& keys, std::optional<CacheScope> scope) {
  ApiKeys result;
  std::vector<std::optional<CacheScope>> scopes;  // cache scopes of the entries
  std::set<std::string> names;
  for (const ApiKey& key : keys) {
    if (!is_visible(key.key))
      return make_error(
          ErrorKind::invalid,
          "an API key must be made of visible ASCII characters, without spaces, and not be empty");
    const Digest digested = digest(key.key);
    const auto same = std::ranges::find(result.entries_, digested, &Entry::digest);
    if (same != result.entries_.end() && !key.name.empty())
      return make_error(ErrorKind::invalid, "'{}' and '{}' have the same API key", same->state->name,
                        key.name);
    if (same != result.entries_.end()) continue;
    auto state = std::make_shared<KeyState>();
    state->name = key.name.empty()
                      ? fmt::format("key-{:02x}", fmt::join(digested.data(), digested.data() + 4, ""))
                      : key.name;
    if (!key.name.empty() && !names.insert(key.name).second)
      return make_error(ErrorKind::invalid, "two API keys have the name '{}'", key.name);
    state->roles = key.roles;
    state->concurrent = key.concurrent;
    state->priority = key.priority;
    state->tokens = RateLimit(key.tokens_per_minute);
    result.entries_.push_back({digested, std::move(state)});
    scopes.push_back(key.cache);
  }
  const CacheScope usual = scope.value_or(result.entries_.size() > 1 ? CacheScope::key : CacheScope::all);
  for (size_t i = 0; i < scopes.size(); ++i) result.entries_[i].state->cache = scopes[i].value_or(usual);
  return result;
}

// Compares digests, which all have the same length, without an early exit, so that the time reveals nothing
// about the key.
std::shared_ptr<KeyState> ApiKeys::find(const HttpRequest& request) const {
  std::shared_ptr<KeyState> found;
  const auto look = [&](std::string_view key) {
    const Digest shown = digest(key);
    for (const Entry& known : entries_)
      if (CRYPTO_memcmp(known.digest.data(), shown.data(), shown.size()) == 0) found = known.state;
  };
  if (empty()) return nullptr;
  if (const std::string* header = request.header("authorization")) look(bearer(*header));
  if (const std::string* header = request.header("x-api-key")) look(trimmed(*header));
  return found;
}

void ApiKeys::take_over(const ApiKeys& others) {
  for (Entry& entry : entries_)
    for (const Entry& other : others.entries_) {
      if (entry.digest != other.digest) continue;
      const KeyState wanted = *entry.state;
      entry.state = other.state;
      entry.state->name = wanted.name;
      entry.state->roles = wanted.roles;
      entry.state->concurrent = wanted.concurrent;
      entry.state->priority = wanted.priority;
      entry.state->cache = wanted.cache;
      entry.state->tokens.change(wanted.tokens);
    }
}

KeyUse& KeyUse::operator=(KeyUse&& other) noexcept {
  std::swap(key_, other.key_);
  return *this;
}

void KeyUse::end() {
  if (key_) --key_->running;
}

namespace {

ApiError over_limit(std::string message, double wait_s) {
  ApiError error{429, std::move(message), "", "rate_limit_exceeded"};
  error.retry_after_s = static_cast<int>(std::ceil(std::max(1.0, wait_s)));
  return error;
}

}  // namespace

std::optional<ApiError> KeyUse::refusal(KeyState* key, double now) {
  if (key && key->concurrent > 0 && key->running >= key->concurrent)
    return over_limit(fmt::format("The key '{}' may have {} requests at a time", key->name, key->concurrent),
                      1);
  return tokens_refusal(key, now);
}

std::optional<ApiError> KeyUse::tokens_refusal(KeyState* key, double now) {
  if (!key) return std::nullopt;
  if (const double wait_s = key->tokens.wait_for(1, now); wait_s > 0)
    return over_limit(fmt::format("The key '{}' has used its tokens of this minute", key->name), wait_s);
  return std::nullopt;
}

KeyUse KeyUse::begin(std::shared_ptr<KeyState> key) {
  KeyUse use;
  if (key) ++key->running;
  use.key_ = std::move(key);
  return use;
}

Result<std::vector<ApiKey>> read_key_file(const std::string& path) {
  constexpr size_t kFileBytes = 1u << 20;
  const auto text = read_file(path, kFileBytes);
  if (!text)
    return make_error(text.error().kind, "cannot read the API keys of '{}': {}", path, text.error().message);
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0 && (about.st_mode & S_IRWXO))
    log_warning("'{}' holds API keys, and every user of this machine may read or write it: chmod 600 it",
                path);
  std::vector<ApiKey> keys;
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view entry = trimmed(line);
    if (entry.empty() || entry[0] == '#') continue;
    auto key = read_line(entry);
    if (!key) return make_error(ErrorKind::invalid, "line {} of '{}': {}", number, path, key.error().message);
    keys.push_back(std::move(*key));
  }
  if (keys.empty())
    return make_error(ErrorKind::invalid, "'{}' has no API key in it: write one key on a line", path);
  return keys;
}

}  // namespace anabranch::server
