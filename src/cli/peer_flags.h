// Flags as llama.cpp, mlx-lm, vLLM and Ollama name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::cli {

// Replaces such flags of a command line (its sub-command included) by ours.
void use_our_names(std::vector<std::string>& words);

// Our name of a flag of the sub-command, both without dashes; the name itself when it is ours, or nobody's.
std::string our_name(const std::string& command, const std::string& name);

// The long flags of peers that the sub-command takes.
std::vector<std::string> peer_flags_of(std::string_view command);

// What to do instead of a flag or sub-command that peers have and we do not; "": nothing is known of it.
std::string_view instead_of(std::string_view word);

}  // namespace anabranch::cli
