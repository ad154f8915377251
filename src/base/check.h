// CHECK(condition, "what {}", values...): aborts on a bug of ours (a broken invariant), after printing file,
// line, condition and the values. Always on. Never used for input from outside (use Result, result.h).
#pragma once

#include <fmt/core.h>

#include <string>

namespace anabranch {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace anabranch

#define CHECK(condition, ...)                                                                   \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::anabranch::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
