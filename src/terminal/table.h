// Formats Markdown tables in columns.
#pragma once

#include <string>
#include <vector>

#include "terminal/wrapper.h"

namespace anabranch::terminal {

// Shows lines that begin with '|' as a table whose cells wrap at the width. Lines that are not a table (the
// second line has no dashes) are shown unchanged.
void format_table(const std::vector<std::string>& lines, Wrapper& out);

}  // namespace anabranch::terminal
