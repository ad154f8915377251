// JSON with text from files, servers and clients where it is printed: by base/log.h, and by cli/print.h for
// what commands print.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// Of JSON: what is hidden in its strings as JSON's own escapes ("\u202e"). Line feeds stay.
std::string escape_json(std::string_view json);

}  // namespace anabranch
