// The flags of `serve`.
#pragma once

#include <vector>

#include "cli/flag_table.h"
#include "cli/serve_options.h"

namespace anabranch::cli {

std::vector<FlagGroup> serve_flags(ServeOptions& o);

}  // namespace anabranch::cli
