// Text from files, servers and clients where it is printed: by base/log.h, and by cli/print.h for what
// commands print.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// escape_hidden() on one line: line feeds and tabs, too, as "\n" and "\t".
std::string escape_line(std::string_view text);

// Of JSON: what is hidden in its strings as JSON's own escapes ("\u202e"). Line feeds stay.
std::string escape_json(std::string_view json);

}  // namespace anabranch
