// The user's directories for files that can be made again (cache), records of the program's runs (state), and
// the user's own data.
#pragma once

#include <string>

namespace anabranch {

// $XDG_CACHE_HOME/anabranch, or ~/.cache/anabranch; empty if neither variable holds an absolute path. It may
// not exist.
std::string user_cache_directory();
// $XDG_STATE_HOME/anabranch, or ~/.local/state/anabranch; otherwise the same.
std::string user_state_directory();
// $XDG_DATA_HOME/anabranch, or ~/.local/share/anabranch; otherwise the same.
std::string user_data_directory();

}  // namespace anabranch
