#include "text/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "text/regex_parser.h"
#include "text/utf8.h"

namespace anabranch::text {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr size_t kMaxNfaStates = 20000, kMaxWork = 20'000'000;

Error too_large() {
  return make_error(ErrorKind::exhausted, "the pattern or length is too large: it needs more than {} states",
                    kMaxStates);
}

// Thompson's construction: each part from one state to another, with edges that take nothing.
class Nfa {
 public:
  struct State {
    std::vector<int> free;
    std::vector<std::pair<const CharSet*, int>> edges;
  };
  std::vector<State> states;

  int add() {
    states.emplace_back();
    return static_cast<int>(states.size()) - 1;
  }
  bool full() const { return states.size() > kMaxNfaStates; }

  // Adds `node` behind the state `from`; gives the state behind it.
  int build(const RegexNode& node, int from) {
    if (full()) return from;
    switch (node.kind) {
      case RegexNode::Kind::chars: {
        const int to = add();
        states[from].edges.emplace_back(&node.set, to);
        return to;
      }
      case RegexNode::Kind::sequence:
        for (const RegexNode& child : node.children) from = build(child, from);
        return from;
      case RegexNode::Kind::choice: {
        const int to = add();
        for (const RegexNode& child : node.children) {
          const int begin = add();
          states[from].free.push_back(begin);
          const int end = build(child, begin);
          states[end].free.push_back(to);
        }
        return to;
      }
      case RegexNode::Kind::repeat:
        return repeat(node, from);
    }
    return from;
  }

  void close(std::vector<int>& set) const {
    std::vector<int> todo = set;
    std::set<int> seen(set.begin(), set.end());
    while (!todo.empty()) {
      const int state = todo.back();
      todo.pop_back();
      for (const int next : states[state].free)
        if (seen.insert(next).second) todo.push_back(next);
    }
    set.assign(seen.begin(), seen.end());
  }

 private:
  int repeat(const RegexNode& node, int from) {
    const RegexNode& child = node.children[0];
    for (size_t i = 0; i < node.least && !full(); i++) from = build(child, from);
    if (node.most == SIZE_MAX) {
      const int loop = add();
      states[from].free.push_back(loop);
      const int end = build(child, loop);
      states[end].free.push_back(loop);
      const int to = add();
      states[loop].free.push_back(to);
      return to;
    }
    std::vector<int> exits = {from};
    for (size_t i = node.least; i < node.most && !full(); i++) exits.push_back(from = build(child, from));
    const int to = add();
    for (const int exit : exits) states[exit].free.push_back(to);
    return to;
  }
};

// Without states from which no end is reached.
Automaton trimmed_states(const Automaton& in) {
  std::vector<char> good(in.states.size());
  for (size_t i = 0; i < in.states.size(); i++) good[i] = in.states[i].accepts;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = in.states.size(); i-- > 0;)
      if (!good[i])
        for (const auto& edge : in.states[i].edges)
          if (good[static_cast<size_t>(edge.to)]) good[i] = 1, changed = true;
  }
  Automaton out;
  if (in.states.empty() || !good[0]) return out;
  std::vector<int> number(in.states.size(), -1);
  for (size_t i = 0; i < in.states.size(); i++)
    if (good[i]) number[i] = static_cast<int>(out.states.size()), out.states.emplace_back();
  for (size_t i = 0; i < in.states.size(); i++) {
    if (!good[i]) continue;
    auto& state = out.states[static_cast<size_t>(number[i])];
    state.accepts = in.states[i].accepts;
    for (const auto& edge : in.states[i].edges)
      if (good[static_cast<size_t>(edge.to)])
        state.edges.push_back({edge.set, number[static_cast<size_t>(edge.to)]});
  }
  return out;
}

