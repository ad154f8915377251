// Images on the command line: reads files, and makes messages in the chat API's format with them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace anabranch::cli {

// Reads the file as a part {"type": "image_url", ...} of a message. Errors: io, not_found, exhausted (larger
// than the server accepts), invalid (not an image of a known type).
Result<Json> image_part(const std::string& path);
Result<std::vector<Json>> image_parts(const std::vector<std::string>& paths);
// A user's message, with the images before the text.
Json user_message(const std::string& text, const std::vector<Json>& images);

// Converts a message to the format that sessions store (sessions/session.h), and back.
Json kept_message(const Json& message);
Json chat_message(const Json& kept);

}  // namespace anabranch::cli
