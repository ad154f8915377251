#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "grammar/automaton_parts.h"
#include "grammar/regex_parser.h"

namespace anabranch {
namespace {

constexpr size_t kMaxNfaStates = 20000;
constexpr size_t kParsing = 20;  // steps of work for each byte of a pattern, and for each state

Result<Automaton> automaton_of_node(const RegexNode& node, WorkBudget& work,
                                    const Automaton* within = nullptr);

// A nondeterministic automaton by Thompson's construction: each part of the expression leads from one state
// to another, and some edges consume no character.
class Nfa {
 public:
  struct State {
    std::vector<int> free;
    std::vector<std::pair<const CharSet*, int>> edges;
    std::vector<std::pair<const RegexNode*, int>> aheads;  // free, if what follows satisfies an assertion
  };
  std::vector<State> states;
  bool asserts = false;  // some state has assertions

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
      case RegexNode::Kind::ahead: {
        const int to = add();
        states[from].aheads.emplace_back(&node, to);
        asserts = true;
        return to;
      }
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
    std::set<char32_t> out = {0, kLastCodePoint + 1};
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
      if (sets_.size() > kMaxStates || ranges_ > kMaxRanges) return automaton_too_large();
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
      if (!work_.spend(2 + set.size() + 6 * reached.size())) return automaton_too_much_work();
      if (reached.empty()) continue;
      std::sort(reached.begin(), reached.end());
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
      targets[reached].add(points_[p], points_[p + 1] - 1);
    }
    return {};
  }

