// Images of the command line: files, and messages that hold them as the chat API has them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace anabranch::cli {

// The file as a part {"type": "image_url", ...} of a message. Errors: io, not_found, exhausted (more than the
// server takes), invalid (no image of a kind that is known).
Result<Json> image_part(const std::string& path);
Result<std::vector<Json>> image_parts(const std::vector<std::string>& paths);
// A user's message; the images stand before the text.
Json user_message(const std::string& text, const std::vector<Json>& images);

// The message as sessions keep it (sessions/session.h), and back.
Json kept_message(const Json& message);
Json chat_message(const Json& kept);

}  // namespace anabranch::cli
