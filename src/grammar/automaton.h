// Regular languages over code points: from a regular expression to a deterministic automaton, and on to rules
// of a grammar in which every state is a rule whose alternatives end in the next state. Nothing ends within a
// text so, and a token's mask costs microseconds where nested repetitions cost milliseconds. (The library's
// own Regex("...") was not right in version 0.2.8: (a|a(|b)) took "abb".)
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_rules.h"
#include "grammar/work_budget.h"

namespace anabranch {

// Code points, as ranges.
class CharSet {
 public:
  using Range = std::pair<char32_t, char32_t>;
  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges) : CharSet(std::vector<Range>(ranges)) {}
  explicit CharSet(std::vector<Range> ranges);
  static CharSet all() { return {{0, 0x10FFFF}}; }

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet without(const CharSet& other) const;
  bool has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  // In order; they neither touch nor overlap.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  void normalise();
  std::vector<Range> ranges_;
};

struct Automaton {
  struct Edge {
    CharSet set;
    int to;
  };
  struct State {
    std::vector<Edge> edges;  // of sets that have nothing in common
    bool accepts = false;
  };
  std::vector<State>
      states;  // begins in the first; none: nothing is accepted. From each, some end is reached
};

inline constexpr size_t kMaxStates = 2000;

// pattern: an ECMA 262 regular expression. whole: it matches whole texts; otherwise it may match anywhere in
// one unless it is anchored with ^ and $. Of classes that readers disagree on (\W beyond ASCII, say), only
// what all agree on. Errors: invalid (no regular expression), unsupported (assertions inside, back
// references, Unicode properties, flags), exhausted (more than kMaxStates, or more work than is left).
Result<Automaton> compile_regex(std::string_view pattern, WorkBudget& work, bool whole = false);
// Any text.
Automaton any_text();
// Texts that are none of these; where they are long, none that begin as one of them. Errors: exhausted.
Result<Automaton> text_except(const std::vector<std::string>& names, WorkBudget& work);
// Texts without `part`, of ASCII characters. Errors: exhausted.
Result<Automaton> text_without(std::string_view part, WorkBudget& work);
// Those of its texts that have so many code points. Errors: exhausted.
Result<Automaton> with_length(const Automaton& automaton, size_t least, std::optional<size_t> most,
                              WorkBudget& work);

enum class StringForm {
  quoted,  // a JSON string
  inside,  // of one, between the quotes
  bare,    // as it is, without "<", which could begin a closing tag
  plain,   // as it is
};
// The element that stands for its texts; "" when none can be written.
std::string add_automaton(const Automaton& automaton, StringForm form, std::string_view hint,
                          GrammarRules& rules);

}  // namespace anabranch
