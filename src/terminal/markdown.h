// Shows Markdown in a terminal, piece by piece while an answer arrives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "terminal/wrapper.h"

namespace anabranch::terminal {

// Headings, lists, quotes, rules, emphasis, code and links are shown by styles, tables in columns, paragraphs
// wrapped at the width. Text appears word by word. Held back are only tables until they end, and text with a
// mark that may still be closed.
class Markdown {
 public:
  // width: see Wrapper. The output is always styled: without styles there is no reason to use this class.
  explicit Markdown(std::function<size_t()> width) : lines_(std::move(width), true) {}

  // Adds text and returns everything that can be shown by now.
  std::string push(std::string_view utf8);
  // Returns the rest and ends all styles. A new text may follow.
  std::string finish();

 private:
  enum class Mode { line_begin, text, code, table };

  void push_char(char c);
  void begin_line(bool complete);
  void begin_text(size_t skip, uint8_t style);
  bool begin_list(size_t pad, bool complete);
  void push_text(char c);
  void push_code(char c);
  void push_table(char c);
  bool may_show() const;
  void show_text();
  void end_code_line();
  void show_table();
  void end_block();

  Wrapper lines_;
  Mode mode_ = Mode::line_begin;
  std::string held_;                // text of this line that is not shown yet
  uint8_t style_ = kPlain;          // style of this line
  std::string fence_;               // the fence that ends the code
  bool raw_line_ = false;           // this line of code cannot be the closing fence
  std::vector<std::string> table_;  // lines of the table
};

}  // namespace anabranch::terminal
