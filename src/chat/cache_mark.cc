#include "chat/cache_mark.h"

#include <algorithm>

#include "base/white_space.h"

namespace anabranch {
namespace {

// A text that begins otherwise than this one.
const char* other_text(std::string_view text) {
  return trimmed(text).starts_with('A') ? "9" : "A";
}

// Puts other text before a message's own.
void change_beginning(Json& message) {
  Json& content = message["content"];
  if (content.is_array()) {
    const std::string first = content.empty() ? "" : string_at(content.front(), "text");
    content.insert(content.begin(), Json{{"type", "text"}, {"text", other_text(first)}});
  } else {
    content = other_text(string_at(message, "content"));
  }
  if (message.contains("reasoning_content"))
    message["reasoning_content"] = other_text(string_at(message, "reasoning_content"));
}

// Puts other text behind the first `bytes` of the message's text; false if it is not longer than that.
bool change_within(Json& message, size_t bytes) {
  const auto change = [](std::string& text, size_t at) {
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;  // not within a character
    text.insert(at, other_text(std::string_view(text).substr(at)));
    return true;
  };
  Json& content = message["content"];
  if (content.is_string()) {
    auto& text = content.get_ref<std::string&>();
    return bytes < text.size() && change(text, bytes);
  }
  for (Json& part : content) {
    if (string_at(part, "type") != "text") continue;
    auto& text = part["text"].get_ref<std::string&>();
    if (bytes < text.size()) return change(text, bytes);
    bytes -= text.size();
  }
  return false;
}

}  // namespace

CacheWrites cache_writes(const std::vector<MarkedLength>& marks, int cached) {
  int end = cached, hour_end = cached;
  for (const MarkedLength& mark : marks) {
    end = std::max(end, mark.length);
    if (mark.hour) hour_end = std::max(hour_end, mark.length);
  }
  return {.five_minutes = end - hour_end, .hour = hour_end - cached};
}

void move_marks(std::vector<CacheMark>& marks, const Json& messages, std::span<const VolatileRule> rules) {
  for (CacheMark& mark : marks) {
    if (mark.in != CacheMark::In::message || mark.index >= messages.size()) continue;
    const Json& message = messages[mark.index];
    const std::string text = string_at(message, "content");
    if (string_at(message, "role") != "system" || mark.bytes >= text.size()) continue;
    Json before = Json::array(
        {{{"role", "system"}, {"content", text.substr(0, mark.bytes)}}, {{"role", "user"}, {"content", ""}}});
    split_volatile_text(before, rules);
    mark.bytes = string_at(before[0], "content").size();
  }
}

std::optional<size_t> change_behind(const CacheMark& mark, Json& messages, Json& tools) {
  if (mark.in == CacheMark::In::tools) {
    if (!tools.is_array() || mark.index >= tools.size()) return std::nullopt;
    const size_t next = mark.index + 1;
    const Json following =
        next < tools.size() ? tools[next].value("function", Json::object()) : Json::object();
    const char* other = other_text(string_at(following, "name"));
    tools.erase(tools.begin() + static_cast<std::ptrdiff_t>(next), tools.end());
    tools.push_back(
        {{"type", "function"},
         {"function", {{"name", other}, {"description", other}, {"parameters", Json::object()}}}});
    return messages.size();
  }
  if (mark.index >= messages.size()) return std::nullopt;
  if (change_within(messages[mark.index], mark.bytes)) return mark.index;
  if (mark.index + 1 == messages.size()) return std::nullopt;
  change_beginning(messages[mark.index + 1]);
  return mark.index + 1;
}

}  // namespace anabranch