  Result<int> number_of(std::vector<int> set) {
    if (!nfa_.close(set, end_, work_)) return automaton_too_much_work();
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

// Turns an automaton with assertions into one without. A state of the new one is a state of the old one
// together with the assertions that were met on the way: for each, the state of an automaton that reads what
// follows.
class Assertions {
 public:
  Assertions(const Nfa& in, int end, WorkBudget& work) : in_(in), end_(end), work_(work) {}

  // The new states begin with 0 and end with 1. The sets of `out` belong to this object and to `in`. within:
  // what the whole text must satisfy as well; null: nothing.
  Result<void> write(int begin, const Automaton* within, Nfa& out) {
    constexpr size_t kVisiting = 50;
    out.add(), out.add();
    if (within) automata_.push_back(*within);
    number_of({begin, within ? std::vector<Open>{{0, 0}} : std::vector<Open>{}}, out);
    for (size_t i = 0; i < all_.size(); i++) {
      const Point from = all_[i];
      const auto& state = in_.states[static_cast<size_t>(from.state)];
      if (!work_.spend(kVisiting * (1 + from.open.size()))) return automaton_too_much_work();
      if (out.full()) return automaton_too_large();
      const int own = number_of(from, out);
      if (from.state == end_ && satisfied(from.open)) out.states[static_cast<size_t>(own)].free.push_back(1);
      for (const int to : state.free) connect(own, {to, from.open}, out);
      for (const auto& [node, to] : state.aheads) {
        TRY(const int known, automaton_of(*node));
        if (automata_[static_cast<size_t>(known)].states.empty()) continue;
        std::vector<Open> open = from.open;
        open.emplace_back(known, 0);
        connect(own, {to, std::move(open)}, out);
      }
      for (const auto& [set, to] : state.edges) TRY_VOID(read(own, from, 0, *set, {to, {}}, out));
    }
    return {};
  }

 private:
  using Open = std::pair<int, int>;  // an automaton and its state
  struct Point {
    int state;
    std::vector<Open> open;
    auto operator<=>(const Point&) const = default;
  };

  bool satisfied(const std::vector<Open>& open) const {
    return std::all_of(open.begin(), open.end(), [&](const Open& one) { return at(one).accepts; });
  }
  const Automaton::State& at(const Open& one) const {
    return automata_[static_cast<size_t>(one.first)].states[static_cast<size_t>(one.second)];
  }

  // The automaton of the texts that may follow.
  Result<int> automaton_of(const RegexNode& node) {
    if (const auto it = known_.find(&node); it != known_.end()) return it->second;
    TRY(Automaton automaton, automaton_of_node(node.children[0], work_));
    if (node.negative) {
      TRY(automaton, complement(automaton, work_));
    }
    automata_.push_back(std::move(automaton));
    return known_[&node] = static_cast<int>(automata_.size()) - 1;
  }

  // Adds the edges for the characters of `set`, which the assertions from the i-th on have not read yet.
  Result<void> read(int own, const Point& from, size_t i, const CharSet& set, const Point& to, Nfa& out) {
    if (i == from.open.size()) {
      Point next = to;
      const int number = number_of(std::move(next), out);
      sets_.push_back(set);
      out.states[static_cast<size_t>(own)].edges.emplace_back(&sets_.back(), number);
      return {};
    }
    for (const auto& edge : at(from.open[i]).edges) {
      if (!work_.spend(20 + set.ranges().size() + edge.set.ranges().size())) return automaton_too_much_work();
      const CharSet common = set.common(edge.set);
      if (common.empty()) continue;
      Point next = to;
      next.open.emplace_back(from.open[i].first, edge.to);
      TRY_VOID(read(own, from, i + 1, common, next, out));
    }
    return {};
  }

  void connect(int own, Point to, Nfa& out) {
    const int number = number_of(std::move(to), out);
    out.states[static_cast<size_t>(own)].free.push_back(number);
  }

  int number_of(Point point, Nfa& out) {
    // An assertion that every text satisfies is done.
    std::erase_if(point.open, [&](const Open& one) {
      const auto& state = at(one);
      return state.accepts && state.edges.size() == 1 && state.edges[0].to == one.second &&
             state.edges[0].set.complement().empty();
    });
    std::sort(point.open.begin(), point.open.end());
    point.open.erase(std::unique(point.open.begin(), point.open.end()), point.open.end());
    const auto [it, fresh] = numbers_.emplace(point, 0);
    if (fresh) {
      it->second = all_.empty() ? 0 : out.add();
      all_.push_back(std::move(point));
    }
    return it->second;
  }

  const Nfa& in_;
  const int end_;
  WorkBudget& work_;
  std::vector<Automaton> automata_;
  std::map<const RegexNode*, int> known_;
  std::map<Point, int> numbers_;
  std::vector<Point> all_;  // by the order in which they were found
  std::deque<CharSet> sets_;
};

Result<Automaton> automaton_of_node(const RegexNode& node, WorkBudget& work, const Automaton* within) {
  if (within && within->states.empty()) return Automaton();
  Nfa nfa;
  const int begin = nfa.add();
  const int end = nfa.build(node, begin);
  if (nfa.full()) return automaton_too_large();
  if (!work.spend(kParsing * nfa.states.size())) return automaton_too_much_work();
  Assertions assertions(nfa, end, work);
  Nfa plain;
  const bool rewritten = nfa.asserts || within;
  if (rewritten) {
    TRY_VOID(assertions.write(begin, within, plain));
  }
  Subsets subsets(rewritten ? plain : nfa, rewritten ? 1 : end, work);
  TRY(const Automaton automaton, subsets.from(rewritten ? 0 : begin));
  return minimal(trimmed_states(automaton), work);
}

}  // namespace

Result<Automaton> compile_regex(std::string_view pattern, WorkBudget& work, bool whole,
                                const Automaton* within) {
  if (!work.spend(kParsing * (pattern.size() + 1))) return automaton_too_much_work();
  TRY(const RegexNode node, parse_regex(pattern, whole));
  return automaton_of_node(node, work, within);
}

Result<Automaton> compile_regex(const RegexNode& node, WorkBudget& work) {
  return automaton_of_node(node, work);
}

}  // namespace anabranch
