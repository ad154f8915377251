// What the makers of automata share (automaton.cc, regex_automaton.cc, automaton_rules.cc).
#pragma once

#include <string>
#include <vector>

#include "grammar/automaton.h"

namespace anabranch {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;
// Character ranges on all edges together. With more of them, the grammar would be too long to compile.
inline constexpr size_t kMaxRanges = 200'000;

Error automaton_too_large();
Error automaton_too_much_work();
// The distance from each state to the nearest accepting state; -1 if none can be reached.
std::vector<int> distances(const Automaton& in);
// Removes the states from which no accepting state can be reached.
Automaton trimmed_states(const Automaton& in);
// Merges the states that accept the same texts. Errors: exhausted.
Result<Automaton> minimal(const Automaton& in, WorkBudget& work);

// The ways in which one character of the set may be written, as elements of a rule.
std::vector<std::string> written(const CharSet& set, StringSyntax syntax);

}  // namespace anabranch
