// Markdown as a terminal shows it, piece by piece while an answer comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "terminal/wrapper.h"

namespace anabranch::terminal {

// Headings, lists, quotes, rules, emphasis, code and links are shown by styles, tables in columns, paragraphs
// broken at the width. Text goes out word by word; held back are only a table until it ends, and a line from
// a mark that something may still close.
class Markdown {
 public:
  // As of Wrapper; `styled` is the reason to use this class.
  explicit Markdown(std::function<size_t()> width) : lines_(std::move(width), true) {}

  // Adds text and returns what can be shown of all so far.
  std::string push(std::string_view utf8);
  // The rest, with all styles ended. A new text may begin.
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
  std::string held_;                // of this line, not shown yet
  uint8_t style_ = kPlain;          // of this line
  std::string fence_;               // that ends the code
  bool raw_line_ = false;           // this line of code cannot be the fence's
  std::vector<std::string> table_;  // its lines
};

}  // namespace anabranch::terminal
