// Messages as a person enters them, or as lines of a pipe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "terminal/line_editor.h"

namespace anabranch::cli {

// On a terminal, the user has a line editor and a history. A message may have several lines: pasted, with
// Alt+Enter, between two """, or with a backslash before the end of a line (the last two also in pipes).
class ChatInput {
 public:
  // history: see LineEditor.
  ChatInput(const std::string& history, const std::atomic<bool>& interrupt);
  bool is_terminal() const { return editor_ != nullptr; }
  // The next message or command. nullopt: the input has ended, or Ctrl-C if `interrupt` is set.
  std::optional<std::string> message();
  // The answer to a question that the program asks. It is not stored in the history.
  std::optional<std::string> line(const std::string& prompt);
  // The error that ended the input, if there was one.
  const std::optional<Error>& problem() const { return problem_; }

 private:
  std::optional<std::string> until_quotes(std::string text);

  std::unique_ptr<terminal::LineEditor> editor_;  // null: no terminal
  std::optional<Error> problem_;
};

}  // namespace anabranch::cli
