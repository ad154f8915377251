// The syntax of regular expressions as JSON schemas have them.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace anabranch {

struct RegexNode {
  enum class Kind { chars, sequence, choice, repeat };
  Kind kind = Kind::sequence;
  CharSet set;                      // chars: one of these
  std::vector<RegexNode> children;  // repeat: one
  size_t least = 1, most = 1;       // repeat; most: SIZE_MAX for no limit
};

// Errors and `whole` as of compile_regex.
Result<RegexNode> parse_regex(std::string_view pattern, bool whole);

}  // namespace anabranch
