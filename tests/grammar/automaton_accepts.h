// What an automaton says of a text of ASCII characters.
#pragma once

#include <algorithm>
#include <string_view>

#include "grammar/automaton.h"

namespace anabranch {

inline Result<Automaton> compiled(std::string_view pattern, bool whole = false) {
  WorkBudget work;
  return compile_regex(pattern, work, whole);
}

inline bool accepts(const Automaton& automaton, std::string_view ascii) {
  if (automaton.states.empty()) return false;
  size_t state = 0;
  for (const char c : ascii) {
    const auto& edges = automaton.states[state].edges;
    const auto it = std::find_if(edges.begin(), edges.end(), [&](const auto& edge) {
      return edge.set.has(static_cast<unsigned char>(c));
    });
    if (it == edges.end()) return false;
    state = static_cast<size_t>(it->to);
  }
  return automaton.states[state].accepts;
}

}  // namespace anabranch
