// Tags that may arrive in pieces.
#pragma once

#include <string_view>

#include "base/json_text.h"

namespace anabranch {

// Whether a text that may go on begins with `mark`. More: it may do so when it goes on.
inline Scan begins_with(std::string_view text, std::string_view mark) {
  const auto here = text.substr(0, mark.size());
  if (here == mark) return Scan::complete;
  return mark.substr(0, here.size()) == here ? Scan::more : Scan::broken;
}

}  // namespace anabranch
