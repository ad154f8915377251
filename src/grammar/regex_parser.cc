#include "grammar/regex_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "grammar/regex_properties.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr int kMaxNesting = 32;
constexpr size_t kMostRepeats = 10'000, kMaxPattern = 4096;

// The characters that \d, \w, \s or their complements have in every regex engine. Some engines add the
// digits, letters and spaces of Unicode.
CharSet shorthand(char32_t letter) {
  switch (letter) {
    case 'd':
      return CharSet({{'0', '9'}});
    case 'w':
      return CharSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    case 's':
      return CharSet({{'\t', '\r'}, {' ', ' '}});
    case 'D':
      return shorthand('d').complement().without({{0x7F, kLast}});
    case 'W':
      return shorthand('w').complement().without({{0x7F, kLast}});
    default:  // 'S'
      return CharSet({{'!', '~'}, {0xA1, 0x167F}, {0x1681, 0x1FFF}, {0x3001, 0xD7FF}});
  }
}

// A member of a character class, or an escape.
struct ClassMember {
  CharSet set;                     // the characters that it matches in every engine
  CharSet most;                    // the characters that it matches in some engine
  std::optional<char32_t> single;  // the character, if it is a single one (not \d and the like)
};

ClassMember single(char32_t c) {
  const CharSet set{{c, c}};
  return {set, set, c};
}

ClassMember short_member(char32_t letter) {
  constexpr char32_t kOtherCase = 0x20;  // turns d into D: \D is the complement of \d
  return {shorthand(letter), shorthand(letter ^ kOtherCase).complement(), std::nullopt};
}

class Parser {
 public:
  Parser(std::string_view pattern, bool whole) : pattern_(pattern), whole_(whole) {}

  Result<RegexNode> parse() {
    if (!is_valid_utf8(pattern_)) return fail("is not UTF-8");
    if (pattern_.size() > kMaxPattern) return refuse(fmt::format("more than {} bytes", kMaxPattern));
    TRY(RegexNode node, alternatives(0, whole_ ? Ends::whole : Ends::search));
    if (at_ < pattern_.size()) return fail("has a ) without a (");
    return node;
  }

