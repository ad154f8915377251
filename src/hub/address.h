// Web addresses that people paste where a model's name is expected.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace anabranch::hub {

enum class Site {
  none,   // not an address
  hub,    // huggingface.co, by any of its names
  other,  // another web site, with models that are not on the hub
};

// Removes scheme and host; from the hub's addresses also query, fragment and slashes at the end.
Site cut_site(std::string_view& text);

// Advice on a text that is not a model's name, as the end of a sentence: how to get a model from Ollama or
// ModelScope, or otherwise which names are valid.
std::string advice_on(std::string_view text);

}  // namespace anabranch::hub
