// Parts of messages that are not plain text, as a model that reads text can be shown them. Of either API.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace anabranch::server {

// Puts a text behind another, on lines of its own.
void add_line(std::string& text, const std::string& line);

// The text in a document or a search result; nothing: there is none to be read in this part.
std::optional<std::string> readable_text(const Json& part);

// That, or for everything else a few words in brackets that name what is not shown. For the results of tools:
// agents send these again with every later turn, so refusing one would end the conversation.
std::string shown_text(const Json& part);

}  // namespace anabranch::server
