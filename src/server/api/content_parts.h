// Converts message parts that are not plain text to text, for models that read only text. Used by OpenAI's
// and Anthropic's APIs.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace anabranch::server {

// Appends a text on a new line.
void add_line(std::string& text, const std::string& line);

// The text of a document or a search result; nullopt: the part has no text.
std::optional<std::string> readable_text(const Json& part);

// The text of the part; for parts without text, a few words in brackets that name it. Used for tool results:
// agents send them again with every later turn, so refusing one would end the conversation.
std::string shown_text(const Json& part);

}  // namespace anabranch::server
