#include "base/user_directory.h"

#include <cstdlib>

namespace anabranch {

std::string user_cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && cache[0] == '/')
    return std::string(cache) + "/anabranch";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.cache/anabranch";
  return {};
}

}  // namespace anabranch
