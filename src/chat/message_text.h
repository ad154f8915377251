// The text of a message.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch {

// The content itself if it is a text, or the texts of its parts. Other content is ignored.
std::string text_of(const Json& content);

}  // namespace anabranch
