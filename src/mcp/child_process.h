// A process that ends when we do: in a group of its own, with pipes for its three streams.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch::mcp {

class ChildProcess {
 public:
  // Starts `command` (a path, or a name in the PATH of its environment) with `args`. Of our environment it
  // gets the variables HOME, LOGNAME, PATH, SHELL, TERM and USER, and `env` on top. Of our files it gets only
  // the three pipes. Its signal handlers are the defaults. `cwd` empty: our directory. On Linux it is killed
  // when the calling thread ends, so that it cannot outlive us: start it on a thread that lives as long as it
  // should. Errors: not_found, io.
  static Result<std::unique_ptr<ChildProcess>> start(const std::string& command,
                                                     const std::vector<std::string>& args,
                                                     const std::map<std::string, std::string>& env,
                                                     const std::string& cwd);
  // Kills the group at once if it still runs, and waits for the process.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Our ends of the pipes, non-blocking; -1 when closed.
  int input() const { return input_; }    // to write to
  int output() const { return output_; }  // to read from
  int errors() const { return errors_; }  // to read from
  void close_input();
  void close_errors();

  // Whether it has ended; how_it_ended() then returns "exit status 3" or "signal 11". An ended process is
  // reaped.
  bool ended();
  const std::string& how_it_ended() const { return how_; }
  // Sends the signal to the whole group.
  void signal(int number);

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  bool reaped_ = false;
  std::string how_;
  int input_ = -1, output_ = -1, errors_ = -1;
};

}  // namespace anabranch::mcp
