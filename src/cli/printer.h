// An answer on its way to the terminal.
#pragma once

#include <string>

#include "terminal/markdown.h"

namespace anabranch::cli {

// Prints to stdout: on a terminal thoughts dimmed, the answer's Markdown as styles, lines broken between
// words. Files and pipes get the answer as it is, and nothing else; a terminal with NO_COLOR set (or
// TERM=dumb) gets it as it is.
class Printer {
 public:
  explicit Printer(bool silent);
  void reasoning(const std::string& text);
  void content(const std::string& text);
  // line: with the end of a line.
  void finish(bool line = true);

 private:
  void end_reasoning();
  void write(const std::string& text);

  bool silent_, terminal_, styled_, thinking_ = false;
  terminal::Wrapper thoughts_;
  terminal::Markdown answer_;
};

}  // namespace anabranch::cli
