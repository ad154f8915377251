#include "server/api/chat_blocks.h"

#include <algorithm>
#include <utility>

namespace anabranch::server {
namespace {

bool is_block(const Json& part, const char* type) {
  return part.is_object() && string_at(part, "type") == type;
}

Json member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

bool is_answer(const Json& message) {
  return string_at(message, "role") == "assistant";
}

}  // namespace

bool has_call_blocks(const Json& message) {
  if (!message.is_object()) return false;
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return false;
  return std::ranges::any_of(*content, [&](const Json& part) {
    if (!is_answer(message)) return is_block(part, "tool_result");
    return is_block(part, "tool_use") || is_block(part, "thinking") || is_block(part, "redacted_thinking");
  });
}

std::vector<Json> without_call_blocks(const Json& message) {
  std::vector<Json> messages;
  Json rest = message, parts = Json::array(), calls = Json::array();
  std::string thoughts;
  const bool answer = is_answer(message);
  for (const Json& part : message["content"]) {
    if (!answer && is_block(part, "tool_result"))
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", member(part, "tool_use_id")},
                          {"content", member(part, "content")}});
    else if (answer && is_block(part, "tool_use"))
      calls.push_back({{"id", member(part, "id")},
                       {"function", {{"name", member(part, "name")}, {"arguments", member(part, "input")}}}});
    else if (answer && is_block(part, "thinking"))
      thoughts += string_at(part, "thinking");
    else if (!answer || !is_block(part, "redacted_thinking"))
      parts.push_back(part);
  }
  const bool anything = !parts.empty() || !calls.empty() || answer;
  rest["content"] = std::move(parts);
  if (!calls.empty()) rest["tool_calls"] = std::move(calls);
  if (!thoughts.empty() && !rest.contains("reasoning_content")) rest["reasoning_content"] = thoughts;
  if (anything) messages.push_back(std::move(rest));
  return messages;
}

}  // namespace anabranch::server
