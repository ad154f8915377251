// Wraps lines between words at a terminal's width, with styles.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace anabranch::terminal {

// How a character is shown; bits that can be combined.
enum Style : uint8_t { kPlain = 0, kBold = 1, kItalic = 2, kCode = 4, kLink = 8, kStruck = 16, kDim = 32 };

// The width in cells of the terminal on stdout; 0: stdout is not a terminal.
size_t terminal_width();

class Wrapper {
 public:
  // width: called for each line, since windows are resized; 0: lines do not wrap. styled: with escape
  // sequences.
  Wrapper(std::function<size_t()> width, bool styled) : width_(std::move(width)), styled_(styled) {}

  // Adds text without line feeds. A word is output when the character after it is known.
  void put(std::string_view utf8, uint8_t style = kPlain);
  // Adds text that is not wrapped and keeps its spaces.
  void put_whole(std::string_view utf8, uint8_t style = kPlain);
  void end_line();
  // A prefix for the wrapped rows of this line, until end_line().
  void hang(std::string prefix) { hang_ = std::move(prefix); }
  // Ends the word and all styles.
  void flush();
  // Returns the output so far, and clears it.
  std::string take();

  size_t width() const { return width_(); }

 private:
  void end_word();
  void emit(std::string_view text, uint8_t style);

  std::function<size_t()> width_;
  bool styled_;
  std::string out_, hang_;
  std::u32string word_;
  std::string word_styles_;  // one style for each code point of the word
  size_t column_ = 0, gap_ = 0;
  uint8_t gap_style_ = kPlain, style_ = kPlain;
};

}  // namespace anabranch::terminal
