// The flags of `pull`, `ls`, `show` and `rm`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

CLI::App* add_pull(CLI::App& app, PullOptions& options);
CLI::App* add_ls(CLI::App& app, ListOptions& options);
CLI::App* add_show(CLI::App& app, ShowOptions& options);
CLI::App* add_rm(CLI::App& app, RemoveOptions& options);

}  // namespace anabranch::cli
