// The prompt of a conversation in a terminal: editing by whole characters, messages of several lines, a
// history.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace anabranch::terminal {

// Enter sends; Alt+Enter begins a new line. A pasted block stays one text (bracketed paste). Moves and
// deletes by grapheme clusters. Only one object at a time, because it uses the process's terminal.
class LineEditor {
 public:
  // history: a file with past messages, to which new ones are added; "": past messages are kept only in this
  // object. interrupt: set by Ctrl-C.
  LineEditor(const std::string& history, const std::atomic<bool>& interrupt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The user's input in UTF-8, without the last line feed. nullopt: the end of input (Ctrl-D), or Ctrl-C if
  // `interrupt` is set.
  std::optional<std::string> read(const std::string& prompt);
  // Adds a message to the history.
  void remember(const std::string& message);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Lets the user write a text in $VISUAL, $EDITOR, or the first existing one of nano, vim and vi. text: the
// initial text. nullopt: there is no editor, or it failed; `problem` says which.
std::optional<std::string> edit_text(const std::string& text, std::string& problem);

}  // namespace anabranch::terminal
