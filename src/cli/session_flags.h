// Flags about stored conversations.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

void add_server_session_flags(CLI::App& app, ServeOptions& o);
void add_chat_session_flags(CLI::App& app, ChatOptions& o);
void add_mcp_session_flag(CLI::App& app, ChatOptions& o);
CLI::App* add_sessions(CLI::App& app, SessionsOptions& o);

}  // namespace anabranch::cli
