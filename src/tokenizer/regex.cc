#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <vector>

#include "base/outside_text.h"

namespace anabranch {
namespace {

constexpr size_t kMaxPattern = 64 << 10;
constexpr uint32_t kMatchLimit =
    10'000'000;  // backtracks in one match; honest patterns use about one per byte
constexpr size_t kJitStack = 1 << 20;

// Rewrites a pattern one construct at a time. Escapes that mean the same in both dialects pass through, those
// that differ are spelled out, and unknown constructs are errors, never silent differences.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      if (c == '\\') {
        atom_ = out_.size();
        TRY_VOID(escape(false));
      } else if (c == '[') {
        atom_ = out_.size();
        TRY_VOID(char_class());
      } else if (c == '(') {
        open_.push_back(out_.size());
        TRY_VOID(group());
      } else if (c == ')') {
        if (open_.empty()) return error(ErrorKind::invalid, "unmatched )");
        atom_ = open_.back();
        open_.pop_back();
        copy(1);
      } else if (c == '{') {
        TRY_VOID(interval());
      } else {
        if (c != '*' && c != '+' && c != '?' && (c & 0xC0) != 0x80) atom_ = out_.size();
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  Error error(ErrorKind kind, std::string_view what) const {
    return make_error(kind, "regex '{}': {} at byte {}", shown(in_), what, pos_);
  }
  void copy(size_t count) {
    out_.append(in_, pos_, count);
    pos_ += count;
  }

  // (?<name>..), (?:..), (?i:..), lookaround and atomic groups are alike; other (? forms are refused.
  Result<void> group() {
    copy(1);
    if (pos_ >= in_.size() || in_[pos_] != '?') return {};
    size_t end = pos_ + 1;
    if (end < in_.size() && std::string_view(":=!>").find(in_[end]) != std::string_view::npos) {
      copy(2);
      return {};
    }
    if (end + 1 < in_.size() && in_[end] == '<' && (in_[end + 1] == '=' || in_[end + 1] == '!')) {
      copy(3);
      return {};
    }
    while (end < in_.size() && (in_[end] == 'i' || in_[end] == '-')) ++end;
    if (end == pos_ + 1 || end >= in_.size() || (in_[end] != ':' && in_[end] != ')'))
      return error(ErrorKind::unsupported, "group option");
    copy(end - pos_ + (in_[end] == ':'));
    return {};
  }

  // Oniguruma reads x{1,3}+ as (x{1,3})+, PCRE2 as possessive.
  Result<void> interval() {
    size_t end = pos_ + 1;
    bool comma = false, digits = false;
    for (; end < in_.size() && in_[end] != '}'; ++end) {
      if (in_[end] == ',' && !comma && digits) {
        comma = true;
      } else if (std::isdigit(static_cast<unsigned char>(in_[end]))) {
        digits = true;
      } else {
        return error(ErrorKind::unsupported, "{ that is not an interval {n}, {n,} or {n,m}");
      }
    }
    if (end >= in_.size() || !digits) return error(ErrorKind::unsupported, "{ that is not an interval");
    copy(end + 1 - pos_);
    if (pos_ < in_.size() && in_[pos_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += ')';
    } else if (pos_ < in_.size() && in_[pos_] == '?' && !comma) {
      return error(ErrorKind::unsupported, "{n}?");
    }
    return {};
  }

  Result<void> char_class() {
    copy(1);
    if (pos_ < in_.size() && in_[pos_] == '^') copy(1);
    if (pos_ < in_.size() && in_[pos_] == ']') return error(ErrorKind::unsupported, "] as first in a class");
    while (pos_ < in_.size() && in_[pos_] != ']') {
      if (in_[pos_] == '\\') {
        TRY_VOID(escape(true));
      } else if (in_[pos_] == '[') {
        return error(ErrorKind::unsupported, "class inside a class");
      } else if (in_.substr(pos_, 2) == "&&") {
        return error(ErrorKind::unsupported, "&& in a class");
      } else {
        copy(1);
      }
    }
    if (pos_ >= in_.size()) return error(ErrorKind::invalid, "class without an end");
    copy(1);
    return {};
  }

  Result<void> escape(bool in_class) {
    if (pos_ + 1 >= in_.size()) return error(ErrorKind::invalid, "\\ at the end");
    const char c = in_[pos_ + 1];
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' || c == 'u') return code_point();
    std::string_view meaning;
    switch (c) {
      // Spelled out, because PCRE2's own \s adds U+180E, its \w lacks marks, and its \v is every vertical
      // space. Oniguruma's \w has the numbers of Latin-1 (² ¼ ...), though only outside a class.
      case 's':
        meaning = "\\p{White_Space}";
        break;
      case 'S':
        meaning = "\\P{White_Space}";
        break;
      case 'v':
        meaning = "\\x{0B}";
        break;
      case 'w':
        meaning = in_class ? "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
                           : "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]";
        break;
      case 'W':
        if (in_class) return error(ErrorKind::unsupported, "\\W in a class");
        meaning = "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]";
        break;
      case 'd':
        meaning = "\\p{Nd}";
        break;
      case 'D':
        meaning = "\\P{Nd}";
        break;
      default:
        if (std::isalnum(static_cast<unsigned char>(c)) &&
            std::string_view("rntfae").find(c) == std::string_view::npos)
          return error(ErrorKind::unsupported, fmt::format("escape \\{}", c));
        copy(2);
        return {};
    }
    out_ += meaning;
    pos_ += 2;
    return {};
  }

  // \p{Han} is the script in Oniguruma; PCRE2 would read it as the wider script extensions.
  Result<void> property() {
    if (pos_ + 2 >= in_.size() || in_[pos_ + 2] != '{')
      return error(ErrorKind::unsupported, "\\p without braces");
    const size_t end = in_.find('}', pos_);
    if (end == std::string_view::npos) return error(ErrorKind::invalid, "\\p{ without }");
    std::string_view name = in_.substr(pos_ + 3, end - pos_ - 3);
    const bool inverted = !name.empty() && name[0] == '^';
    if (inverted) name.remove_prefix(1);
    static constexpr std::array<std::string_view, 12> kScripts = {
        "Han",    "Hiragana", "Katakana", "Hangul", "Latin",   "Greek",
        "Arabic", "Hebrew",   "Cyrillic", "Thai",   "Bengali", "Devanagari"};
    bool script = false;
    for (const auto s : kScripts) script |= s == name;
    if (!script && name.size() > 2) return error(ErrorKind::unsupported, fmt::format("property '{}'", name));
    out_ += fmt::format("\\{}{{{}{}{}}}", in_[pos_ + 1], inverted ? "^" : "", script ? "sc:" : "", name);
    pos_ = end + 1;
    return {};
  }

  // \xHH, \x{H..}, \uHHHH
  Result<void> code_point() {
    const bool braces = in_.substr(pos_ + 1, 2) == "x{";
    size_t begin = pos_ + (braces ? 3 : 2), end = begin;
    const size_t most = braces ? 6 : in_[pos_ + 1] == 'u' ? 4 : 2;
    while (end < in_.size() && end - begin < most && std::isxdigit(static_cast<unsigned char>(in_[end])))
      ++end;
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (end == begin || !closed || (!braces && end - begin != most))
      return error(ErrorKind::invalid, "bad hexadecimal escape");
    // A lone byte escape above 7F means a raw byte to Oniguruma.
    if (most == 2 && in_[begin] >= '8') return error(ErrorKind::unsupported, "\\x above 7F; write \\x{..}");
    out_ += fmt::format("\\x{{{}}}", in_.substr(begin, end - begin));
    pos_ = end + braces;
    return {};
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  size_t atom_ = 0;           // where the last atom starts in out_
  std::vector<size_t> open_;  // where the open groups start in out_
};

// Match buffers are per thread: a Regex is shared.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStack, nullptr);
  Scratch() {
    CHECK(data && context);
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, 100'000);
    pcre2_set_heap_limit(context, 64 << 10);  // KiB
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

Result<std::shared_ptr<const void>> compile_pcre2(std::string_view pattern, std::string_view original) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE,
                                       &code, &offset, nullptr);
  if (!compiled) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(code, message.data(), message.size());
    return make_error(ErrorKind::invalid, "regex '{}': {}", shown(original),
                      reinterpret_cast<const char*>(message.data()));
  }
  // Without JIT support the interpreter gives the same matches, slower.
  (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const void>(
      compiled, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPattern)
    return make_error(ErrorKind::exhausted, "regex of {} bytes; the limit is {}", pattern.size(),
                      kMaxPattern);
  return Translator(pattern).run();
}

Result<Regex> Regex::compile(std::string_view pattern) {
  TRY(const std::string translated, translate_regex(pattern));
  TRY(auto code, compile_pcre2(translated, pattern));
  return Regex(std::move(code));
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c)))
      escaped += fmt::format("\\x{{{:02x}}}", c);
    else
      escaped += c;
  }
  TRY(auto code, compile_pcre2(escaped, text));
  return Regex(std::move(code));
}

bool Regex::find(std::string_view text, size_t from, Match& match) const {
  thread_local Scratch scratch;
  const int rc =
      pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                  text.size(), from, PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
  if (rc < 0) return false;
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.data);
  match = {range[0], range[1]};
  return range[0] <= range[1];
}

}  // namespace anabranch
