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

}  // namespace

bool has_call_blocks(const Json& message) {
  if (!message.is_object()) return false;
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return false;
  const char* type = string_at(message, "role") == "assistant" ? "tool_use" : "tool_result";
  return std::ranges::any_of(*content, [&](const Json& part) { return is_block(part, type); });
}

std::vector<Json> without_call_blocks(const Json& message) {
  std::vector<Json> messages;
  Json rest = message, parts = Json::array(), calls = Json::array();
  for (const Json& part : message["content"]) {
    if (is_block(part, "tool_result"))
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", member(part, "tool_use_id")},
                          {"content", member(part, "content")}});
    else if (is_block(part, "tool_use"))
      calls.push_back({{"id", member(part, "id")},
                       {"function", {{"name", member(part, "name")}, {"arguments", member(part, "input")}}}});
    else
      parts.push_back(part);
  }
  const bool anything = !parts.empty() || !calls.empty();
  rest["content"] = std::move(parts);
  if (!calls.empty()) rest["tool_calls"] = std::move(calls);
  if (anything) messages.push_back(std::move(rest));
  return messages;
}

}  // namespace anabranch::server
