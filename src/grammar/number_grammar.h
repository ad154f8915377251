// Numbers within bounds, as regular expressions over their decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace anabranch {

// Integers that fit 64 bits whoever reads them: at most 18 digits, no exponent. Both bounds belong to it.
struct IntegerBounds {
  std::optional<int64_t> least, most;
};
// "" when there is none.
std::string integer_regex(const IntegerBounds& bounds);

struct NumberBounds {
  std::optional<double> least, most;
  bool above = false, below = false;  // the bound itself does not belong to it
};
// With bounds: without exponent, at most 15 digits, so that reading one as a double moves it across no bound.
// Errors: unsupported (a bound has too many digits for that, or there is no number between them).
Result<std::string> number_regex(const NumberBounds& bounds);

}  // namespace anabranch
