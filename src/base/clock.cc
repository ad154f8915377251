#include "base/clock.h"

#include <fmt/chrono.h>

#include <ctime>

namespace anabranch {

std::string rfc3339(int64_t unix_nanoseconds) {
  const std::time_t seconds = unix_nanoseconds / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, unix_nanoseconds % 1'000'000'000);
}

}  // namespace anabranch
