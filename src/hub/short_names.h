// Finds models by the short names that Ollama gives them.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::hub {

// Advice on the model with this name in Ollama ("llama3.2:1b", ignoring case), as a part of a sentence: where
// the hub has it, or that it cannot run here; "": it is not in our table.
std::string where_is(std::string_view short_name);

}  // namespace anabranch::hub
