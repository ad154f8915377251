#include "server/http_target.h"

#include <algorithm>

namespace anabranch::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return result;
}

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

}  // namespace

Result<std::string> target_path(std::string_view target) {
  // Absolute form, which clients of a proxy send.
  for (std::string_view scheme : {"http://", "https://"}) {
    if (lower(target.substr(0, scheme.size())) != scheme) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    break;
  }
  if (target.empty() || target[0] != '/')
    return make_error(ErrorKind::invalid, "the request target must start with '/'");
  target = target.substr(0, target.find_first_of("?#"));
  std::string path;
  path.reserve(target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%') {
      const int high = i + 1 < target.size() ? hex_digit(target[i + 1]) : -1;
      const int low = i + 2 < target.size() ? hex_digit(target[i + 2]) : -1;
      if (high < 0 || low < 0)
        return make_error(ErrorKind::invalid, "bad percent escape at byte {} of the request target", i);
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return make_error(ErrorKind::invalid, "the request target contains a NUL byte");
    path += c;
  }
  return path;
}

std::optional<std::string> host_name(std::string_view authority) {
  std::string_view name, rest;
  if (!authority.empty() && authority[0] == '[') {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos || close == 1) return std::nullopt;
    name = authority.substr(0, close + 1);
    rest = authority.substr(close + 1);
    for (char c : name.substr(1, name.size() - 2))
      if (hex_digit(c) < 0 && c != ':' && c != '.') return std::nullopt;
  } else {
    const size_t colon = authority.find(':');
    name = authority.substr(0, colon);
    if (colon != std::string_view::npos) rest = authority.substr(colon);
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_char)) return std::nullopt;
  }
  if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return std::nullopt;
  return lower(name);
}

std::string listening_name(const std::string& host) {
  return host_name(host.find("::") == 0 ? "[" + host + "]" : host).value_or("");
}

std::optional<std::string> origin_host(std::string_view origin) {
  const size_t at = origin.find("://");
  if (at == std::string_view::npos) return std::nullopt;
  return host_name(origin.substr(at + 3));
}

bool is_loopback_name(std::string_view name) {
  if (name == "localhost" || name == "[::1]") return true;
  constexpr std::string_view kSuffix = ".localhost";
  if (name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix) return true;
  // 127.x.y.z as four plain numbers; "127.evil.example" is an ordinary name.
  if (name.substr(0, 4) != "127.") return false;
  int dots = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '.') {
      if (++dots > 3 || name[i - 1] == '.') return false;
    } else if (name[i] < '0' || name[i] > '9') {
      return false;
    }
  }
  return dots == 3 && name.back() != '.';
}

}  // namespace anabranch::server
