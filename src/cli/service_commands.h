// `stop` and `status`: for servers that have a pid file (pid_file.h), such as those of `serve --detach`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

CLI::App* add_stop(CLI::App& app, StopOptions& options);
CLI::App* add_status(CLI::App& app, StatusOptions& options);

}  // namespace anabranch::cli
