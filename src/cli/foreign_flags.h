// Translates flag names of llama.cpp, mlx-lm, vLLM and Ollama to ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::cli {

// Replaces such flags by ours in a command line that includes its sub-command.
void use_our_names(std::vector<std::string>& words);

// Our name of a flag of the sub-command, both without dashes. Returns the name itself if it is ours or
// unknown.
std::string our_name(const std::string& command, const std::string& name);

// The other programs' long flags that the sub-command accepts.
std::vector<std::string> foreign_flags_of(std::string_view command);

// Advice for a flag or sub-command that other programs have and we do not; "": the word is unknown.
std::string_view instead_of(std::string_view word);

}  // namespace anabranch::cli
