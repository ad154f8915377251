#include "cli/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace anabranch::cli {

std::string size_text(uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (n < 1e6) return fmt::format("{:.1f} kB", n / 1e3);
  return n < 1e9 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.2f} GB", n / 1e9);
}

std::string age_text(int64_t then_ns) {
  const double s = std::max(0.0, static_cast<double>(unix_nanoseconds() - then_ns) / 1e9);
  if (s < 60) return fmt::format("{:.0f} s ago", s);
  if (s < 3600) return fmt::format("{:.0f} min ago", std::floor(s / 60));
  if (s < 2 * 86400) return fmt::format("{:.0f} h ago", std::floor(s / 3600));
  return fmt::format("{:.0f} days ago", std::floor(s / 86400));
}

std::string count_text(uint64_t n, const std::string& what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace anabranch::cli
