// Sessions as text: JSON lines that can be imported again, and Markdown for people.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sessions/session.h"

namespace anabranch {

// One line {"session": {"title", "model", "created_at", "settings", "metadata"}}, then one line for each
// message of the branch: the message with "about" and "created_at".
std::string to_json_lines(const Session& session, std::span<const SessionMessage> messages);

// A heading, then each message under the name of its role; thoughts and calls are marked.
std::string to_markdown(const Session& session, std::span<const SessionMessage> messages);

// A chat message in any of the formats that clients use ("content" may be an array of parts with "text"),
// with "about" and "created_at" if present; other fields are left out. Nothing if it has no role, no text, or
// calls of another format.
std::optional<NewMessage> message_from(Json json);

// Reads the output of to_json_lines(), for one session or several in a row. Also accepts lines with
// "messages", an array of chat messages: each line becomes a session. Errors: invalid (with the number of the
// line).
Result<std::vector<NewSession>> from_json_lines(std::string_view text);

}  // namespace anabranch
