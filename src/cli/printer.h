// An answer on its way to the terminal.
#pragma once

#include <string>

namespace anabranch::cli {

// Prints to stdout: thoughts dimmed, each piece flushed. Files and pipes get the answer only.
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
  bool silent_, colour_, dimmed_ = false;
};

}  // namespace anabranch::cli
