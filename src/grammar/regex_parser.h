// Parses the regular expressions of JSON schemas.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace anabranch {

struct RegexNode {
  enum class Kind { chars, sequence, choice, repeat, ahead };
  Kind kind = Kind::sequence;
  CharSet set;                      // chars: matches one of these
  std::vector<RegexNode> children;  // repeat and ahead: exactly one
  size_t least = 1, most = 1;       // repeat; most: SIZE_MAX for no limit
  // ahead: the rest of the text, up to its end, matches the child; negative: it does not.
  bool negative = false;
};

// `whole` and the errors are those of compile_regex.
Result<RegexNode> parse_regex(std::string_view pattern, bool whole);

// The texts that match the node.
Result<Automaton> compile_regex(const RegexNode& node, WorkBudget& work);

}  // namespace anabranch
