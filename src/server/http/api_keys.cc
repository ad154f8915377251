#include "server/http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <sstream>

#include "base/mapped_file.h"

namespace anabranch::server {
namespace {

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The token after "Bearer " (case-insensitive, RFC 9110, 11.1); empty for another scheme.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = header[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kScheme[i]) return "";
  }
  return trim(header.substr(kScheme.size()));
}

}  // namespace

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

Result<ApiKeys> ApiKeys::make(const std::vector<std::string>& keys) {
  ApiKeys result;
  for (const std::string& key : keys) {
    if (key.empty() || std::any_of(key.begin(), key.end(), [](char c) { return c < '!' || c > '~'; }))
      return make_error(
          ErrorKind::invalid,
          "an API key must be made of visible ASCII characters, without spaces, and not be empty");
    result.digests_.push_back(digest(key));
  }
  return result;
}

// Compares digests, which all have the same length, without an early exit, so that the time reveals nothing
// about the key.
bool ApiKeys::admit(const HttpRequest& request) const {
  if (empty()) return true;
  bool found = false;
  const auto look = [&](std::string_view key) {
    const Digest shown = digest(key);
    for (const Digest& known : digests_)
      found |= CRYPTO_memcmp(known.data(), shown.data(), shown.size()) == 0;
  };
  if (const std::string* header = request.header("authorization")) look(bearer(*header));
  if (const std::string* header = request.header("x-api-key")) look(trim(*header));
  return found;
}

Result<std::vector<std::string>> read_key_file(const std::string& path) {
  constexpr size_t kFileBytes = 1u << 20;
  const auto text = read_file(path, kFileBytes);
  if (!text)
    return make_error(text.error().kind, "cannot read the API keys of '{}': {}", path, text.error().message);
  std::vector<std::string> keys;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view key = trim(line);
    if (!key.empty() && key[0] != '#') keys.emplace_back(key);
  }
  if (keys.empty())
    return make_error(ErrorKind::invalid, "'{}' has no API key in it: write one a line", path);
  return keys;
}

}  // namespace anabranch::server
