// Handling of all flags: which ones the help hides, and messages about wrong flags.
#pragma once

#include <CLI/CLI.hpp>

namespace anabranch::cli {

// Removes useless parts from the help: ranges such as "INT in [0 - 134217728]".
void tidy_help(CLI::App& app);

// Prints CLI11's help or error (which names the wrong word and the nearest right one), and returns the exit
// status.
int explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace anabranch::cli
