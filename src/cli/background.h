// `serve --detach`: the server in a process of its own, and the one that was started, which tells how the
// start went.
#pragma once

#include <optional>
#include <string>

namespace anabranch::cli {

class Background {
 public:
  // Forks; call it before the first thread starts. Returns in the new process, whose stdin and stdout are
  // /dev/null and whose stderr is the log. The old process waits for ready() or failed(), or for its end,
  // tells the user and returns its exit status. Until ready() the new process belongs to the terminal, so
  // that Ctrl-C ends both.
  std::optional<int> start(const std::string& log_file);
  // text: for the user.
  void ready(const std::string& text);
  void failed(const std::string& error);

 private:
  void report(char kind, const std::string& text);
  int report_ = -1;  // a pipe to the old process
};

}  // namespace anabranch::cli