// States that accept the same texts become one (Moore's refinement of the partition).
Automaton minimal(const Automaton& in) {
  using Signature = std::pair<int, std::map<int, std::vector<std::pair<char32_t, char32_t>>>>;
  std::vector<int> group(in.states.size());
  for (size_t i = 0; i < group.size(); i++) group[i] = in.states[i].accepts;
  size_t groups = 0;
  while (true) {
    std::map<Signature, int> numbers;
    std::vector<int> next(group.size());
    for (size_t i = 0; i < group.size(); i++) {
      std::map<int, CharSet> to;
      for (const auto& edge : in.states[i].edges) to[group[static_cast<size_t>(edge.to)]].add(edge.set);
      Signature signature{group[i], {}};
      for (const auto& [target, set] : to) signature.second[target] = set.ranges();
      next[i] = numbers.emplace(std::move(signature), static_cast<int>(numbers.size())).first->second;
    }
    group = std::move(next);
    if (numbers.size() == groups) break;
    groups = numbers.size();
  }
  // The first state is its group's first, and so group 0.
  Automaton out;
  out.states.resize(groups);
  std::vector<char> done(groups);
  for (size_t i = 0; i < group.size(); i++) {
    const auto g = static_cast<size_t>(group[i]);
    if (done[g]) continue;
    done[g] = 1;
    out.states[g].accepts = in.states[i].accepts;
    std::map<int, CharSet> to;
    for (const auto& edge : in.states[i].edges) to[group[static_cast<size_t>(edge.to)]].add(edge.set);
    for (auto& [target, set] : to) out.states[g].edges.push_back({std::move(set), target});
  }
  return out;
}

// The subset construction.
Result<Automaton> deterministic(const Nfa& nfa, int begin, int end) {
  // Between two neighbours of `cuts` all code points are alike.
  std::set<char32_t> cuts = {0, kLast + 1};
  for (const auto& state : nfa.states)
    for (const auto& edge : state.edges)
      for (const auto& [first, last] : edge.first->ranges()) cuts.insert({first, last + 1});
  const std::vector<char32_t> points(cuts.begin(), cuts.end());
  std::map<std::vector<int>, int> numbers;
  std::vector<std::vector<int>> sets;
  Automaton out;
  const auto number_of = [&](std::vector<int> set) {
    nfa.close(set);
    const auto [it, fresh] = numbers.emplace(set, static_cast<int>(sets.size()));
    if (fresh) sets.push_back(std::move(set)), out.states.emplace_back();
    return it->second;
  };
  number_of({begin});
  size_t work = 0;
  for (size_t i = 0; i < sets.size(); i++) {
    if (sets.size() > kMaxStates) return too_large();
    const std::vector<int> set = sets[i];
    out.states[i].accepts = std::binary_search(set.begin(), set.end(), end);
    std::map<std::vector<int>, CharSet> targets;
    for (size_t p = 0; p + 1 < points.size(); p++) {
      std::vector<int> reached;
      for (const int state : set)
        for (const auto& [chars, to] : nfa.states[static_cast<size_t>(state)].edges)
          if (chars->has(points[p])) reached.push_back(to);
      work += set.size() + 1;
      if (work > kMaxWork) return too_large();
      if (reached.empty()) continue;
      std::sort(reached.begin(), reached.end());
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
      targets[reached].add(points[p], points[p + 1] - 1);
    }
    for (auto& [reached, chars] : targets) {
      const int to = number_of(reached);
      out.states[i].edges.push_back({std::move(chars), to});
    }
  }
  return out;
}

std::string escaped(char32_t c) {  // within a class
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

// How one character of the set may be written.
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
  // By number where it does not matter which; halves of pairs only together.
  if (set.complement().empty())
    out.push_back("\"\\\\u\" ([0-9A-Ca-cEFef] [0-9A-Fa-f] | [Dd] [0-7]) [0-9A-Fa-f] [0-9A-Fa-f]");
  return out;
}

}  // namespace

CharSet::CharSet(std::initializer_list<std::pair<char32_t, char32_t>> ranges) : ranges_(ranges) {
  normalise();
}

void CharSet::add(char32_t first, char32_t last) {
  ranges_.emplace_back(first, last);
  normalise();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

void CharSet::normalise() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<std::pair<char32_t, char32_t>> merged;
  for (const auto& range : ranges_)
    if (merged.empty() || range.first > merged.back().second + 1)
      merged.push_back(range);
    else
      merged.back().second = std::max(merged.back().second, range.second);
  ranges_ = std::move(merged);
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) out.ranges_.emplace_back(next, kLast);
  return out;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet outside = complement();
  outside.add(other);
  return outside.complement();
}

bool CharSet::has(char32_t c) const {
  const auto it =
      std::upper_bound(ranges_.begin(), ranges_.end(), std::pair<char32_t, char32_t>(c, kLast + 1));
  return it != ranges_.begin() && std::prev(it)->second >= c;
}

