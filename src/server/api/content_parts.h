// Converts message parts that are not plain text to text, for models that read only text. Used by OpenAI's
// and Anthropic's APIs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace anabranch::server {

// Appends a text on a new line.
void add_line(std::string& text, const std::string& line);

// The text of a document or a search result; nullopt: the part has no text.
std::optional<std::string> readable_text(const Json& part);

// The text of the part; for parts without text, a few words in brackets that name it. Used for results of
// tools and other kept messages.
std::string shown_text(const Json& part);

// For each message (or item of the Responses API): whether it is kept, which means that it was answered
// before, or stands beside results of tools. Clients send kept messages again with every later turn, so what
// the model cannot read in them becomes a placeholder; refusing it would end the conversation.
std::vector<bool> kept_messages(const Json& messages);

}  // namespace anabranch::server
