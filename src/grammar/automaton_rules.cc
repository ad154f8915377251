#include <fmt/format.h>

#include <algorithm>

#include "grammar/automaton_parts.h"

namespace anabranch {
namespace {

// One character inside a character class of the grammar.
std::string escaped(char32_t c) {
  const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return plain ? std::string(1, static_cast<char>(c)) : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

std::string class_of(const CharSet& set) {
  std::string out = "[";
  for (const auto& [first, last] : set.ranges()) {
    out += escaped(first);
    if (last > first) out += "-" + escaped(last);
  }
  return out + "]";
}

// The ways in which one character of the set may be written, as elements of a rule.
std::vector<std::string> written(const CharSet& set, StringForm form) {
  const CharSet surrogates{{0xD800, 0xDFFF}};
  std::vector<std::string> out;
  if (form == StringForm::bare || form == StringForm::plain) {
    CharSet plain = set.without({{0, 8}, {0xB, 0x1F}, {0x7F, 0x7F}}).without(surrogates);
    if (form == StringForm::bare) plain = plain.without({{'<', '<'}});
    if (!plain.empty()) out.push_back(class_of(plain));
    return out;
  }
  const CharSet plain = set.without({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).without(surrogates);
  if (!plain.empty()) out.push_back(class_of(plain));
  CharSet names;
  for (const auto& [c, name] : {std::pair{U'"', '"'},
                                {U'\\', '\\'},
                                {U'\b', 'b'},
                                {U'\f', 'f'},
                                {U'\n', 'n'},
                                {U'\r', 'r'},
                                {U'\t', 't'}})
    if (set.has(c)) names.add(static_cast<char32_t>(name), static_cast<char32_t>(name));
  if (!names.empty()) out.push_back("\"\\\\\" " + class_of(names));
  // \uXXXX escapes only if the set has all characters, since they are not checked one by one; no surrogates.
  if (set.complement().empty())
    out.push_back("\"\\\\u\" ([0-9A-Ca-cEFef] [0-9A-Fa-f] | [Dd] [0-7]) [0-9A-Fa-f] [0-9A-Fa-f]");
  return out;
}

}  // namespace

std::string add_automaton(const Automaton& in, StringForm form, std::string_view hint, GrammarRules& rules) {
  // Remove the characters that cannot be written, and the states that lead to nothing without them.
  Automaton automaton = in;
  for (auto& state : automaton.states)
    std::erase_if(state.edges, [&](const auto& edge) { return written(edge.set, form).empty(); });
  automaton = trimmed_states(automaton);
  if (automaton.states.empty()) return "";
  // The same automaton is written only once per grammar.
  std::string all;
  for (const auto& state : automaton.states) {
    all += state.accepts ? "!" : "?";
    for (const auto& edge : state.edges) all += fmt::format("{}>{} ", class_of(edge.set), edge.to);
  }
  if (const std::string* known = rules.find(fmt::format("{} {}", static_cast<int>(form), all))) return *known;
  std::vector<std::string> names;
  for (size_t i = 0; i < automaton.states.size(); i++) names.push_back(rules.reserve(hint));
  for (size_t i = 0; i < automaton.states.size(); i++) {
    const auto& state = automaton.states[i];
    std::vector<std::string> out;
    if (state.accepts) out.push_back(form == StringForm::quoted ? "\"\\\"\"" : "\"\"");
    for (const auto& edge : state.edges)
      for (const std::string& chars : written(edge.set, form))
        out.push_back(chars + " " + names[static_cast<size_t>(edge.to)]);
    rules.define(names[i], fmt::format("{}", fmt::join(out, " | ")));
  }
  const std::string element = form == StringForm::quoted ? rules.add(hint, "\"\\\"\" " + names[0]) : names[0];
  rules.remember(fmt::format("{} {}", static_cast<int>(form), all), element);
  return element;
}

}  // namespace anabranch
