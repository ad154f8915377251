// Tables of Markdown in columns.
#pragma once

#include <string>
#include <vector>

#include "terminal/wrapper.h"

namespace anabranch::terminal {

// Shows lines that begin with '|' as a table whose cells break at the width. Lines that are none (no second
// line of dashes) are shown as they are.
void format_table(const std::vector<std::string>& lines, Wrapper& out);

}  // namespace anabranch::terminal
