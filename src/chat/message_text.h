// The text of a message.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch {

// Of a content: the text itself, or the texts of its parts. Nothing of what is no text.
std::string text_of(const Json& content);

}  // namespace anabranch
