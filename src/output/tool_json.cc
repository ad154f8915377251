#include "output/tool_json.h"

#include "output/lenient_json.h"

namespace anabranch {
namespace {

// The arguments as the text of a JSON object; nullopt if they are something else.
std::optional<std::string> arguments_text(const Json& value, std::string_view text) {
  if (value.is_null()) return "{}";
  if (value.is_object()) return std::string(text);
  if (!value.is_string()) return std::nullopt;
  const auto& inner = value.get_ref<const std::string&>();
  const auto parsed = parse_json(inner);
  if (parsed.ok()) return parsed->is_object() ? std::optional(inner) : std::nullopt;
  auto read = lenient_json(inner);
  return read && read->front() == '{' ? read : std::nullopt;
}

std::optional<ToolCall> call_from(const Json& json, std::string_view text, bool need_arguments, bool nested) {
  if (!json.is_object()) return std::nullopt;
  ToolCall call{string_at(json, json.contains("name") ? "name" : "tool_name"), ""};
  bool found = false;
  // If a key is repeated, the last one counts, as in parse_json.
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

std::optional<ToolCall> call_under_its_name(std::string_view text) {
  const auto json = parse_json(text);
  if (!json.ok() || !json->is_object() || json->size() != 1 || !json->begin()->is_object())
    return std::nullopt;
  const auto items = json_items(text);
  ToolCall call{json->begin().key(), std::string(items.back().value)};
  return call.name.empty() || call.name.size() > kMaxNameBytes ? std::nullopt : std::optional(call);
}

std::optional<ToolCall> call_from_json(std::string_view text, bool need_arguments) {
  const auto json = parse_json(text);
  if (!json.ok()) return std::nullopt;
  return call_from(*json, text, need_arguments, false);
}

}  // namespace anabranch
