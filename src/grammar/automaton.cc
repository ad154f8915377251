#include "grammar/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "grammar/regex_parser.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr size_t kMaxNfaStates = 20000;
// Character ranges on all edges together. With more of them, the grammar would be too long to compile.
constexpr size_t kMaxRanges = 200'000;
constexpr size_t kWriting = 30;  // steps of work for writing one range

Error too_large() {
  return make_error(
      ErrorKind::exhausted,
      "the pattern or length is too large: it needs more than {} states, or {} ranges of characters",
      kMaxStates, kMaxRanges);
}

Error too_much_work() {
  return make_error(ErrorKind::exhausted,
                    "the pattern or length takes too much work, with the others of this request");
}

// A nondeterministic automaton by Thompson's construction: each part of the expression leads from one state
// to another, and some edges consume no character.
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

  // Adds the states of `node`, starting at the state `from`; returns its last state.
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

  // Adds the states that are reached without a character. Keeps only `end` and the states with edges, since
  // no others matter. False if the budget is used up.
  bool close(std::vector<int>& set, int end, WorkBudget& work) const {
    std::vector<int> todo = std::move(set);
    std::vector<char> seen(states.size());
    for (const int state : todo) seen[static_cast<size_t>(state)] = 1;
    size_t steps = states.size() / 64;
    set.clear();
    while (!todo.empty()) {
      const int at = todo.back();
      todo.pop_back();
      const State& state = states[static_cast<size_t>(at)];
      if (at == end || !state.edges.empty()) set.push_back(at);
      for (const int next : state.free)
        if (!std::exchange(seen[static_cast<size_t>(next)], 1)) todo.push_back(next);
      steps += 2 + state.free.size();
    }
    std::sort(set.begin(), set.end());
    return work.spend(steps + 4 * set.size());
  }

  // The points at which ranges begin or end: no edge distinguishes code points between two neighbours.
  std::vector<char32_t> cuts() const {
    std::set<const CharSet*> sets;
    for (const State& state : states)
      for (const auto& edge : state.edges) sets.insert(edge.first);
    std::set<char32_t> out = {0, kLast + 1};
    for (const CharSet* set : sets)
      for (const auto& [first, last] : set->ranges()) out.insert({first, last + 1});
    return {out.begin(), out.end()};
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

// The distance from each state to the nearest accepting state; -1 if none can be reached.
std::vector<int> distances(const Automaton& in) {
  std::vector<std::vector<size_t>> from(in.states.size());
  std::vector<int> out(in.states.size(), -1);
  std::vector<size_t> todo;
  for (size_t i = 0; i < in.states.size(); i++) {
    for (const auto& edge : in.states[i].edges) from[static_cast<size_t>(edge.to)].push_back(i);
    if (in.states[i].accepts) out[i] = 0, todo.push_back(i);
  }
  for (size_t next = 0; next < todo.size(); next++)
    for (const size_t before : from[todo[next]])
      if (out[before] < 0) out[before] = out[todo[next]] + 1, todo.push_back(before);
  return out;
}

// Removes the states from which no accepting state can be reached.
Automaton trimmed_states(const Automaton& in) {
  const std::vector<int> distance = distances(in);
  Automaton out;
  if (in.states.empty() || distance[0] < 0) return out;
  std::vector<int> number(in.states.size(), -1);
  for (size_t i = 0; i < in.states.size(); i++)
    if (distance[i] >= 0) number[i] = static_cast<int>(out.states.size()), out.states.emplace_back();
  for (size_t i = 0; i < in.states.size(); i++) {
    if (number[i] < 0) continue;
    auto& state = out.states[static_cast<size_t>(number[i])];
    state.accepts = in.states[i].accepts;
    for (const auto& edge : in.states[i].edges)
      if (const int to = number[static_cast<size_t>(edge.to)]; to >= 0) state.edges.push_back({edge.set, to});
  }
  return out;
}

struct Step {
  char32_t first, last;
  int to;
};

// The steps of each state, sorted by their characters.
std::vector<std::vector<Step>> steps_of(const Automaton& in) {
  std::vector<std::vector<Step>> out(in.states.size());
  for (size_t i = 0; i < out.size(); i++) {
    for (const auto& edge : in.states[i].edges)
      for (const auto& [first, last] : edge.set.ranges()) out[i].push_back({first, last, edge.to});
    std::sort(out[i].begin(), out[i].end(), [](const Step& a, const Step& b) { return a.first < b.first; });
  }
  return out;
}

// A state's behaviour in terms of groups: its own group, then (first, last, target group) for each range.
using Signature = std::vector<uint32_t>;
struct SignatureHash {
  size_t operator()(const Signature& signature) const {
    size_t hash = 0;
    for (const uint32_t word : signature) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
    return hash;
  }
};
Signature signature_of(int own, const std::vector<Step>& steps, const std::vector<int>& group) {
  Signature out = {static_cast<uint32_t>(own)};
  for (const Step& step : steps) {
    const auto to = static_cast<uint32_t>(group[static_cast<size_t>(step.to)]);
    if (out.size() > 1 && out.back() == to && out[out.size() - 2] + 1 == step.first)
      out[out.size() - 2] = step.last;
    else
      out.insert(out.end(), {step.first, step.last, to});
  }
  return out;
}

// Merges the states that accept the same texts (Moore's algorithm: refines a partition of the states).
Result<Automaton> minimal(const Automaton& in, WorkBudget& work) {
  const auto steps = steps_of(in);
  std::vector<int> group = distances(in);
  for (size_t groups = 0;;) {
    std::unordered_map<Signature, int, SignatureHash> numbers;
    std::vector<int> next(group.size());
    for (size_t i = 0; i < group.size(); i++) {
      if (!work.spend(8 + steps[i].size())) return too_much_work();
      next[i] = numbers.emplace(signature_of(group[i], steps[i], group), static_cast<int>(numbers.size()))
                    .first->second;
    }
    group = std::move(next);
    if (numbers.size() == groups) break;
    groups = numbers.size();
  }
  // Groups are numbered in the order of their first states, so state 0 is in group 0.
  Automaton out;
  for (size_t i = 0; i < group.size(); i++) {
    if (group[i] < static_cast<int>(out.states.size())) continue;
    auto& state = out.states.emplace_back();
    state.accepts = in.states[i].accepts;
    std::map<int, CharSet> to;
    for (const Step& step : steps[i]) to[group[static_cast<size_t>(step.to)]].add(step.first, step.last);
    for (auto& [target, set] : to) state.edges.push_back({std::move(set), target});
    if (!work.spend(kWriting * (1 + steps[i].size()))) return too_much_work();
  }
  return out;
}

// Makes a nondeterministic automaton deterministic by the subset construction.
class Subsets {
 public:
  Subsets(const Nfa& nfa, int end, WorkBudget& work)
      : nfa_(nfa), end_(end), work_(work), points_(nfa.cuts()) {}

  Result<Automaton> from(int begin) {
    TRY_VOID(number_of({begin}));
    for (size_t i = 0; i < sets_.size(); i++) {
      std::map<std::vector<int>, CharSet> targets;
      TRY_VOID(step(*sets_[i], targets));
      for (auto& [reached, chars] : targets) {
        ranges_ += chars.ranges().size();
        TRY(const int to, number_of(reached));
        out_.states[i].edges.push_back({std::move(chars), to});
      }
      if (sets_.size() > kMaxStates || ranges_ > kMaxRanges) return too_large();
    }
    return std::move(out_);
  }

 private:
  // The sets of states that are reached from `set`, each with the characters that lead to it.
  Result<void> step(const std::vector<int>& set, std::map<std::vector<int>, CharSet>& targets) {
    std::vector<int> reached;
    for (size_t p = 0; p + 1 < points_.size(); p++) {
      reached.clear();
      for (const int state : set)
        for (const auto& [chars, to] : nfa_.states[static_cast<size_t>(state)].edges)
          if (chars->has(points_[p])) reached.push_back(to);
      if (!work_.spend(2 + set.size() + 6 * reached.size())) return too_much_work();
      if (reached.empty()) continue;
      std::sort(reached.begin(), reached.end());
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
      targets[reached].add(points_[p], points_[p + 1] - 1);
    }
    return {};
  }

  Result<int> number_of(std::vector<int> set) {
    if (!nfa_.close(set, end_, work_)) return too_much_work();
    const auto [it, fresh] = numbers_.emplace(std::move(set), static_cast<int>(sets_.size()));
    if (fresh) {
      sets_.push_back(&it->first);
      out_.states.push_back({{}, std::binary_search(it->first.begin(), it->first.end(), end_)});
    }
    return it->second;
  }

  const Nfa& nfa_;
  const int end_;
  WorkBudget& work_;
  const std::vector<char32_t> points_;
  std::map<std::vector<int>, int> numbers_;
  std::vector<const std::vector<int>*> sets_;  // by number
  size_t ranges_ = 0;
  Automaton out_;
};

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

CharSet::CharSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
  normalise();
}

