#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/outside_text.h"

namespace anabranch {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed%s%s\n", file, line, condition, message.empty() ? "" : ": ",
               escape_line(message).c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace anabranch
