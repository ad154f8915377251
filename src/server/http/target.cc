#include "server/http/target.h"

#include <algorithm>

#include "base/lower_case.h"

namespace anabranch::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte that "%XY" at text[at] stands for, or -1.
int escaped_byte(std::string_view text, size_t at) {
  const int high = at + 1 < text.size() ? hex_digit(text[at + 1]) : -1;
  const int low = at + 2 < text.size() ? hex_digit(text[at + 2]) : -1;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
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

Result<Target> parse_target(std::string_view target) {
  Target result;
  for (std::string_view scheme : {"http://", "https://"}) {
    if (lower_case(target.substr(0, scheme.size())) != scheme) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?#"), target.size());
    result.authority = target.substr(0, end);
    target.remove_prefix(end);
    if (target.empty() || target[0] != '/') target = "/";
    break;
  }
  if (target.empty() || target[0] != '/')
    return make_error(ErrorKind::invalid, "the request target must start with '/'");
  target = target.substr(0, target.find_first_of("?#"));
  std::string& path = result.path;
  path.reserve(target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '/' && i > 0 && target[i - 1] == '/') continue;
    if (c == '%') {
      const int byte = escaped_byte(target, i);
      if (byte < 0)
        return make_error(ErrorKind::invalid, "bad percent escape at byte {} of the request target", i);
      c = static_cast<char>(byte);
      i += 2;
    }
    if (c == '\0') return make_error(ErrorKind::invalid, "the request target contains a NUL byte");
    path += c;
  }
  if (path.size() > 1 && target.back() == '/') path.pop_back();
  return result;
}

std::optional<std::string> query_value(std::string_view target, std::string_view name) {
  const size_t begin = target.find('?');
  if (begin == target.npos) return std::nullopt;
  std::string_view rest = target.substr(begin + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    std::string value;
    for (size_t i = equals + 1; i < pair.size(); ++i) {
      int byte = pair[i] == '+' ? ' ' : static_cast<unsigned char>(pair[i]);
      if (pair[i] == '%') byte = escaped_byte(pair, i), i += 2;
      if (byte <= 0) return std::nullopt;
      value += static_cast<char>(byte);
    }
    return value;
  }
  return std::nullopt;
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
  return lower_case(name);
}

std::string listening_name(const std::string& host) {
  return host_name(host.find("::") == 0 ? "[" + host + "]" : host).value_or("");
}

bool is_origin_of(std::string_view origin, std::string_view authority) {
  const size_t at = origin.find("://");
  if (at == std::string_view::npos) return false;
  const std::string_view port = lower_case(origin.substr(0, at)) == "https" ? ":443" : ":80";
  const auto plain = [&](std::string_view text) {
    const size_t name = text.size() - std::min(text.size(), port.size());
    if (text.substr(name) == port) text = text.substr(0, name);
    return lower_case(text);
  };
  return plain(origin.substr(at + 3)) == plain(authority);
}

bool is_loopback_name(std::string_view name) {
  if (name == "localhost" || name == "[::1]") return true;
  constexpr std::string_view kSuffix = ".localhost";
  if (name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix) return true;
  return name.substr(0, 4) == "127." && is_ip_address(name);
}

bool is_ip_address(std::string_view name) {
  if (!name.empty() && name[0] == '[') return true;
  // "127.evil.example" is an ordinary name, and programs disagree about the meaning of "127.0.0.256" and
  // "127.1".
  for (int number = 0; number < 4; ++number) {
    const size_t end = number < 3 ? name.find('.') : name.size();
    if (end == std::string_view::npos || end == 0 || end > 3 || (end > 1 && name[0] == '0')) return false;
    int value = 0;
    for (const char c : name.substr(0, end)) {
      if (c < '0' || c > '9') return false;
      value = value * 10 + (c - '0');
    }
    if (value > 255) return false;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return name.empty();
}

}  // namespace anabranch::server
