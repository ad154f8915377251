// Regular expressions for numbers within bounds, in decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/automaton.h"

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

// The decimals, without an exponent, that are multiples of `step` > 0. An empty automaton: the step has too
// many digits. Errors: exhausted.
Result<Automaton> multiples_of(double step, WorkBudget& work);

}  // namespace anabranch
