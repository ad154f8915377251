#include "base/user_directory.h"

#include <cstdlib>

namespace anabranch {
namespace {

std::string user_directory(const char* variable, const char* below_home) {
  if (const char* directory = std::getenv(variable); directory && directory[0] == '/')
    return std::string(directory) + "/anabranch";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + below_home + "/anabranch";
  return {};
}

}  // namespace

std::string user_cache_directory() {
  return user_directory("XDG_CACHE_HOME", "/.cache");
}
std::string user_state_directory() {
  return user_directory("XDG_STATE_HOME", "/.local/state");
}
std::string user_data_directory() {
  return user_directory("XDG_DATA_HOME", "/.local/share");
}

}  // namespace anabranch
