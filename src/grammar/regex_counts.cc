// Regular expressions whose repetitions are counted by the grammar instead of written out.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/automaton_parts.h"
#include "grammar/counted_group.h"
#include "grammar/regex_parser.h"

namespace anabranch {
namespace {

using Kind = RegexNode::Kind;

// Repetitions up to this count are states of an automaton, which has the fastest masks.
constexpr size_t kWrittenOut = 4;

size_t count_of(const RegexNode& repeat) {
  return repeat.most == SIZE_MAX ? repeat.least : repeat.most;
}

bool any_of_children(const RegexNode& node, bool (*test)(const RegexNode&)) {
  return std::any_of(node.children.begin(), node.children.end(), test);
}

bool has_large_count(const RegexNode& node) {
  return (node.kind == Kind::repeat && count_of(node) > kWrittenOut) ||
         any_of_children(node, has_large_count);
}

bool may_be_empty(const RegexNode& node) {
  switch (node.kind) {
    case Kind::chars:
      return false;
    case Kind::sequence:
      return std::all_of(node.children.begin(), node.children.end(), may_be_empty);
    case Kind::choice:
      return any_of_children(node, may_be_empty);
    case Kind::repeat:
      return node.least == 0 || may_be_empty(node.children[0]);
    case Kind::ahead:
      return true;
  }
  return true;
}

// Whether something in the node cannot be counted: assertions, and what may be empty any number of times.
bool is_uncountable(const RegexNode& node) {
  const bool repeats = node.kind == Kind::repeat && has_large_count(node);
  return node.kind == Kind::ahead || (repeats && may_be_empty(node.children[0])) ||
         any_of_children(node, is_uncountable);
}

size_t times(size_t a, size_t b) {
  return a == 0 || b == 0 ? 0 : a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

// The lengths of the texts; most: SIZE_MAX for no limit.
struct Length {
  size_t least = 0, most = 0;
};
Length length_of(const RegexNode& node) {
  Length out;
  if (node.kind == Kind::chars) return {1, 1};
  if (node.kind == Kind::choice) out.least = SIZE_MAX;
  for (const RegexNode& child : node.children) {
    const Length one = length_of(child);
    const size_t room = SIZE_MAX - one.most;
    if (node.kind == Kind::choice)
      out = {std::min(out.least, one.least), std::max(out.most, one.most)};
    else if (node.kind == Kind::repeat)
      out = {times(one.least, node.least), times(one.most, node.most)};
    else
      out = {out.least + one.least, out.most > room ? SIZE_MAX : out.most + one.most};
  }
  return out;
}

// The characters with which a text may begin.
CharSet first_of(const RegexNode& node) {
  CharSet out = node.set;
  for (const RegexNode& child : node.children) {
    out.add(first_of(child));
    if (node.kind == Kind::sequence && !may_be_empty(child)) break;
  }
  return out;
}

// Whether alternatives may begin alike and end at different places.
bool has_unequal_choices(const RegexNode& choice) {
  const Length all = length_of(choice);
  if (all.least == all.most) return false;
  CharSet before;
  for (const RegexNode& child : choice.children) {
    const CharSet first = first_of(child);
    if (may_be_empty(child) || !first.common(before).empty()) return true;
    before.add(first);
  }
  return false;
}

// Whether a text may be read with several counts at a time: a part that may end at several places has a count
// behind it or around it. The rules that count keep such counts apart only by the places where they began, so
// texts of wrong lengths would pass, and each character would take long. after: the characters that may
// follow; counts: whether a count may.
bool has_many_counts(const RegexNode& node, const CharSet& after, bool counts) {
  if (node.kind == Kind::chars) return false;
  if (node.kind == Kind::choice && (counts || has_large_count(node)) && has_unequal_choices(node))
    return true;
  if (node.kind == Kind::repeat) {
    const RegexNode& child = node.children[0];
    CharSet next = first_of(child);
    const bool ends_anywhere = node.most != node.least && counts && !next.common(after).empty();
    next.add(after);
    return ends_anywhere || has_many_counts(child, next, counts || has_large_count(node));
  }
  CharSet next = after;
  for (size_t i = node.children.size(); i-- > 0;) {
    const RegexNode& child = node.children[i];
    if (has_many_counts(child, next, counts)) return true;
    if (node.kind == Kind::choice) continue;
    CharSet first = first_of(child);
    if (may_be_empty(child)) first.add(next);
    next = std::move(first);
    counts = counts || has_large_count(child);
  }
  return false;
}

bool is_any_text(const RegexNode& node) {
  return node.kind == Kind::repeat && node.least == 0 && node.most == SIZE_MAX &&
         node.children[0].kind == Kind::chars && node.children[0].set.complement().empty();
}

// The repetition of one character that may stand anywhere in a text; null: the node is something else.
const RegexNode* run_anywhere(const RegexNode& node) {
  if (node.kind == Kind::choice && node.children.size() == 1) return run_anywhere(node.children[0]);
  if (node.kind != Kind::sequence || node.children.size() != 3) return nullptr;
  const RegexNode& run = node.children[1];
  const bool is_run = run.kind == Kind::repeat && run.children[0].kind == Kind::chars;
  return is_run && is_any_text(node.children[0]) && is_any_text(node.children[2]) ? &run : nullptr;
}

class CountedRegex {
 public:
  CountedRegex(StringSyntax syntax, std::string_view hint, GrammarRules& rules)
      : syntax_(syntax), hint_(hint), rules_(rules) {}

  // The element of the node; "": no text can be written. after: the characters that may follow.
  Result<std::string> element(const RegexNode& node, const CharSet& after) {
    if (!has_large_count(node)) return automaton(node);
    if (node.kind == Kind::sequence) return sequence(node, after);
    return node.kind == Kind::choice ? choice(node, after) : repeat(node, after);
  }

  // Any text with such a run in it. Another character sets the count back: its rule is in a group of its own.
  std::string anywhere(const RegexNode& run) {
    const CharSet& set = run.children[0].set;
    const CountedGroup group(rules_);
    const std::string name = rules_.reserve(hint_), other = rules_.reserve(hint_);
    std::vector<std::string> others;
    for (const std::string& unit : written(set.complement(), syntax_)) others.push_back(unit + " " + other);
    define(name, written(set, syntax_), others, group, run.least, std::nullopt);
    rules_.define(other, name, CountedGroup(rules_).option(std::nullopt));
    return fmt::format("{} {}", name, add_automaton(any_text(), syntax_, hint_, rules_));
  }

 private:
  Result<std::string> automaton(const RegexNode& node) {
    TRY(const Automaton states, compile_regex(node, rules_.work()));
    return add_automaton(states, syntax_, hint_, rules_);
  }

  Result<std::string> sequence(const RegexNode& node, const CharSet& after) {
    std::vector<RegexNode> parts;  // neighbours without large counts are one automaton
    for (const RegexNode& child : node.children) {
      if (parts.empty() || has_large_count(child) || has_large_count(parts.back()))
        parts.push_back({Kind::sequence, {}, {}});
      parts.back().children.push_back(child);
    }
    std::vector<std::string> out;
    CharSet next = after;
    for (size_t i = parts.size(); i-- > 0;) {
      const bool counted = has_large_count(parts[i]);
      TRY(const std::string one, element(counted ? parts[i].children[0] : parts[i], next));
      if (one.empty()) return one;
      out.insert(out.begin(), one);
      CharSet first = first_of(parts[i]);
      if (may_be_empty(parts[i])) first.add(next);
      next = std::move(first);
    }
    return fmt::format("{}", fmt::join(out, " "));
  }

  Result<std::string> choice(const RegexNode& node, const CharSet& after) {
    std::vector<std::string> out;
    for (const RegexNode& child : node.children) {
      TRY(const std::string one, element(child, after));
      if (!one.empty()) out.push_back(one);
    }
    return out.empty() ? std::string() : fmt::format("({})", fmt::join(out, " | "));
  }

  Result<std::string> repeat(const RegexNode& node, const CharSet& after) {
    const RegexNode& child = node.children[0];
    const bool one_char = child.kind == Kind::chars;
    CharSet next = first_of(child);
    next.add(after);
    std::vector<std::string> units;
    if (one_char) {
      units = written(child.set, syntax_);
    } else {
      TRY(const std::string unit, element(child, next));
      if (!unit.empty()) units = {rules_.add(hint_, unit)};
    }
    if (units.empty()) return node.least > 0 ? std::string() : literal("");
    CountedGroup group(rules_);
    const auto most = node.most == SIZE_MAX ? std::nullopt : std::optional(node.most);
    group.near = most;
    if (one_char && child.set.common(after).empty()) group.far = most;
    const std::string name = rules_.reserve(hint_);
    define(name, units, {}, group, node.least, most);
    return name;
  }

  // Defines the rule that repeats one of the units. If the text must not be empty, the rule has a unit at its
  // end and none before its first count: a rule that may be empty is left out without a look at its count.
  void define(const std::string& name, const std::vector<std::string>& units, std::vector<std::string> others,
              CountedGroup group, size_t least, std::optional<size_t> most) {
    for (const std::string& unit : units) others.push_back(fmt::format("{} {}", unit, name));
    if (least > 0)
      others.insert(others.begin(), units.begin(), units.end());
    else
      others.insert(others.begin(), literal(""));
    group.least = least > 0 ? least - 1 : 0;
    if (least > 0 && most) --*most;
    rules_.define(name, fmt::format("{}", fmt::join(others, " | ")), group.option(most));
  }

  const StringSyntax syntax_;
  const std::string_view hint_;
  GrammarRules& rules_;
};

}  // namespace

Result<std::string> add_regex(std::string_view pattern, bool whole, const LengthBounds& bounds,
                              StringSyntax syntax, std::string_view hint, GrammarRules& rules) {
  constexpr size_t kParsing = 20;  // steps of work for each byte
  if (!rules.work().spend(kParsing * (pattern.size() + 1))) return automaton_too_much_work();
  TRY(const RegexNode node, parse_regex(pattern, whole));
  const Length length = length_of(node);
  const bool fits = length.least >= bounds.least && length.most <= bounds.most.value_or(SIZE_MAX);
  const RegexNode* run = run_anywhere(node);
  const bool counted =
      has_large_count(node) && !is_uncountable(node) && (run || !has_many_counts(node, {}, false));
  if (!fits || !counted) {
    TRY(const Automaton automaton, compile_regex(node, rules.work()));
    return add_bounded(automaton, bounds, syntax, hint, rules);
  }
  const bool quoted = syntax == StringSyntax::quoted;
  CountedRegex writer(quoted ? StringSyntax::inside : syntax, hint, rules);
  const CharSet after = syntax == StringSyntax::bare ? CharSet({{'\n', '\n'}}) : CharSet();
  TRY(const std::string text, run ? Result<std::string>(writer.anywhere(*run)) : writer.element(node, after));
  return text.empty() || !quoted ? text : rules.add(hint, fmt::format("\"\\\"\" {} \"\\\"\"", text));
}

}  // namespace anabranch
