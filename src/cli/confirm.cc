#include "cli/confirm.h"

#include <unistd.h>

#include <cstdio>

#include "cli/print.h"

namespace anabranch::cli {

Result<bool> confirmed(const std::string& question) {
  if (!isatty(STDIN_FILENO))
    return make_error(ErrorKind::invalid, "{} Without a terminal to ask on, say --yes", question);
  say(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

}  // namespace anabranch::cli
