#include "terminal/inline_markdown.h"

#include <cctype>

#include "terminal/wrapper.h"

namespace anabranch::terminal {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\0';
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80);
}

// Parses one line, or the text between a pair of marks.
class Reader {
 public:
  Reader(std::string_view text, InlineText& out) : text_(text), out_(out) {}

  void read(size_t begin, size_t end, uint8_t style) {
    for (size_t at = begin; at < end;) {
      const size_t next = mark(at, end, style);
      if (next == at)
        add(text_.substr(at++, 1), style);
      else
        at = next;
    }
  }

 private:
  // The character at `at`; NUL outside the text.
  char char_at(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  char before(size_t at) const { return at == 0 ? '\0' : text_[at - 1]; }
  size_t run(size_t at) const {
    size_t end = at;
    while (end < text_.size() && text_[end] == text_[at]) end++;
    return end - at;
  }

  void add(std::string_view text, uint8_t style) {
    if (out_.spans.empty() || out_.spans.back().style != style) out_.spans.push_back({"", style});
    out_.spans.back().text += text;
  }

  // Handles the mark at `at` and the text that it encloses. Returns the position after it; `at`: there is no
  // mark.
  size_t mark(size_t at, size_t end, uint8_t style) {
    switch (text_[at]) {
      case '\\':
        // Only these characters can be escaped. Others stay as written: \( and \[ begin formulas.
        if (at + 1 >= end || std::string_view("*_`~|#").find(text_[at + 1]) == std::string_view::npos)
          return at;
        add(text_.substr(at + 1, 1), style);
        return at + 2;
      case '`':
        return code(at, end, style);
      case '[':
        return link(at, end, style);
      case '*':
      case '_':
      case '~':
        return emphasis(at, end, style);
      default:
        return at;
    }
  }

  // The position of the next run of exactly `n` backticks after the one at `at`; npos: there is none.
  size_t closing_code(size_t at, size_t n, size_t end) const {
    for (size_t i = at + n; i < end; i += run(i))
      if (text_[i] == '`' && run(i) == n) return i;
    return text_.npos;
  }

  // Adds the `n` characters of a mark without its other half as text. If the text ends here, the other half
  // may still come.
  size_t literal(size_t at, size_t n, size_t end, uint8_t style) {
    out_.open |= end == text_.size();
    add(text_.substr(at, n), style);
    return at + n;
  }

  size_t code(size_t at, size_t end, uint8_t style) {
    const size_t n = run(at), close = closing_code(at, n, end);
    if (close == text_.npos) return literal(at, n, end, style);
    auto inside = text_.substr(at + n, close - at - n);
    if (inside.size() > 2 && inside.front() == ' ' && inside.back() == ' ')
      inside = inside.substr(1, inside.size() - 2);
    add(inside, style | kCode);
    return close + n;
  }

  // [text](address); an image's exclamation mark stays.
  size_t link(size_t at, size_t end, uint8_t style) {
    const size_t middle = text_.find(']', at);
    if (middle == text_.npos || middle >= end) return literal(at, 1, end, style);
    if (char_at(middle + 1) != '(') return at;
    const size_t close = text_.find(')', middle);
    if (close == text_.npos || close >= end) return literal(at, 1, end, style);
    const auto name = text_.substr(at + 1, middle - at - 1),
               address = text_.substr(middle + 2, close - middle - 2);
    read(at + 1, middle, style | kLink);
    if (name != address) {
      add(" (", style);
      add(address, style | kDim);
      add(")", style);
    }
    return close + 1;
  }

  // Within a word an asterisk is usually a product. In scripts without spaces, emphasis can only begin within
  // a word.
  bool can_open(size_t at, size_t n) const {
    const char last = before(at);
    return !is_space(char_at(at + n)) && (!is_word(last) || (text_[at] == '*' && (last & 0x80)));
  }
  bool can_close(size_t at, size_t n) const {
    return !is_space(before(at)) && (text_[at] == '*' || !is_word(char_at(at + n)));
  }

  size_t closing_emphasis(size_t at, size_t n, size_t end) const {
    for (size_t i = at + n; i < end;) {
      const size_t length = run(i);
      if (text_[i] == '`') {
        const size_t close = closing_code(i, length, end);
        i = close == text_.npos ? i + length : close + length;
      } else if (text_[i] == '\\') {
        i += 2;
      } else {
        if (text_[i] == text_[at] && length == n && can_close(i, n)) return i;
        i += length;
      }
    }
    return text_.npos;
  }

  size_t emphasis(size_t at, size_t end, uint8_t style) {
    const size_t n = run(at);
    const bool struck = text_[at] == '~';
    if (n > 3 || (struck && n != 2) || !can_open(at, n)) {
      add(text_.substr(at, n), style);
      return at + n;
    }
    const size_t close = closing_emphasis(at, n, end);
    if (close == text_.npos) return literal(at, n, end, style);
    const uint8_t more = struck ? kStruck : n == 1 ? kItalic : n == 2 ? kBold : kBold | kItalic;
    read(at + n, close, style | more);
    return close + n;
  }

  std::string_view text_;
  InlineText& out_;
};

}  // namespace

InlineText read_inline(std::string_view text, uint8_t style) {
  InlineText out;
  Reader(text, out).read(0, text.size(), style);
  return out;
}

}  // namespace anabranch::terminal
