// Flags for MCP servers.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

void add_mcp_flags(CLI::App& app, McpFlags& o);
// --mcp-allow, for a command that asks its user before it calls a tool. Call it after add_mcp_flags.
void add_mcp_allow_flag(CLI::App& app, McpFlags& o);

}  // namespace anabranch::cli