Result<Automaton> compile_regex(std::string_view pattern, bool whole) {
  TRY(const RegexNode node, parse_regex(pattern, whole));
  Nfa nfa;
  const int begin = nfa.add();
  const int end = nfa.build(node, begin);
  if (nfa.full()) return too_large();
  TRY(const Automaton automaton, deterministic(nfa, begin, end));
  return minimal(trimmed_states(automaton));
}

Automaton any_text() {
  return {{{{{CharSet::all(), 0}}, true}}};
}

Automaton text_except(const std::vector<std::string>& names) {
  constexpr size_t kWhole = 64, kBeginning = 3;
  size_t total = 0;
  for (const auto& name : names) total += name.size();
  Automaton out;
  out.states.resize(2);
  out.states[1] = {{{CharSet::all(), 1}}, true};  // no longer any of them
  std::vector<std::map<char32_t, int>> next(2);
  std::set<int> ends, blocked;  // blocked: nothing that begins so
  for (const auto& name : names) {
    int at = 0;
    size_t length = 0;
    for (size_t i = 0; i < name.size() && !(total > kWhole && length == kBeginning); length++) {
      const CodePoint c = decode_utf8(name, i);
      i += static_cast<size_t>(c.length);
      const auto [it, fresh] =
          next[static_cast<size_t>(at)].emplace(c.value, static_cast<int>(out.states.size()));
      at = it->second;
      if (fresh) out.states.emplace_back(), next.emplace_back();
    }
    (total > kWhole && length == kBeginning ? blocked : ends).insert(at);
  }
  for (size_t i = 0; i < out.states.size(); i++) {
    if (i == 1) continue;
    const bool closed = blocked.count(static_cast<int>(i)) > 0;
    out.states[i].accepts = !closed && ends.count(static_cast<int>(i)) == 0;
    CharSet others = CharSet::all();
    for (const auto& [c, to] : next[i]) {
      if (!closed) out.states[i].edges.push_back({{{c, c}}, to});
      others = others.without({{c, c}});
    }
    if (!closed) out.states[i].edges.push_back({others, 1});
  }
  return minimal(trimmed_states(out));
}

// The automaton of Knuth, Morris and Pratt: a state says how much of `part` the text ends with.
Automaton text_without(std::string_view part) {
  Automaton out;
  const std::set<char> known(part.begin(), part.end());
  for (size_t i = 0; i < part.size(); i++) {
    Automaton::State state{{}, true};
    CharSet others = CharSet::all();
    for (const char c : known) {
      const std::string text = std::string(part.substr(0, i)) + c;
      size_t length = text.size();
      while (part.substr(0, length) != std::string_view(text).substr(text.size() - length)) length--;
      const CharSet one{{static_cast<char32_t>(c), static_cast<char32_t>(c)}};
      if (length < part.size()) state.edges.push_back({one, static_cast<int>(length)});
      others = others.without(one);
    }
    state.edges.push_back({others, 0});
    out.states.push_back(std::move(state));
  }
  return minimal(out);
}

Result<Automaton> with_length(const Automaton& automaton, size_t least, std::optional<size_t> most) {
  const size_t cap = most.value_or(least);
  std::map<std::pair<int, size_t>, int> numbers;
  std::vector<std::pair<int, size_t>> all;
  Automaton out;
  const auto number_of = [&](int state, size_t length) {
    const auto [it, fresh] = numbers.emplace(std::pair(state, length), static_cast<int>(all.size()));
    if (fresh) all.emplace_back(state, length), out.states.emplace_back();
    return it->second;
  };
  if (automaton.states.empty()) return out;
  number_of(0, 0);
  for (size_t i = 0; i < all.size(); i++) {
    if (all.size() > kMaxStates) return too_large();
    const auto [state, length] = all[i];
    const auto& from = automaton.states[static_cast<size_t>(state)];
    out.states[i].accepts = from.accepts && length >= least;
    if (most && length == cap) continue;
    for (const auto& edge : from.edges) {
      const int to = number_of(edge.to, std::min(length + 1, cap));
      out.states[i].edges.push_back({edge.set, to});
    }
  }
  return minimal(trimmed_states(out));
}

std::string add_automaton(const Automaton& in, StringForm form, std::string_view hint, GrammarRules& rules) {
  // What cannot be written is gone, and whatever led only there.
  Automaton automaton = in;
  for (auto& state : automaton.states)
    std::erase_if(state.edges, [&](const auto& edge) { return written(edge.set, form).empty(); });
  automaton = trimmed_states(automaton);
  if (automaton.states.empty()) return "";
  // One grammar has it once.
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

}  // namespace anabranch::text
