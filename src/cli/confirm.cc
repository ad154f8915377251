#include "cli/confirm.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace anabranch::cli {

Result<bool> confirmed(const std::string& question) {
  if (!isatty(STDIN_FILENO))
    return make_error(ErrorKind::invalid, "{} Without a terminal to ask on, say --yes", question);
  fmt::print(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

}  // namespace anabranch::cli
