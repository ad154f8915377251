// Commands as users of other programs type them, and what to do first.
#pragma once

#include <string>
#include <vector>

namespace anabranch::cli {

// Turns such a command line into ours: `help [COMMAND]`, `run MODEL [PROMPT]`, `list`, `ps`, `server`, and a
// model that follows its command without --model.
void use_our_commands(std::vector<std::string>& words);

// For somebody who typed the program's name only: what to do next, with a model of this machine if there is
// one.
std::string first_steps();

}  // namespace anabranch::cli
