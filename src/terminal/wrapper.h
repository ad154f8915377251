// Lines that break between words at a terminal's width, with styles.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace anabranch::terminal {

// Bits of how a character is shown.
enum Style : uint8_t { kPlain = 0, kBold = 1, kItalic = 2, kCode = 4, kLink = 8, kStruck = 16, kDim = 32 };

// Cells of a line of the terminal that stdout is; 0: it is none.
size_t terminal_width();

class Wrapper {
 public:
  // width: asked for each line, since windows are resized; 0: lines do not break. styled: with escape
  // sequences.
  Wrapper(std::function<size_t()> width, bool styled) : width_(std::move(width)), styled_(styled) {}

  // Adds text without line feeds. A word is shown when what follows it is known.
  void put(std::string_view utf8, uint8_t style = kPlain);
  // Adds text that does not break and whose spaces stay.
  void put_whole(std::string_view utf8, uint8_t style = kPlain);
  void end_line();
  // What later lines of this one begin with, until end_line().
  void hang(std::string prefix) { hang_ = std::move(prefix); }
  // Ends the word and all styles.
  void flush();
  // What is to be shown now.
  std::string take();

  size_t width() const { return width_(); }

 private:
  void end_word();
  void emit(std::string_view text, uint8_t style);

  std::function<size_t()> width_;
  bool styled_;
  std::string out_, hang_;
  std::u32string word_;
  std::string word_styles_;  // one for each code point of the word
  size_t column_ = 0, gap_ = 0;
  uint8_t gap_style_ = kPlain, style_ = kPlain;
};

}  // namespace anabranch::terminal
