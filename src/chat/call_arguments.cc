#include "chat/call_arguments.h"

#include <optional>

#include "base/json_text.h"
#include "base/white_space.h"

namespace anabranch {
namespace {

constexpr int kMostTexts = 4;  // a text in a text, and so on

// The JSON with the control characters in its strings escaped, as models forget to do.
std::string with_escapes(std::string_view text) {
  std::string out;
  StringScan string;
  for (const char c : text) {
    const bool inside = string.is_open();
    if (inside)
      string.take(c);
    else if (c == '"')
      string.open();
    if (inside && static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

std::optional<Json> object_in(std::string_view text, int depth = 0) {
  if (depth == kMostTexts) return std::nullopt;
  auto json = parse_json(text);
  if (!json.ok()) json = parse_json(with_escapes(text));
  if (!json.ok()) return std::nullopt;
  if (json->is_string()) return object_in(json->get_ref<const std::string&>(), depth + 1);
  return json->is_object() ? std::optional(std::move(*json)) : std::nullopt;
}

// The text that stands in for arguments which Claude Code could not parse; null: they are others.
const std::string* unparsed_text(const Json& arguments) {
  const auto marked = arguments.find("__unparsedToolInput");
  if (marked == arguments.end() || arguments.size() != 1 || !marked->is_object()) return nullptr;
  const auto raw = marked->find("raw");
  return raw != marked->end() && raw->is_string() ? raw->get_ptr<const std::string*>() : nullptr;
}

template <class Messages, class Visit>
void for_each_function(Messages& messages, const Visit& visit) {
  for (auto& message : messages) {
    if (!message.is_object()) continue;
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (auto& call : *calls) {
      if (!call.is_object()) continue;
      const auto function = call.find("function");
      if (function != call.end() && function->is_object()) visit(*function);
    }
  }
}

}  // namespace

Json read_arguments(const Json& arguments) {
  if (arguments.is_object()) {
    const std::string* raw = unparsed_text(arguments);
    return raw ? read_arguments(Json(*raw)) : arguments;
  }
  if (arguments.is_null()) return Json::object();
  if (!arguments.is_string()) return dump_json(arguments);
  const auto& text = arguments.get_ref<const std::string&>();
  if (is_blank(text)) return Json::object();
  auto object = object_in(text);
  return object ? read_arguments(*object) : arguments;
}

void read_all_arguments(Json& messages) {
  for_each_function(messages, [](Json& function) {
    function["arguments"] = read_arguments(function.value("arguments", Json()));
  });
}

bool has_unread_arguments(const Json& messages) {
  bool unread = false;
  for_each_function(messages, [&](const Json& function) {
    const auto arguments = function.find("arguments");
    unread |= arguments == function.end() || !arguments->is_object();
  });
  return unread;
}

void name_text_arguments(Json& messages) {
  for_each_function(messages, [](Json& function) {
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) return;
    Json text = std::move(*arguments);
    *arguments = {{"arguments", std::move(text)}};
  });
}

void write_object_arguments(Json& messages) {
  for_each_function(messages, [](Json& function) {
    const auto arguments = function.find("arguments");
    if (arguments != function.end() && arguments->is_object()) *arguments = dump_json(*arguments);
  });
}

}  // namespace anabranch
