#include "jinja/lexer.h"

#include <algorithm>

#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

bool ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    add(TokenKind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::string text, size_t at) {
    tokens_.push_back({kind, std::move(text), static_cast<uint32_t>(at)});
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view s) const { return source_.substr(at_, s.size()) == s; }

  void skip_space(size_t& at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(next_code_point(source_, next))) return;
      at = next;
    }
  }

  // Adds the text from `begin` to the tag at `tag`, without the white space that the tag strips.
  void add_data(size_t begin, size_t tag, char sign, bool lstrip) {
    std::string_view text = source_.substr(begin, tag - begin);
    if (sign == '-') {
      while (!text.empty()) {
        size_t last = previous_code_point(text, text.size()), at = last;
        if (!is_space(next_code_point(text, at))) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && lstrip) {
      size_t line = text.rfind('\n') + 1;  // npos + 1 == 0
      size_t at = begin + line;
      skip_space(at);
      if ((line > 0 || line_starts_) && at >= tag) text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::data, std::string(text), begin);
  }

  void lex_data() {
    size_t begin = at_, tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        add(TokenKind::data, std::string(source_.substr(begin)), begin);
        at_ = source_.size();
        return;
      }
      char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    char type = source_[tag + 1];
    at_ = tag + 2;
    char sign = peek() == '-' || peek() == '+' ? peek() : ' ';
    if (sign != ' ') ++at_;
    add_data(begin, tag, sign, type != '{');
    if (type == '#') {
      lex_comment(tag);
    } else if (type == '%' && enter_raw()) {
      lex_raw(tag);
    } else {
      add(type == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "", tag);
      lex_expression(type == '%', tag);
    }
    line_starts_ = source_[at_ - 1] == '\n';
  }

  // Skips white space after a tag's closing brackets: all of it after '-'; without a sign, one newline
  // (trim_blocks).
  void finish_tag(char sign, bool trim_newline) {
    if (sign == '-')
      skip_space(at_);
    else if (sign != '+' && trim_newline && peek() == '\n')
      ++at_;
  }

  void lex_comment(size_t tag) {
    size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail_at(source_, tag, "the comment is not closed by #}}");
    char sign = end > at_ ? source_[end - 1] : ' ';
    at_ = end + 2;
    finish_tag(sign, true);
  }

  // If "raw %}" follows, moves past it and returns true.
  bool enter_raw() {
    size_t at = at_;
    skip_space(at);
    if (source_.substr(at, 3) != "raw") return false;
    at += 3;
    skip_space(at);
    bool strip = source_.substr(at, 3) == "-%}";
    if (!strip && source_.substr(at, 2) != "%}") return false;
    at_ = at + (strip ? 3 : 2);
    if (strip) skip_space(at_);
    line_starts_ = source_[at_ - 1] == '\n';
    return true;
  }

  void lex_raw(size_t tag) {
    size_t begin = at_;
    for (size_t open = begin;; ++open) {
      open = source_.find("{%", open);
      if (open == std::string_view::npos) fail_at(source_, tag, "the raw block is not closed by endraw");
      size_t at = open + 2;
      char sign = at < source_.size() ? source_[at] : ' ';
      if (sign == '-' || sign == '+') ++at;
      skip_space(at);
      if (source_.substr(at, 6) != "endraw") continue;
      at += 6;
      skip_space(at);
      char end_sign = at < source_.size() ? source_[at] : ' ';
      if (end_sign == '-' || end_sign == '+') ++at;
      if (source_.substr(at, 2) != "%}") continue;
      add_data(begin, open, sign, true);
      at_ = at + 2;
      finish_tag(end_sign, true);
      return;
    }
  }

  // If the tag ends here, moves past its end and returns true.
  bool end_of_tag(bool block) {
    std::string_view close = block ? "%}" : "}}";
    char sign = ' ';
    size_t at = at_;
    if (looking_at(close)) {
      at_ += 2;
    } else if ((peek() == '-' || (block && peek() == '+')) && source_.substr(at_ + 1, 2) == close) {
      sign = peek();
      at_ += 3;
    } else {
      return false;
    }
    finish_tag(sign, block);
    add(block ? TokenKind::block_end : TokenKind::variable_end, "", at);
    return true;
  }

  void lex_expression(bool block, size_t tag) {
    std::string brackets;  // the closing brackets that are still expected
    for (;;) {
      skip_space(at_);
      if (at_ >= source_.size()) fail_at(source_, tag, "the tag is not closed by {}", block ? "%}" : "}}");
      if (brackets.empty() && end_of_tag(block)) return;
      char c = peek();
      if (c == '\'' || c == '"')
        lex_string();
      else if (ascii_digit(c))
        lex_number();
      else if (c == '_' || std::isalpha(static_cast<unsigned char>(c)) ||
               static_cast<unsigned char>(c) >= 0x80)
        lex_name();
      else
        lex_operator(brackets);
    }
  }

  void lex_name() {
    size_t begin = at_;
    while (at_ < source_.size()) {
      size_t next = at_;
      char32_t c = next_code_point(source_, next);
      if (!(c == '_' || is_alpha(c) || (next > begin + 1 && is_digit(c)))) break;
      at_ = next;
    }
    if (at_ == begin) fail_at(source_, begin, "unexpected character");
    add(TokenKind::name, std::string(source_.substr(begin, at_ - begin)), begin);
  }

  std::string digits() {
    std::string out;
    for (; ascii_digit(peek()) || (peek() == '_' && ascii_digit(peek(1))); ++at_)
      if (peek() != '_') out += peek();
    return out;
  }

  void lex_number() {
    size_t begin = at_;
    char base = static_cast<char>(std::tolower(peek(1)));
    if (peek() == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      std::string text{'0', base};
      for (at_ += 2; std::isxdigit(static_cast<unsigned char>(peek())) || peek() == '_'; ++at_)
        if (peek() != '_') text += peek();
      return add(TokenKind::integer, text, begin);
    }
    std::string text = digits();
    bool real = false;
    bool after_dot = begin > 0 && source_[begin - 1] == '.';  // "x.0.1" is two attributes
    if (!after_dot && peek() == '.' && ascii_digit(peek(1))) {
      ++at_;
      text += "." + digits();
      real = true;
    }
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!after_dot && (peek() == 'e' || peek() == 'E') && ascii_digit(peek(1 + sign))) {
      text += "e" + std::string(source_.substr(at_ + 1, sign));
      at_ += 1 + sign;
      text += digits();
      real = true;
    }
    add(real ? TokenKind::real : TokenKind::integer, text, begin);
  }

  void lex_operator(std::string& brackets) {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    for (std::string_view op : kDouble) {
      if (!looking_at(op)) continue;
      add(TokenKind::op, std::string(op), at_);
      at_ += 2;
      return;
    }
    char c = peek();
    if (std::string_view("+-/*%~[](){}<>=.:|,").find(c) == std::string_view::npos)
      fail_at(source_, at_, "unexpected character '{}'", c);
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) fail_at(source_, at_, "unexpected '{}'", c);
      brackets.pop_back();
    }
    add(TokenKind::op, std::string(1, c), at_++);
  }

  void lex_string() {
    size_t begin = at_;
    char quote = source_[at_++];
    std::string out;
    while (at_ < source_.size() && peek() != quote) {
      if (peek() == '\\')
        lex_escape(out);
      else
        out += source_[at_++];
    }
    if (at_ >= source_.size()) fail_at(source_, begin, "the string is not closed");
    ++at_;
    add(TokenKind::string, std::move(out), begin);
  }

  // Python's escapes; an unknown escape stays as it is.
  void lex_escape(std::string& out) {
    size_t begin = at_++;
    if (at_ >= source_.size()) return;
    static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
    char c = peek();
    size_t simple = kNames.find(c);
    if (simple != std::string_view::npos) {
      out += kValues[simple];
      ++at_;
    } else if (c == '\n') {
      ++at_;  // an escaped newline is dropped
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at_;
      append_checked(out, escape_digits(c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, begin), begin);
    } else if (c >= '0' && c <= '7') {
      size_t n = 1;
      while (n < 3 && peek(n) >= '0' && peek(n) <= '7') ++n;
      append_checked(out, escape_digits(n, 8, begin), begin);
    } else if (c == 'N') {
      fail_at(source_, begin, "\\N{{...}} escapes are not supported");
    } else {
      out += '\\';
    }
  }

  uint32_t escape_digits(size_t count, uint32_t base, size_t begin) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i, ++at_) {
      char c = peek();
      if (!std::isxdigit(static_cast<unsigned char>(c)))
        fail_at(source_, begin, "truncated escape in a string");
      uint32_t digit =
          ascii_digit(c) ? static_cast<uint32_t>(c - '0') : static_cast<uint32_t>(std::tolower(c) - 'a' + 10);
      value = value * base + digit;
    }
    return value;
  }

  void append_checked(std::string& out, uint32_t c, size_t begin) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail_at(source_, begin, "the escape is not a character");
    append_code_point(out, c);
  }

  std::string_view source_;
  size_t at_ = 0;
  bool line_starts_ = true;  // whether the text at at_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      out += source[i];
    else if (i + 1 >= source.size() || source[i + 1] != '\n')
      out += '\n';
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> lex(std::string_view source) {
  return Lexer(source).run();
}

std::string describe_position(std::string_view source, size_t at) {
  std::string_view before = source.substr(0, at);
  size_t line_start = before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     1 + count_code_points(before.substr(line_start)));
}

}  // namespace anabranch::jinja
