// Regular expressions for numbers within bounds, in decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace anabranch {

// Integers have at most 18 digits, so that they fit 64 bits in every reader, and no exponent. The bounds are
// inclusive.
struct IntegerBounds {
  std::optional<int64_t> least, most;
};
// "" if there is no such integer.
std::string integer_regex(const IntegerBounds& bounds);

struct NumberBounds {
  std::optional<double> least, most;
  bool above = false, below = false;  // the bound `least`, or `most`, is exclusive
};
// Within bounds, numbers have no exponent and at most 15 digits, so that rounding to a double never moves one
// across a bound. Errors: unsupported (a bound has too many digits for that, or there is no number between
// the bounds).
Result<std::string> number_regex(const NumberBounds& bounds);

}  // namespace anabranch
