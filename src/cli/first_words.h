// Commands as users of other programs type them, and advice for the first steps.
#pragma once

#include <string>
#include <vector>

namespace anabranch::cli {

// Turns such a command line into ours: `help [COMMAND]`, `run MODEL [PROMPT]`, `list`, `ps`, `server`, and a
// model that follows its command without --model.
void use_our_commands(std::vector<std::string>& words);

// Advice for somebody who typed only the program's name, with a model on this machine if there is one.
std::string first_steps();

}  // namespace anabranch::cli
