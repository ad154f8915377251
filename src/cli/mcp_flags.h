// Flags about servers of tools.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

void add_mcp_flags(CLI::App& app, McpFlags& o);

}  // namespace anabranch::cli
