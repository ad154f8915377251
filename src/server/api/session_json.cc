#include "server/api/session_json.h"

#include <fmt/format.h>

#include <charconv>

namespace anabranch::server {

std::string message_name(MessageId id) {
  return fmt::format("msg_{}", id);
}

std::optional<MessageId> message_id(const std::string& name) {
  MessageId id = 0;
  if (!name.starts_with("msg_")) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size() || id <= 0) return std::nullopt;
  return id;
}

Json session_json(const Session& session) {
  Json json = {{"id", session.id},
               {"object", "session"},
               {"title", session.title},
               {"model", session.model},
               {"created_at", session.created_at},
               {"updated_at", session.updated_at},
               {"head", session.head == kNoMessage ? Json() : Json(message_name(session.head))},
               {"message_count", session.messages},
               {"bytes", session.bytes},
               {"settings", session.settings},
               {"metadata", session.metadata}};
  if (session.snippet.empty()) return json;
  for (const SnippetPart& part : session.snippet)
    json["snippet"].push_back({{"text", part.text}, {"match", part.match}});
  return json;
}

Json message_json(const SessionMessage& message) {
  Json json = message.message;
  json["id"] = message_name(message.id);
  json["parent"] = message.parent == kNoMessage ? Json() : Json(message_name(message.parent));
  if (const auto calls = json.find("tool_calls"); calls != json.end() && calls->is_array())
    for (Json& call : *calls)
      if (call.is_object() && call.contains("function") && call["function"].is_object() &&
          call["function"].contains("arguments") && !call["function"]["arguments"].is_string())
        call["function"]["arguments"] = dump_json(call["function"]["arguments"]);  // text, as in OpenAI's API
  json["created_at"] = message.created_at;
  for (const char* name : {"model", "response_id", "status", "usage", "seconds", "thinking_seconds", "mcp",
                           "mcp_calls", "mcp_calls", "cache_point"})
    if (const auto value = message.about.find(name); value != message.about.end()) json[name] = *value;
  json["siblings"] = Json::array();
  for (const MessageId sibling : message.siblings) json["siblings"].push_back(message_name(sibling));
  return json;
}

ApiError session_error(const Error& error) {
  if (error.kind == ErrorKind::not_found) return {404, error.message, "", "session_not_found"};
  if (error.kind == ErrorKind::busy) return {503, error.message, "", "busy"};
  if (error.kind == ErrorKind::exhausted) return {507, error.message, "", "disk_full"};
  return error;
}

}  // namespace anabranch::server
