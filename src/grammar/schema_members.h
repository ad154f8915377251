// The members of an object, or of a set of values, as rules of a grammar.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar_rules.h"

namespace anabranch {

struct Member {
  std::string text;  // the elements of its name and its value
  bool required = false;
};

struct Members {
  std::vector<Member> named;  // written in this order
  std::string other;          // the element of a member with any other name; "": there are none
  int64_t least = 0;          // how many members there must be, if that is more than are required
  std::optional<int64_t> most;
  std::string close = "}";
};

// Writes the members of one object or set, and its closing bracket.
class MembersWriter {
 public:
  // Both must outlive this.
  MembersWriter(const Members& members, GrammarRules& rules) : members_(members), rules_(rules) {}

  // The element after the opening brace; "" if no object meets the limits on the number of members.
  std::string add() { return rest(0, 0); }

 private:
  // The element after the first i named members, of which `count` are written (the others are left out).
  // Counts above both limits are not distinguished.
  std::string rest(size_t i, int64_t count);

  const Members& members_;
  GrammarRules& rules_;
  std::map<std::pair<size_t, int64_t>, std::string> known_;  // the rule of each (i, count)
};

}  // namespace anabranch
