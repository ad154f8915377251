#include "cli/printer.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "mcp/text.h"

namespace anabranch::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

bool wants_styles() {
  const char* kind = std::getenv("TERM");
  return !is_set("NO_COLOR") && !(kind && std::string_view(kind) == "dumb");
}

}  // namespace

Printer::Printer(bool silent)
    : silent_(silent),
      terminal_(isatty(STDOUT_FILENO)),
      styled_(terminal_ && wants_styles()),
      thoughts_(terminal::terminal_width, styled_),
      answer_(terminal::terminal_width) {}

void Printer::reasoning(const std::string& text) {
  if (silent_ || !terminal_ || text.empty()) return;
  thinking_ = true;
  // A model may repeat text of a tool's output, which must not control the terminal.
  std::string_view rest = text;
  const std::string clean = mcp::without_controls(rest);
  for (rest = clean; !rest.empty();) {
    const size_t end = rest.find('\n');
    thoughts_.put(rest.substr(0, end), terminal::kDim);
    if (end == rest.npos) break;
    thoughts_.end_line();
    rest.remove_prefix(end + 1);
  }
  write(thoughts_.take());
}

void Printer::content(const std::string& text) {
  if (silent_ || text.empty()) return;
  end_reasoning();
  if (!terminal_) return write(text);
  const std::string clean = mcp::without_controls(text);
  write(styled_ ? answer_.push(clean) : clean);
}

void Printer::finish(bool line) {
  if (silent_) return;
  end_reasoning();
  if (styled_) write(answer_.finish());
  if (line) write("\n");
}

void Printer::end_reasoning() {
  if (!thinking_) return;
  thoughts_.flush();
  write(thoughts_.take() + "\n\n");
  thinking_ = false;
}

void Printer::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace anabranch::cli
