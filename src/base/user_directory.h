// Where this user's programs keep what they can make again.
#pragma once

#include <string>

namespace anabranch {

// $XDG_CACHE_HOME/anabranch, or ~/.cache/anabranch; empty if neither variable holds an absolute path. Need
// not exist.
std::string user_cache_directory();

}  // namespace anabranch
