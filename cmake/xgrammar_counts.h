// Rules that count, for xgrammar. Repetitions with bounds would otherwise be written out, and each state that is
// written out has a token mask that takes milliseconds to compute. cmake/FindXgrammar.cmake puts calls of these
// functions into xgrammar's parser.
//
// A rule counts if its option is capture="#GROUP LEAST MOST NEAR FAR". Its count is 0 where another rule refers to
// it, and one more where a rule of the same group does: with right recursion, it is the number of repetitions. The
// rule may end from the count LEAST on; it may begin up to the count MOST. Its mask is the same for all counts far
// from the bounds. Of the tokens that stay in the group, those with at most NEAR - count characters are allowed
// without a check. At the beginning of a character, those with more than FAR - count and without a backslash (an
// escape is one character) are not allowed.
#pragma once

#include <climits>
#include <cstdio>
#include <string>
#include <vector>

namespace xgrammar_counts {

// In masks, which are computed for all counts, the count is this or more.
inline constexpr int kUnknown = 1 << 24;

struct Rule {
  int group = -1;  // -1: it does not count
  int least = 0, most = INT_MAX, near = INT_MAX, far = INT_MAX;
};

inline bool is_option(const std::string& capture) {
  return !capture.empty() && capture[0] == '#';
}
inline Rule rule_of(const std::string& capture) {
  Rule out;
  if (!is_option(capture)) return out;
  const int read = std::sscanf(capture.c_str(), "#%d %d %d %d %d", &out.group, &out.least, &out.most, &out.near, &out.far);
  return read == 5 ? out : Rule();
}

// The state, of a rule that counts with any count.
template <class State, class Grammar>
State for_all_counts(State state, const Grammar& grammar) {
  if (rule_of(grammar->GetRule(state.rule_id).capture_name).group >= 0) state.repeat_count = kUnknown;
  return state;
}

// The rules of a grammar, with what is known about the states of their automata.
class Rules {
 public:
  template <class Grammar>
  void read(const Grammar& grammar) {
    for (int i = 0; i < grammar->NumRules(); i++) {
      if (!is_option(grammar->GetRule(i).capture_name)) continue;
      if (rules_.empty()) rules_.resize(grammar->NumRules()), bounds_.resize(grammar->NumRules());
      rules_[i] = rule_of(grammar->GetRule(i).capture_name);
    }
  }
  bool any() const { return !rules_.empty(); }
  bool counts(int rule) const { return any() && rule >= 0 && rules_[rule].group >= 0; }
  const Rule& operator[](int rule) const { return rules_[rule]; }

  // The count of a rule to which a state refers.
  template <class State>
  int next(const State& from, int rule) const {
    if (!counts(rule)) return 0;
    return counts(from.rule_id) && rules_[from.rule_id].group == rules_[rule].group ? from.repeat_count + 1 : 0;
  }
  // target: the state of `from`'s rule behind the reference.
  template <class State, class Fsm>
  bool may_begin(const State& from, int rule, int target, const Fsm& fsm) {
    const bool same = counts(rule) && counts(from.rule_id) && rules_[from.rule_id].group == rules_[rule].group;
    if (!same && counts(from.rule_id) && from.repeat_count < kUnknown &&
        from.repeat_count + 1 > bound(from.rule_id, target, fsm))
      return false;
    if (!counts(rule)) return true;
    const int count = next(from, rule);
    return count >= kUnknown || count <= rules_[rule].most;
  }
  // Whether the end of `rule` also ends the rule of `from`, whatever its count, when it is the last reference.
  template <class State>
  bool ends_with(const State& from, int rule) const {
    if (!counts(from.rule_id) || !counts(rule)) return !counts(from.rule_id);
    const bool unlimited = rules_[rule].least == 0 && rules_[rule].most == INT_MAX;  // it sets the count back
    return unlimited || rules_[from.rule_id].group == rules_[rule].group;
  }
  // Whether the rule may end with this count.
  bool may_end(int rule, int count) const { return !counts(rule) || count >= rules_[rule].least; }
  // Whether a state may go on to another one of its rule, so that the text can still be completed.
  template <class State, class Fsm>
  bool may_go(const State& from, int target, const Fsm& fsm) {
    if (!counts(from.rule_id) || from.repeat_count >= kUnknown) return true;
    const bool ends = fsm.IsEndState(target) && fsm.GetFsm().GetEdges(target).size() == 0;
    return ends ? may_end(from.rule_id, from.repeat_count) : from.repeat_count + 1 <= bound(from.rule_id, target, fsm);
  }

 private:
  // The highest count with which a rule of the group may begin behind this state; INT_MAX: none need begin.
  template <class Fsm>
  int bound(int rule, int target, const Fsm& fsm) {
    auto& known = bounds_[rule];
    if (known.empty()) known.assign(fsm.NumStates(), -1);
    if (known[target] >= 0) return known[target];
    known[target] = 0;  // of a loop, the other ways out count
    int out = fsm.IsEndState(target) ? INT_MAX : 0;
    for (const auto& edge : fsm.GetFsm().GetEdges(target)) {
      const int aim = edge.IsRuleRef() ? edge.GetRefRuleId() : -1;
      const bool own = counts(aim) && rules_[aim].group == rules_[rule].group;
      const int here = own ? rules_[aim].most : bound(rule, edge.target, fsm);
      if (here > out) out = here;
    }
    return bounds_[rule][target] = out;
  }

  std::vector<Rule> rules_;               // empty: none counts
  std::vector<std::vector<int>> bounds_;  // of each rule, by state; -1: not computed
};

}  // namespace xgrammar_counts
