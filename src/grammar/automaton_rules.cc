#include <fmt/format.h>

#include <algorithm>

#include "grammar/automaton_parts.h"
#include "grammar/counted_group.h"

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

}  // namespace

std::vector<std::string> written(const CharSet& set, StringSyntax syntax) {
  const CharSet surrogates{{0xD800, 0xDFFF}};
  std::vector<std::string> out;
  if (syntax == StringSyntax::bare || syntax == StringSyntax::plain) {
    CharSet plain = set.without({{0, 8}, {0xB, 0x1F}, {0x7F, 0x7F}}).without(surrogates);
    if (syntax == StringSyntax::bare) plain = plain.without({{'<', '<'}});
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

namespace {

// The automaton without the characters that cannot be written, and without the states that lead to nothing
// then.
Automaton writable(const Automaton& in, StringSyntax syntax) {
  Automaton out = in;
  for (auto& state : out.states)
    std::erase_if(state.edges, [&](const auto& edge) { return written(edge.set, syntax).empty(); });
  return trimmed_states(out);
}

// Whether texts of any length go on from every state.
bool is_endless(const Automaton& automaton) {
  std::vector<bool> ends(
      automaton.states.size());  // all that goes on from the state ends after some characters
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < ends.size(); i++) {
      if (ends[i]) continue;
      const auto& edges = automaton.states[i].edges;
      ends[i] = std::all_of(edges.begin(), edges.end(),
                            [&](const auto& edge) { return ends[static_cast<size_t>(edge.to)]; });
      changed |= ends[i];
    }
  }
  return std::none_of(ends.begin(), ends.end(), [](bool b) { return b; });
}

// Whether from every state some text of the length `bounds` goes on, whatever the length up to there: the
// lengths of what goes on from the state leave no gap that is wider than the bounds are apart.
bool leaves_no_gap(const Automaton& automaton, const LengthBounds& bounds, WorkBudget& work) {
  if (bounds.least == 0) return true;
  if (!is_endless(automaton)) return false;
  if (!bounds.most) return true;
  size_t edges = automaton.states.size();
  for (const auto& state : automaton.states) edges += state.edges.size();
  if (!work.spend(edges * (*bounds.most + 1))) return false;
  const size_t width = *bounds.most - bounds.least + 1;
  std::vector<char> now(
      automaton.states.size());  // whether a text of the length `length` goes on from the state
  for (size_t i = 0; i < now.size(); i++) now[i] = automaton.states[i].accepts;
  std::vector<size_t> last(now.size(), SIZE_MAX);
  for (size_t length = 0; length <= *bounds.most + 1; length++) {
    for (size_t i = 0; i < now.size(); i++) {
      if (last[i] != SIZE_MAX && length - last[i] > width) return false;
      if (now[i]) last[i] = length;
    }
    std::vector<char> next(now.size());
    for (size_t i = 0; i < now.size(); i++)
      for (const auto& edge : automaton.states[i].edges) next[i] |= now[static_cast<size_t>(edge.to)];
    now = std::move(next);
  }
  return true;
}

// The rules of the states; returns the rule of the first one. bounds: of the number of characters.
std::string add_states(const Automaton& automaton, StringSyntax syntax, std::string_view hint,
                       const LengthBounds* bounds, GrammarRules& rules) {
  std::vector<std::string> names;
  for (size_t i = 0; i < automaton.states.size(); i++) names.push_back(rules.reserve(hint));
  const auto body = [&](const Automaton::State& state, bool may_end) {
    std::vector<std::string> out;
    if (state.accepts && may_end) out.push_back(syntax == StringSyntax::quoted ? "\"\\\"\"" : "\"\"");
    for (const auto& edge : state.edges)
      for (const std::string& chars : written(edge.set, syntax))
        out.push_back(chars + " " + names[static_cast<size_t>(edge.to)]);
    return fmt::format("{}", fmt::join(out, " | "));
  };
  CountedGroup group(rules);
  const std::vector<int> rest = distances(automaton);  // the characters that are needed to end
  const auto most = bounds ? bounds->most : std::nullopt;
  if (most) group.near = *most - static_cast<size_t>(*std::max_element(rest.begin(), rest.end()));
  if (most) group.far = *most;
  group.least = bounds ? bounds->least : 0;
  const auto option = [&](size_t i) {
    return bounds ? group.option(most ? std::optional(*most - static_cast<size_t>(rest[i])) : std::nullopt)
                  : "";
  };
  for (size_t i = 0; i < automaton.states.size(); i++)
    rules.define(names[i], body(automaton.states[i], true), option(i));
  // Without a quote at its end, the first rule must not match the empty text if that is too short.
  if (syntax == StringSyntax::quoted || group.least == 0 || !automaton.states[0].accepts) return names[0];
  const std::string first = rules.reserve(hint);
  rules.define(first, body(automaton.states[0], false), option(0));
  return first;
}

std::string add_writable(const Automaton& automaton, StringSyntax syntax, std::string_view hint,
                         const LengthBounds* bounds, GrammarRules& rules) {
  if (automaton.states.empty()) return "";
  // The same automaton is written only once per grammar.
  std::string key = fmt::format("{} ", static_cast<int>(syntax));
  for (const auto& state : automaton.states) {
    key += state.accepts ? "!" : "?";
    for (const auto& edge : state.edges) key += fmt::format("{}>{} ", class_of(edge.set), edge.to);
  }
  if (bounds) key += fmt::format("{} {}", bounds->least, bounds->most.value_or(SIZE_MAX));
  if (const std::string* known = rules.find(key)) return *known;
  const std::string first = add_states(automaton, syntax, hint, bounds, rules);
  const std::string element = syntax == StringSyntax::quoted ? rules.add(hint, "\"\\\"\" " + first) : first;
  rules.remember(key, element);
  return element;
}

}  // namespace

std::string add_automaton(const Automaton& automaton, StringSyntax syntax, std::string_view hint,
                          GrammarRules& rules) {
  return add_writable(writable(automaton, syntax), syntax, hint, nullptr, rules);
}

Result<std::string> add_bounded(const Automaton& in, const LengthBounds& bounds, StringSyntax syntax,
                                std::string_view hint, GrammarRules& rules) {
  const Automaton automaton = writable(in, syntax);
  if (automaton.states.empty() || (bounds.most && *bounds.most < bounds.least)) return std::string();
  const Lengths lengths = lengths_of(automaton);
  if (lengths.least >= bounds.least && (!bounds.most || lengths.most.value_or(SIZE_MAX) <= *bounds.most))
    return add_writable(automaton, syntax, hint, nullptr, rules);
  const std::vector<int> rest = distances(automaton);
  const auto farthest = static_cast<size_t>(*std::max_element(rest.begin(), rest.end()));
  if ((!bounds.most || *bounds.most >= farthest) && leaves_no_gap(automaton, bounds, rules.work()))
    return add_writable(automaton, syntax, hint, &bounds, rules);
  TRY(const Automaton counted, with_length(automaton, bounds.least, bounds.most, rules.work()));
  return add_writable(writable(counted, syntax), syntax, hint, nullptr, rules);
}

}  // namespace anabranch
