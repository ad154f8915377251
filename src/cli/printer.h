// Prints an answer to the terminal.
#pragma once

#include <string>

#include "terminal/markdown.h"

namespace anabranch::cli {

// Prints to stdout. On a terminal, thoughts are dimmed, the answer's Markdown becomes styles, and lines break
// between words. Files and pipes get only the answer, unchanged. A terminal with NO_COLOR set (or TERM=dumb)
// also gets the text unchanged.
class Printer {
 public:
  explicit Printer(bool silent);
  void reasoning(const std::string& text);
  void content(const std::string& text);
  // line: also ends the line.
  void finish(bool line = true);

 private:
  void end_reasoning();
  void write(const std::string& text);

  bool silent_, terminal_, styled_, thinking_ = false;
  terminal::Wrapper thoughts_;
  terminal::Markdown answer_;
};

}  // namespace anabranch::cli
