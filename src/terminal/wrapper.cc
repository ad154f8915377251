#include "terminal/wrapper.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "terminal/characters.h"

namespace anabranch::terminal {
namespace {

std::string escape_of(uint8_t style) {
  std::string out = "\033[0";
  constexpr std::pair<Style, const char*> kCodes[] = {{kBold, ";1"}, {kDim, ";2"},    {kItalic, ";3"},
                                                      {kLink, ";4"}, {kStruck, ";9"}, {kCode, ";36"}};
  for (const auto& [bit, code] : kCodes)
    if (style & bit) out += code;
  return out + "m";
}

}  // namespace

size_t terminal_width() {
  winsize size{};
  if (!isatty(STDOUT_FILENO)) return 0;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void Wrapper::emit(std::string_view text, uint8_t style) {
  if (text.empty()) return;
  if (styled_ && style != style_) out_ += escape_of(style);
  style_ = style;
  out_ += text;
}

void Wrapper::end_word() {
  if (word_.empty()) return;
  const size_t width = width_(), taken = cells(word_);
  if (width > 0 && column_ > cells(hang_) && column_ + gap_ + taken > width) {
    emit("\n", kPlain);
    emit(hang_, kPlain);
    column_ = cells(hang_);
  } else {
    emit(std::string(gap_, ' '), gap_style_);
    column_ += gap_;
  }
  gap_ = 0;
  for (size_t i = 0, end = 0; i < word_.size(); i = end) {
    while (end < word_.size() && word_styles_[end] == word_styles_[i]) end++;
    emit(encode(std::u32string_view(word_).substr(i, end - i)), static_cast<uint8_t>(word_styles_[i]));
  }
  column_ += taken;
  word_.clear();
  word_styles_.clear();
}

void Wrapper::put(std::string_view utf8, uint8_t style) {
  const std::u32string text = decode(utf8);
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    length = length_after(text, at);
    const auto character = std::u32string_view(text).substr(at, length);
    if (character == U" " || character == U"\t") {
      end_word();
      gap_ += character == U"\t" ? 4 : 1;
      gap_style_ = style;
      continue;
    }
    const bool wide = cells(character) > 1;  // Chinese or Japanese: lines break between any two characters
    if (wide) end_word();
    word_ += character;
    word_styles_.append(character.size(), static_cast<char>(style));
    if (wide) end_word();
  }
}

void Wrapper::put_whole(std::string_view utf8, uint8_t style) {
  end_word();
  emit(std::string(gap_, ' '), gap_style_);
  column_ += gap_ + cells(utf8);
  gap_ = 0;
  emit(utf8, style);
}

void Wrapper::end_line() {
  end_word();
  emit("\n", kPlain);
  hang_.clear();
  column_ = gap_ = 0;
}

void Wrapper::flush() {
  end_word();
  if (styled_ && style_ != kPlain) out_ += escape_of(kPlain);
  style_ = kPlain;
}

std::string Wrapper::take() {
  return std::exchange(out_, {});
}

}  // namespace anabranch::terminal
