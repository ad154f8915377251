#include "chat/message_text.h"

namespace anabranch {

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const Json& part : content) text += string_at(part, "text");
  return text;
}

}  // namespace anabranch
