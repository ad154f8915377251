// Regular languages over code points: regular expressions become deterministic automata, and automata become
// rules of a grammar. Every state is a rule whose alternatives end with the rule of the next state. With such
// rules a token mask takes microseconds; with nested repetitions it takes milliseconds. (Regex("...") of
// xgrammar 0.2.8 is wrong: (a|a(|b)) accepts "abb".)
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

// A set of code points.
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
  CharSet common(const CharSet& other) const;  // the characters in both
  bool has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  // Sorted; no two ranges touch or overlap.
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
    std::vector<Edge> edges;  // their sets are disjoint
    bool accepts = false;
  };
  // The first one is the initial state; without states, no text is accepted. An accepting state can be
  // reached from every state.
  std::vector<State> states;
};

inline constexpr size_t kMaxStates = 2000;

// pattern: an ECMA 262 regular expression. whole: it must match the whole text; otherwise it may match
// anywhere in the text unless it is anchored with ^ and $. Regex engines disagree on some classes (such as \W
// beyond ASCII); of these, only the characters that all engines agree on are accepted. Errors: invalid (no
// regular expression), unsupported (assertions inside, back references, Unicode properties, flags), exhausted
// (more than kMaxStates states, or more work than the budget has left). within: only texts that this
// automaton accepts as well, which may need far fewer states.
Result<Automaton> compile_regex(std::string_view pattern, WorkBudget& work, bool whole = false,
                                const Automaton* within = nullptr);
// Any text.
Automaton any_text();
// Texts that are none of `names`. If the names are long, it excludes all texts with the same first characters
// as one of them. Errors: exhausted.
Result<Automaton> text_except(const std::vector<std::string>& names, WorkBudget& work);
// Texts in which the pattern matches nowhere. Errors: those of compile_regex.
Result<Automaton> text_without(std::string_view pattern, WorkBudget& work);
// Whether it accepts the text, which must be UTF-8.
bool accepts_text(const Automaton& automaton, std::string_view text);
// The texts that both accept. Errors: exhausted.
Result<Automaton> intersection(const Automaton& a, const Automaton& b, WorkBudget& work);
// The texts that it does not accept. Errors: exhausted.
Result<Automaton> complement(const Automaton& automaton, WorkBudget& work);
struct Lengths {
  size_t least = 0;
  std::optional<size_t> most;  // nullopt: there are texts of any length above
};
// The lengths of the accepted texts in code points; the automaton has states.
Lengths lengths_of(const Automaton& automaton);
// The accepted texts that have at least `least` and at most `most` code points. Errors: exhausted.
Result<Automaton> with_length(const Automaton& automaton, size_t least, std::optional<size_t> most,
                              WorkBudget& work);

enum class StringSyntax {
  quoted,  // a JSON string
  inside,  // a part of a JSON string, without the quotes
  bare,    // unescaped, but without "<", which could begin a closing tag
  plain,   // unescaped
};
struct LengthBounds {
  size_t least = 0;
  std::optional<size_t> most;
};
// The element that stands for the accepted texts with lengths within the bounds, in code points; "" if none
// can be written. Most automata are written once, with rules that count. Errors: exhausted.
Result<std::string> add_bounded(const Automaton& automaton, const LengthBounds& bounds, StringSyntax syntax,
                                std::string_view hint, GrammarRules& rules);
// The element that stands for the texts that match the pattern and whose lengths are within the bounds; "" if
// none can be written. Repetitions with large counts are counted by rules, where the pattern allows it.
// Errors: those of compile_regex.
Result<std::string> add_regex(std::string_view pattern, bool whole, const LengthBounds& bounds,
                              StringSyntax syntax, std::string_view hint, GrammarRules& rules);
// The element that stands for the accepted texts; "" if none of them can be written in this syntax.
std::string add_automaton(const Automaton& automaton, StringSyntax syntax, std::string_view hint,
                          GrammarRules& rules);

}  // namespace anabranch
