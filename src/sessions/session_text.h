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

// A line {"session": {"title", "model", "created_at", "settings", "metadata"}}, then a line for each message
// of the branch: the message with "about" and "created_at".
std::string to_json_lines(const Session& session, std::span<const SessionMessage> messages);

// A heading, then each message under the name of its role; thoughts and calls are marked as such.
std::string to_markdown(const Session& session, std::span<const SessionMessage> messages);

// A chat message in any of the forms in which clients have it ("content" may be an array of parts with
// "text"), with "about" and "created_at" where it has them; other fields are left out. Nothing if it has no
// role, no text, or calls of another form.
std::optional<NewMessage> message_from(Json json);

// What to_json_lines() wrote, for one session or several one after the other. Lines with "messages", an array
// of chat messages, are taken as well: a session each. Errors: invalid (with the number of the line).
Result<std::vector<NewSession>> from_json_lines(std::string_view text);

}  // namespace anabranch
