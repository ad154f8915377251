// Rules that count (cmake/xgrammar_counts.h): a group of rules, each of which refers to one of them as its
// last element, so that the number of such references is the number of repetitions.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <optional>
#include <string>

#include "grammar/grammar_rules.h"

namespace anabranch {

struct CountedGroup {
  explicit CountedGroup(const GrammarRules& rules) : number(rules.count()) {}

  // The option of a rule that may begin up to the count `most` (nullopt: no limit).
  std::string option(std::optional<size_t> most) const {
    const auto word = [](std::optional<size_t> n) { return std::min<size_t>(n.value_or(INT_MAX), INT_MAX); };
    return fmt::format("capture=\"#{} {} {} {} {}\"", number, least, word(most), word(near), word(far));
  }

  size_t number;     // no other group has it
  size_t least = 0;  // the count from which on a rule may end
  // A token with at most near - count characters breaks no limit, one with more than far - count breaks one.
  std::optional<size_t> near, far;
};

}  // namespace anabranch
