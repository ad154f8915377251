// `serve --detach`: the server runs in a new process; the process that the user started reports whether that
// worked.
#pragma once

#include <optional>
#include <string>

namespace anabranch::cli {

class Background {
 public:
  // Forks; call it before the first thread starts. Returns in the new process, whose stdin and stdout are
  // /dev/null and whose stderr is the log. The old process waits until the new one calls ready() or failed(),
  // or ends; then it prints the outcome, and start() returns the exit status. Until ready() the new process
  // belongs to the terminal, so that Ctrl-C ends both.
  std::optional<int> start(const std::string& log_file);
  // text: shown to the user.
  void ready(const std::string& text);
  void failed(const std::string& error);

 private:
  void report(char kind, const std::string& text);
  int report_ = -1;  // a pipe to the old process
};

}  // namespace anabranch::cli
