// Scripts that complete words of the command line in a shell.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace anabranch::cli {

// shell: "bash", "zsh" or "fish".
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace anabranch::cli
