#include "base/json_text.h"

#include <algorithm>

#include "base/white_space.h"

namespace anabranch {
namespace {

// at: after the opening quote. Returns the index after the closing one.
size_t string_end(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

size_t value_end(std::string_view text, size_t at) {
  if (text[at] == '"') return string_end(text, at + 1);
  if (text[at] == '{' || text[at] == '[') {
    JsonScan().advance(text, at);
    return at;
  }
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

// Whether JSON can have c outside strings: brackets, separators, numbers, true, false, null.
bool fits(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         std::string_view(" \t\r\n{}[],:\"+-.E").find(c) != std::string_view::npos;
}

}  // namespace

Scan JsonScan::advance(std::string_view text, size_t& at) {
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (string_.is_open()) {
      string_.take(c);
      continue;
    }
    if (open_.empty() && c != '{' && c != '[') return Scan::broken;
    if (c == '"') {
      string_.open();
    } else if (c == '{' || c == '[') {
      open_ += c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      if (open_.back() != c) return Scan::broken;
      open_.pop_back();
      if (!open_.empty()) continue;
      ++at;
      return Scan::complete;
    } else if (!fits(c)) {
      return Scan::broken;
    }
  }
  return Scan::more;
}

std::optional<unsigned> escaped_unit(std::string_view text) {
  if (text.size() < kEscapeBytes || text.substr(0, 2) != "\\u") return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(2, kEscapeBytes - 2)) {
    const size_t digit = std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? c + 32 : c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return value;
}

std::vector<JsonItem> json_items(std::string_view text) {
  std::vector<JsonItem> items;
  size_t at = text.find_first_of("{[");
  if (at == std::string_view::npos) return items;
  const bool object = text[at++] == '{';
  for (;;) {
    at = text.find_first_not_of(" \t\r\n,", at);
    if (at == std::string_view::npos || text[at] == '}' || text[at] == ']') return items;
    JsonItem item;
    if (object) {
      const size_t end = string_end(text, at + 1);
      auto key = parse_json(text.substr(at, end - at));
      if (!key.ok() || !key->is_string()) return items;
      item.key = key->get<std::string>();
      at = text.find_first_not_of(" \t\r\n:", end);
      if (at == std::string_view::npos) return items;
    }
    const size_t end = value_end(text, at);
    item.value = text.substr(at, end - at);
    items.push_back(std::move(item));
    at = end;
  }
}

std::string json_string(std::string_view text) {
  return dump_json(std::string(text));
}

std::optional<std::string> literal_json(std::string_view text) {
  text = trimmed(text);
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  if (parse_json(text).ok()) return std::string(text);
  return std::nullopt;
}

}  // namespace anabranch
