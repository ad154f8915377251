// Commands as users of other programs type them, and advice for the first steps.
#pragma once

#include <string>
#include <vector>

namespace anabranch::cli {

// Replaces other programs' commands in the command line by ours: `help [COMMAND]`, `run MODEL [PROMPT]`,
// `list`, `ps`, `server`. Also adds --model before a model that follows its command without that flag.
void use_our_commands(std::vector<std::string>& words);

// Takes the words behind "--" out of a command line with `launch`, and returns them: they are for the program
// that it runs, whatever they look like.
std::vector<std::string> take_passed_on(std::vector<std::string>& words);

// Advice for somebody who typed only the program's name, with a model on this machine if there is one.
std::string first_steps();

}  // namespace anabranch::cli
