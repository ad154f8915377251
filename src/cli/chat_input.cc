#include "cli/chat_input.h"

#include <unistd.h>

#include "cli/standard_input.h"

namespace anabranch::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kMorePrompt = "... ";
constexpr std::string_view kQuotes = "\"\"\"";
constexpr size_t kMostBytes = 16u << 20;  // of a message

// Whether the message continues on the next line: its last backslash is not half of a literal "\\".
bool ends_with_backslash(std::string_view text) {
  const size_t last = text.find_last_not_of('\\');
  return (text.size() - (last == text.npos ? 0 : last + 1)) % 2 == 1;
}

}  // namespace

ChatInput::ChatInput(const std::string& history, const std::atomic<bool>& interrupt) {
  if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
    editor_ = std::make_unique<terminal::LineEditor>(history, interrupt);
}

std::optional<std::string> ChatInput::line(const std::string& prompt) {
  if (editor_) return editor_->read(prompt);
  auto line = read_standard_line(kMostBytes);
  if (!line) {
    problem_ = line.error();
    return std::nullopt;
  }
  if (*line && (*line)->ends_with('\r')) (*line)->pop_back();
  return std::move(*line);
}

std::optional<std::string> ChatInput::until_quotes(std::string text) {
  while (!text.ends_with(kQuotes) && text.size() < kMostBytes) {
    const auto more = line(kMorePrompt);
    if (!more && editor_) return std::nullopt;
    if (!more) break;  // the end of a pipe
    text += "\n" + *more;
  }
  if (text.ends_with(kQuotes)) text.resize(text.size() - kQuotes.size());
  // The line feeds next to the quotes are not part of the text between them.
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::optional<std::string> ChatInput::message() {
  auto text = line(kPrompt);
  if (!text) return std::nullopt;
  if (text->starts_with(kQuotes)) {
    text = until_quotes(text->substr(kQuotes.size()));
    if (text && text->starts_with('/')) text->insert(0, " ");  // so that it is not taken for a command
  } else {
    while (text && ends_with_backslash(*text) && text->size() < kMostBytes) {
      const auto more = line(kMorePrompt);
      if (!more && !editor_) break;
      if (more) text->back() = '\n';
      text = more ? std::optional(*text + *more) : std::nullopt;
    }
  }
  if (text && editor_) editor_->remember(*text);
  return text;
}

}  // namespace anabranch::cli