 private:
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(ErrorKind::invalid, "the pattern {} (at byte {})",
                      fmt::format(format, std::forward<Args>(args)...), at_);
  }
  Error refuse(std::string_view what) const {
    return make_error(ErrorKind::unsupported, "patterns with {} are not supported (at byte {})", what, at_);
  }
  bool ended() const { return at_ >= pattern_.size(); }
  char here() const { return pattern_[at_]; }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_char() {
    const CodePoint c = decode_utf8(pattern_, at_);
    at_ += static_cast<size_t>(c.length);
    return c.value;
  }

  // What stands around a sequence: a part of the pattern, the ends of the text, any text, or before it an
  // assertion's place and after it any text.
  enum class Ends { inside, whole, search, ahead };

  Result<RegexNode> alternatives(int depth, Ends ends) {
    if (depth > kMaxNesting) return refuse("groups this deep");
    RegexNode all{RegexNode::Kind::choice, {}, {}};
    do {
      TRY(RegexNode one, sequence(depth, ends));
      all.children.push_back(std::move(one));
    } while (take("|"));
    return all;
  }

  // Anchors are allowed only at the ends of top-level alternatives, and $ at the end of an assertion. At an
  // end without an anchor, any text may follow or precede.
  Result<RegexNode> sequence(int depth, Ends ends) {
    RegexNode all{RegexNode::Kind::sequence, {}, {}};
    const RegexNode any{RegexNode::Kind::chars, CharSet::all(), {}};
    const RegexNode open{RegexNode::Kind::repeat, {}, {any}, 0, SIZE_MAX};
    const bool top = ends == Ends::whole || ends == Ends::search;
    if (top && !take("^") && ends == Ends::search) all.children.push_back(open);
    bool closed = false;
    while (!ended() && here() != '|' && here() != ')') {
      if (take("$")) {
        if (ends == Ends::inside || (!ended() && here() != '|' && here() != ')')) return refuse("$ inside");
        closed = true;
        break;
      }
      TRY(RegexNode one, repeated(depth));
      all.children.push_back(std::move(one));
    }
    if ((ends == Ends::search || ends == Ends::ahead) && !closed) all.children.push_back(open);
    return all;
  }

  Result<RegexNode> repeated(int depth) {
    TRY(RegexNode node, atom(depth));
    size_t least = 1, most = 1;
    if (take("*"))
      least = 0, most = SIZE_MAX;
    else if (take("+"))
      most = SIZE_MAX;
    else if (take("?"))
      least = 0;
    else if (!ended() && here() == '{') {
      TRY_VOID(bounds(least, most));
    } else {
      return node;
    }
    take("?");  // lazy repetitions match the same texts as greedy ones
    if (!ended() && (here() == '*' || here() == '+' || here() == '?' || here() == '{'))
      return refuse("a repetition of a repetition");
    return RegexNode{RegexNode::Kind::repeat, {}, {std::move(node)}, least, most};
  }

  Result<void> bounds(size_t& least, size_t& most) {
    take("{");
    const auto number = [&](size_t& n) {
      const size_t begin = at_;
      for (n = 0; !ended() && here() >= '0' && here() <= '9'; at_++)
        n = std::min(n * 10 + static_cast<size_t>(here() - '0'), kMostRepeats + 1);
      return at_ > begin;
    };
    if (!number(least)) return fail("has a {{ that begins no repetition; write \\{{ for the character");
    most = least;
    if (take(",") && !number(most)) most = SIZE_MAX;
    if (!take("}")) return fail("has a repetition without }}");
    if (least > kMostRepeats || (most > kMostRepeats && most != SIZE_MAX))
      return refuse(fmt::format("a repetition above {}", kMostRepeats));
    if (least > most) return fail("repeats at least {} and at most {} times", least, most);
    return {};
  }

  // What must not follow is read in its widest sense.
  Result<RegexNode> assertion(int depth, bool negative) {
    const bool before = std::exchange(widest_, widest_ != negative);
    TRY(RegexNode inside, alternatives(depth + 1, Ends::ahead));
    widest_ = before;
    if (!take(")")) return fail("has a ( without a )");
    RegexNode out{RegexNode::Kind::ahead, {}, {std::move(inside)}};
    out.negative = negative;
    return out;
  }

  Result<RegexNode> atom(int depth) {
    if (take("(")) {
      if (take("?=") || take("?!")) return assertion(depth, pattern_[at_ - 1] == '!');
      if (take("?") && !take(":")) return refuse("assertions about what is before, named groups or flags");
      TRY(RegexNode inside, alternatives(depth + 1, Ends::inside));
      if (!take(")")) return fail("has a ( without a )");
      return inside;
    }
    CharSet set;
    if (take("[")) {
      TRY(set, char_class());
      if (set.empty()) return refuse("an empty class");
    } else if (take(".")) {
      set = widest_ ? CharSet({{'\n', '\n'}}).complement()
                    : CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement();
    } else if (take("\\")) {
      TRY(const ClassMember escaped, escape(false));
      set = widest_ ? escaped.most : escaped.set;
    } else if (const char c = here(); c == '^') {
      return refuse("^ inside");
    } else if (c == '*' || c == '+' || c == '?') {
      return fail("repeats nothing");
    } else {
      const char32_t value = take_char();
      set.add(value, value);
    }
    return RegexNode{RegexNode::Kind::chars, std::move(set), {}};
  }

  Result<ClassMember> escape(bool in_class) {
    if (ended()) return fail("ends with a backslash");
    const char32_t c = take_char();
    switch (c) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S':
        return short_member(c);
      case 'n':
        return single('\n');
      case 'r':
        return single('\r');
      case 't':
        return single('\t');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case '0':
        return single(0);
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'b':
        if (in_class) return single('\b');
        return refuse("\\b");
      default:
        if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          return refuse(fmt::format("\\{}", static_cast<char>(c)));
        return single(c);
    }
  }

  Result<ClassMember> property(bool negated) {
    const size_t end = pattern_.find('}', at_);
    if (!take("{") || end == pattern_.npos) return refuse("\\p without a property");
    const std::string_view name = pattern_.substr(at_, end - at_);
    const CharSet known = characters_with(name);
    if (name.empty() || known.empty()) return refuse(fmt::format("\\p{{{}}}", name));
    at_ = end + 1;
    CharSet most{{0x80, kLast}};
    most.add(known);
    if (negated) return ClassMember{most.complement(), known.complement(), std::nullopt};
    return ClassMember{known, most, std::nullopt};
  }

  Result<ClassMember> hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; i++, at_++) {
      const char c = ended() ? '.' : here();
      const bool decimal = c >= '0' && c <= '9';
      if (!decimal && !((c | 32) >= 'a' && (c | 32) <= 'f'))
        return fail("needs {} hexadecimal digits", digits);
      value = value * 16 + static_cast<char32_t>(decimal ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (value >= 0xD800 && value <= 0xDFFF) return refuse("surrogates");
    return single(value);
  }

  Result<ClassMember> member() {
    if (take("\\")) return escape(true);
    return single(take_char());
  }

  Result<CharSet> char_class() {
    const bool negated = take("^");
    std::vector<CharSet::Range> ranges;
    while (!ended() && here() != ']') {
      TRY(const ClassMember first, member());
      const bool range = first.single && pattern_.substr(at_, 1) == "-" && pattern_.substr(at_, 2) != "-]";
      if (!range) {
        const auto& more = (negated != widest_ ? first.most : first.set).ranges();
        ranges.insert(ranges.end(), more.begin(), more.end());
        continue;
      }
      at_++;
      if (ended()) break;
      TRY(const ClassMember last, member());
      if (!last.single || *last.single < *first.single) return fail("has a range that does not run upwards");
      ranges.emplace_back(*first.single, *last.single);
    }
    if (!take("]")) return fail("has a [ without a ]");
    const CharSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  std::string_view pattern_;
  const bool whole_;
  bool widest_ = false;  // classes have all characters that some engine gives them
  size_t at_ = 0;
};

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern, bool whole) {
  return Parser(pattern, whole).parse();
}

}  // namespace anabranch
