#include "text/tool_json.h"

#include <algorithm>

namespace anabranch::text {
namespace {

// After the opening quote: the index behind the closing one.
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

// Outside strings JSON has only these: brackets, separators, numbers, true, false, null.
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

namespace {

// The arguments as the text of an object; nullopt: they are something else.
std::optional<std::string> arguments_text(const Json& value, std::string_view text) {
  if (value.is_null()) return "{}";
  if (value.is_object()) return std::string(text);
  if (!value.is_string()) return std::nullopt;
  const auto& inner = value.get_ref<const std::string&>();
  const auto parsed = parse_json(inner);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  return inner;
}

std::optional<ToolCall> call_from(const Json& json, std::string_view text, bool need_arguments, bool nested) {
  if (!json.is_object()) return std::nullopt;
  ToolCall call{string_at(json, "name"), ""};
  bool found = false;
  // Of repeated keys the last counts, as in parse_json.
  for (const JsonItem& item : json_items(text)) {
    if (item.key == "arguments" || item.key == "parameters") {
      auto arguments = arguments_text(json[item.key], item.value);
      if (!arguments) return std::nullopt;
      call.arguments = std::move(*arguments);
      found = true;
    } else if (item.key == "function" && json[item.key].is_object() && !nested) {
      return call_from(json[item.key], item.value, need_arguments, true);
    }
  }
  if (call.name.empty() || call.name.size() > kMaxNameBytes || (need_arguments && !found))
    return std::nullopt;
  if (!found) call.arguments = "{}";
  return call;
}

}  // namespace

std::optional<ToolCall> call_from_json(std::string_view text, bool need_arguments) {
  const auto json = parse_json(text);
  if (!json.ok()) return std::nullopt;
  return call_from(*json, text, need_arguments, false);
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

}  // namespace anabranch::text
