// Models by the short names that Ollama gives them.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::hub {

// About the model that Ollama calls so ("llama3.2:1b", in any letters), as a part of a sentence: where the
// hub has it, or that it does not run here; "": it is not in our table.
std::string where_is(std::string_view short_name);

}  // namespace anabranch::hub
