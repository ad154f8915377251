// Addresses that people paste where a model's name is wanted.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace anabranch::hub {

enum class Site {
  none,   // no address
  hub,    // huggingface.co, by one of its names
  other,  // another web site, whose models are not on the hub
};

// Cuts scheme and host off, of the hub's addresses also query, fragment and slashes at the end.
Site cut_site(std::string_view& text);

// What to do about a text that is no model's name, as the end of a sentence: how to get a model of Ollama or
// ModelScope, or else which names there are.
std::string advice_on(std::string_view text);

}  // namespace anabranch::hub
