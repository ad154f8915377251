// The text of a message.
#pragma once

#include <string>
#include <utility>

#include "base/json.h"

namespace anabranch {

inline Json message_of(const char* role, Json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// The content itself if it is a text, or the texts of its parts. Other content is ignored.
std::string text_of(const Json& content);

// Whether a part of a content is a text: {"type": "text", "text": ...}.
bool is_text_part(const Json& part);

// Calls `visit` for each string (Json) that makes up the message's content, in order. Message: Json or const
// Json.
template <class Message, class Visit>
void for_each_text(Message& message, const Visit& visit) {
  if (!message.is_object()) return;
  const auto content = message.find("content");
  if (content == message.end()) return;
  if (content->is_string()) visit(*content);
  if (!content->is_array()) return;
  for (auto& part : *content)
    if (is_text_part(part)) visit(part["text"]);
}

// Puts `more` behind the content, with `between` between them if neither is empty. Each is a text, a list
// of parts, or null. The result is a text unless one of them is a list.
void append_content(Json& content, const Json& more, const std::string& between);

}  // namespace anabranch
