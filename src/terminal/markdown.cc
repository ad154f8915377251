#include "terminal/markdown.h"

#include <algorithm>
#include <utility>

#include "terminal/inline_markdown.h"
#include "terminal/table.h"

namespace anabranch::terminal {
namespace {

constexpr size_t kMostHeld = 600;  // bytes of a line that are held back for a closing mark
constexpr size_t kRuleCells = 20;
constexpr size_t kMostRow = 4096;         // bytes per row of a table
constexpr size_t kMostTable = 64u << 10;  // bytes of a table that are held back for its end

size_t spaces(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool consists_of(std::string_view text, char c) {
  return std::ranges::all_of(text, [c](char one) { return one == c; });
}

// The number of marks on a line that otherwise contains only spaces; npos: it contains something else.
size_t only_marks(std::string_view line, char mark) {
  const size_t pad = spaces(line), end = std::min(line.find_first_not_of(mark, pad), line.size());
  return line.find_first_not_of(" \t", end) == line.npos ? end - pad : line.npos;
}

}  // namespace

std::string Markdown::push(std::string_view utf8) {
  for (const char c : utf8) push_char(c);
  return lines_.take();
}

std::string Markdown::finish() {
  end_block();
  lines_.flush();
  return lines_.take();
}

void Markdown::end_block() {
  if (mode_ == Mode::line_begin && !held_.empty()) begin_line(true);
  if (mode_ == Mode::text) show_text();
  if (mode_ == Mode::code) lines_.put_whole(std::exchange(held_, {}), kCode);
  if (mode_ == Mode::table) {
    if (!held_.empty()) table_.push_back(std::exchange(held_, {}));
    show_table();
  }
  mode_ = Mode::line_begin;
  held_.clear();
}

void Markdown::push_char(char c) {
  switch (mode_) {
    case Mode::text:
      return push_text(c);
    case Mode::code:
      return push_code(c);
    case Mode::table:
      return push_table(c);
    case Mode::line_begin:
      break;
  }
  if (c == '\n') {
    begin_line(true);
    if (mode_ == Mode::text)
      push_text(c);
    else if (mode_ == Mode::table)
      push_table(c);
    else if (mode_ == Mode::line_begin)
      lines_.end_line();
    return;
  }
  held_ += c == '\t' ? std::string("    ") : std::string(1, c);
  begin_line(false);
}

// Determines the kind of the current line, if held_ is enough for that. complete: the line has ended.
void Markdown::begin_line(bool complete) {
  const size_t pad = spaces(held_);
  const std::string_view rest = std::string_view(held_).substr(pad);
  if (rest.empty()) {
    if (complete) held_.clear();
    return;
  }
  const char first = rest.front();
  const size_t run = std::min(rest.find_first_not_of(first), rest.size());
  if (first == '|') {
    mode_ = Mode::table;
    return;
  }
  if (first == '#') {
    if (run == rest.size() && !complete) return;
    const bool heading = run <= 6 && run < rest.size() && rest[run] == ' ';
    return begin_text(heading ? pad + run + 1 : 0, heading ? kBold : kPlain);
  }
  if (first == '`' || first == '~') {
    if (run == rest.size() && run < 3 && !complete) return;
    if (run < 3 || rest.find(first, run) != rest.npos) return begin_text(0, kPlain);
    if (!complete) return;  // the info string with the language follows on this line
    fence_ = rest.substr(0, run);
    lines_.put_whole(held_, kDim);
    lines_.end_line();
    held_.clear();
    mode_ = Mode::code;
    raw_line_ = false;
    return;
  }
  if (first == '>') {
    if (rest.size() == 1 && !complete) return;
    lines_.put_whole("│ ", kDim);
    lines_.hang("│ ");
    return begin_text(pad + (rest.size() > 1 && rest[1] == ' ' ? 2 : 1), kPlain);
  }
  if ((first == '-' || first == '*' || first == '_') && consists_of(rest, first)) {
    if (!complete) return;
    if (run < 3) return begin_text(0, kPlain);
    for (size_t i = 0; i < kRuleCells; i++) lines_.put_whole("─", kDim);
    held_.clear();
    return;
  }
  if (!begin_list(pad, complete)) return;
  if (mode_ == Mode::line_begin) begin_text(0, kPlain);
}

// Begins the line's text if it is a list item. False: held_ is too short to know whether this is a list item.
bool Markdown::begin_list(size_t pad, bool complete) {
  const std::string_view rest = std::string_view(held_).substr(pad);
  const char first = rest.front();
  if ((first == '-' || first == '*' || first == '+') && rest.size() > 1 && rest[1] == ' ') {
    lines_.put_whole(std::string(pad, ' ') + "• ", kPlain);
    lines_.hang(std::string(pad + 2, ' '));
    begin_text(pad + 2, kPlain);
    return true;
  }
  if (first == '+' && rest.size() == 1) return complete;
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || digits > 9) return true;
  if (rest.size() < digits + 2 && !complete) {
    if (digits == rest.size() || rest[digits] == '.' || rest[digits] == ')') return false;
    return true;
  }
  if (rest.size() >= digits + 2 && (rest[digits] == '.' || rest[digits] == ')') && rest[digits + 1] == ' ') {
    lines_.put_whole(held_.substr(0, pad + digits + 2), kPlain);
    lines_.hang(std::string(pad + digits + 2, ' '));
    begin_text(pad + digits + 2, kPlain);
  }
  return true;
}

// Begins the text of the line, after the first `skip` bytes.
void Markdown::begin_text(size_t skip, uint8_t style) {
  const size_t pad = skip == 0 ? spaces(held_) : 0;
  if (pad > 0) {
    lines_.put_whole(std::string(pad, ' '));
    if (lines_.width() == 0 || pad <= lines_.width() / 2) lines_.hang(std::string(pad, ' '));
  }
  held_.erase(0, skip + pad);
  style_ = style;
  mode_ = Mode::text;
}

void Markdown::push_text(char c) {
  if (c == '\n') {
    show_text();
    lines_.end_line();
    mode_ = Mode::line_begin;
    return;
  }
  // Chinese and Japanese have no spaces, so their text may be shown between any two characters.
  const auto byte = static_cast<unsigned char>(c);
  const bool between = byte >= 0xE3 && byte <= 0xE9 && !held_.empty() && (held_.back() & 0x80);
  if (between && may_show()) show_text();
  held_ += c;
  if ((c == ' ' || c == '\t') && may_show()) show_text();
}

bool Markdown::may_show() const {
  return held_.size() > kMostHeld || !read_inline(held_, style_).open;
}

void Markdown::show_text() {
  for (const StyledText& span : read_inline(held_, style_).spans) lines_.put(span.text, span.style);
  held_.clear();
}

void Markdown::push_code(char c) {
  if (c == '\n') return end_code_line();
  held_ += c;
  if (!raw_line_) raw_line_ = only_marks(held_, fence_.front()) == held_.npos;
  if (raw_line_ && static_cast<unsigned char>(c) < 0x80) lines_.put_whole(std::exchange(held_, {}), kCode);
}

void Markdown::end_code_line() {
  const bool closes = !raw_line_ && only_marks(held_, fence_.front()) >= fence_.size();
  lines_.put_whole(held_, closes ? kDim : kCode);
  lines_.end_line();
  held_.clear();
  raw_line_ = false;
  if (closes) mode_ = Mode::line_begin;
}

void Markdown::push_table(char c) {
  if (c != '\n') {
    if (held_.empty() && c != '|' && c != ' ') {
      show_table();
      mode_ = Mode::line_begin;
      return push_char(c);
    }
    held_ += c;
    if (held_.size() <= kMostRow) return;
    show_table();
    mode_ = Mode::text;
    style_ = kPlain;
    return show_text();
  }
  if (spaces(held_) == held_.size()) {  // an empty line
    held_.clear();
    show_table();
    mode_ = Mode::line_begin;
    return lines_.end_line();
  }
  table_.push_back(std::exchange(held_, {}));
  size_t bytes = 0;
  for (const auto& line : table_) bytes += line.size();
  if (bytes <= kMostTable) return;
  show_table();
  mode_ = Mode::line_begin;
}

void Markdown::show_table() {
  format_table(table_, lines_);
  table_.clear();
}

}  // namespace anabranch::terminal
