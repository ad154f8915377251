#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "grammar/automaton_parts.h"
#include "tokenizer/utf8.h"

namespace anabranch {

Error automaton_too_large() {
  return make_error(
      ErrorKind::exhausted,
      "the pattern or length is too large: it needs more than {} states, or {} ranges of characters",
      kMaxStates, kMaxRanges);
}

Error automaton_too_much_work() {
  return make_error(ErrorKind::exhausted,
                    "the pattern or length takes too much work, with the others of this request");
}

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

namespace {

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

}  // namespace

// Moore's algorithm: refines a partition of the states.
Result<Automaton> minimal(const Automaton& in, WorkBudget& work) {
  constexpr size_t kWriting = 30;  // steps of work for writing one range
  const auto steps = steps_of(in);
  std::vector<int> group = distances(in);
  for (size_t groups = 0;;) {
    std::unordered_map<Signature, int, SignatureHash> numbers;
    std::vector<int> next(group.size());
    for (size_t i = 0; i < group.size(); i++) {
      if (!work.spend(8 + steps[i].size())) return automaton_too_much_work();
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
    if (!work.spend(kWriting * (1 + steps[i].size()))) return automaton_too_much_work();
  }
  return out;
}

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
  if (next <= kLastCodePoint) out.ranges_.emplace_back(next, kLastCodePoint);
  return out;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet outside = complement();
  outside.add(other);
  return outside.complement();
}

CharSet CharSet::common(const CharSet& other) const {
  CharSet out;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const auto first = std::max(ranges_[i].first, other.ranges_[j].first);
    const auto last = std::min(ranges_[i].second, other.ranges_[j].second);
    if (first <= last) out.ranges_.emplace_back(first, last);
    ranges_[i].second < other.ranges_[j].second ? i++ : j++;
  }
  return out;
}

bool CharSet::has(char32_t c) const {
  const auto it =
      std::upper_bound(ranges_.begin(), ranges_.end(), std::pair<char32_t, char32_t>(c, kLastCodePoint + 1));
  return it != ranges_.begin() && std::prev(it)->second >= c;
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
  TRY(const Automaton automaton, compile_regex(pattern, work));
  return complement(automaton, work);
}

Lengths lengths_of(const Automaton& automaton) {
  std::vector<size_t> entries(automaton.states.size()), longest(automaton.states.size());
  for (const auto& state : automaton.states)
    for (const auto& edge : state.edges) entries[static_cast<size_t>(edge.to)]++;
  std::vector<size_t> done;  // in an order in which every edge leads onwards; states on a cycle never come
  if (entries[0] == 0) done.push_back(0);
  for (size_t i = 0; i < done.size(); i++)
    for (const auto& edge : automaton.states[done[i]].edges) {
      const auto to = static_cast<size_t>(edge.to);
      longest[to] = std::max(longest[to], longest[done[i]] + 1);
      if (--entries[to] == 0) done.push_back(to);
    }
  Lengths out{static_cast<size_t>(distances(automaton)[0]), std::nullopt};
  if (done.size() == automaton.states.size()) out.most = *std::max_element(longest.begin(), longest.end());
  return out;
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
    if (all.size() > kMaxStates || ranges > kMaxRanges) return automaton_too_large();
    const auto [state, length] = all[i];
    const auto& from = automaton.states[static_cast<size_t>(state)];
    out.states[i].accepts = from.accepts && length >= least;
    if (most && length == cap) continue;
    for (const auto& edge : from.edges) {
      const int to = number_of(edge.to, std::min(length + 1, cap));
      out.states[i].edges.push_back({edge.set, to});
      ranges += edge.set.ranges().size();
    }
    if (!work.spend(kCopying * (1 + from.edges.size()))) return automaton_too_much_work();
  }
  return minimal(trimmed_states(out), work);
}

bool accepts_text(const Automaton& automaton, std::string_view text) {
  if (automaton.states.empty()) return false;
  size_t state = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    const auto& edges = automaton.states[state].edges;
    const auto it =
        std::find_if(edges.begin(), edges.end(), [&](const auto& edge) { return edge.set.has(c.value); });
    if (it == edges.end()) return false;
    state = static_cast<size_t>(it->to);
    i += static_cast<size_t>(c.length);
  }
  return automaton.states[state].accepts;
}

Result<Automaton> intersection(const Automaton& a, const Automaton& b, WorkBudget& work) {
  constexpr size_t kComparing = 20;  // steps of work for each pair of edges
  std::map<std::pair<int, int>, int> numbers;
  std::vector<std::pair<int, int>> all;
  Automaton out;
  if (a.states.empty() || b.states.empty()) return out;
  const auto number_of = [&](int left, int right) {
    const auto [it, fresh] = numbers.emplace(std::pair(left, right), static_cast<int>(all.size()));
    if (fresh) all.emplace_back(left, right), out.states.emplace_back();
    return it->second;
  };
  number_of(0, 0);
  size_t ranges = 0;
  for (size_t i = 0; i < all.size(); i++) {
    const auto& left = a.states[static_cast<size_t>(all[i].first)];
    const auto& right = b.states[static_cast<size_t>(all[i].second)];
    out.states[i].accepts = left.accepts && right.accepts;
    for (const auto& one : left.edges)
      for (const auto& other : right.edges) {
        const size_t steps = one.set.ranges().size() + other.set.ranges().size();
        if (!work.spend(kComparing + steps)) return automaton_too_much_work();
        CharSet set = one.set.common(other.set);
        if (set.empty()) continue;
        ranges += set.ranges().size();
        const int to = number_of(one.to, other.to);
        out.states[i].edges.push_back({std::move(set), to});
      }
    if (ranges > kMaxRanges) return automaton_too_large();
  }
  TRY(Automaton least, minimal(trimmed_states(out), work));
  if (least.states.size() > kMaxStates) return automaton_too_large();
  return least;
}

Result<Automaton> complement(const Automaton& automaton, WorkBudget& work) {
  Automaton out = automaton;
  const auto all = static_cast<int>(out.states.size());  // the state after any text that was not accepted
  out.states.push_back({{{CharSet::all(), all}}, false});
  for (auto& state : out.states) {
    CharSet known;
    for (const auto& edge : state.edges) known.add(edge.set);
    if (CharSet others = known.complement(); !others.empty()) state.edges.push_back({std::move(others), all});
    state.accepts = !state.accepts;
  }
  return minimal(trimmed_states(out), work);
}

}  // namespace anabranch
