#include "cli/printer.h"

#include <unistd.h>

#include <cstdio>

#include "mcp/text.h"

namespace anabranch::cli {

Printer::Printer(bool silent) : silent_(silent), colour_(isatty(STDOUT_FILENO)) {}

void Printer::reasoning(const std::string& text) {
  if (silent_ || !colour_ || text.empty()) return;
  if (!dimmed_) std::fputs("\033[2m", stdout);
  dimmed_ = true;
  write(text);
}

void Printer::content(const std::string& text) {
  if (silent_ || text.empty()) return;
  end_reasoning();
  write(text);
}

void Printer::finish(bool line) {
  if (silent_) return;
  end_reasoning();
  if (line) std::fputs("\n", stdout);
  std::fflush(stdout);
}

void Printer::end_reasoning() {
  if (!dimmed_) return;
  std::fputs("\033[0m\n\n", stdout);
  dimmed_ = false;
}

void Printer::write(const std::string& text) {
  // What a model read in a tool's output must not act on the terminal when the model repeats it.
  const std::string shown = colour_ ? mcp::without_controls(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

}  // namespace anabranch::cli