void CharSet::add(char32_t first, char32_t last) {
  if (!ranges_.empty() && first == ranges_.back().second + 1) {
    ranges_.back().second = last;
  } else {
    const bool behind = ranges_.empty() || first > ranges_.back().second;
    ranges_.emplace_back(first, last);
    if (!behind) normalise();
  }
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

Result<Automaton> compile_regex(std::string_view pattern, WorkBudget& work, bool whole) {
  constexpr size_t kParsing = 20;  // steps of work for each byte
  if (!work.spend(kParsing * (pattern.size() + 1))) return too_much_work();
  TRY(const RegexNode node, parse_regex(pattern, whole));
  Nfa nfa;
  const int begin = nfa.add();
  const int end = nfa.build(node, begin);
  if (nfa.full()) return too_large();
  if (!work.spend(kParsing * nfa.states.size())) return too_much_work();
  TRY(const Automaton automaton, Subsets(nfa, end, work).from(begin));
  return minimal(trimmed_states(automaton), work);
}

Automaton any_text() {
  return {{{{{CharSet::all(), 0}}, true}}};
}

Result<Automaton> text_except(const std::vector<std::string>& names, WorkBudget& work) {
  constexpr size_t kWhole = 64, kBeginning = 3;
  size_t total = 0;
  for (const auto& name : names) total += name.size();
  Automaton out;
  out.states.resize(2);
  out.states[1] = {{{CharSet::all(), 1}}, true};  // the text differs from all names
  std::vector<std::map<char32_t, int>> next(2);
  std::set<int> ends, blocked;  // where a name ends; where every continuation is excluded
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
    if (closed) continue;
    CharSet known;
    for (const auto& [c, to] : next[i]) {
      out.states[i].edges.push_back({{{c, c}}, to});
      known.add(c, c);
    }
    out.states[i].edges.push_back({known.complement(), 1});
  }
  return minimal(trimmed_states(out), work);
}

Result<Automaton> text_without(std::string_view pattern, WorkBudget& work) {
  TRY(Automaton automaton, compile_regex(pattern, work));
  // A pattern that may match anywhere leads from every state to another one with every character.
  for (auto& state : automaton.states) state.accepts = !state.accepts;
  return trimmed_states(automaton);
}

Result<Automaton> with_length(const Automaton& automaton, size_t least, std::optional<size_t> most,
                              WorkBudget& work) {
  constexpr size_t kCopying = 10;  // steps of work for each edge
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
  size_t ranges = 0;
  for (size_t i = 0; i < all.size(); i++) {
    if (all.size() > kMaxStates || ranges > kMaxRanges) return too_large();
    const auto [state, length] = all[i];
    const auto& from = automaton.states[static_cast<size_t>(state)];
    out.states[i].accepts = from.accepts && length >= least;
    if (most && length == cap) continue;
    for (const auto& edge : from.edges) {
      const int to = number_of(edge.to, std::min(length + 1, cap));
      out.states[i].edges.push_back({edge.set, to});
      ranges += edge.set.ranges().size();
    }
    if (!work.spend(kCopying * (1 + from.edges.size()))) return too_much_work();
  }
  return minimal(trimmed_states(out), work);
}

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
