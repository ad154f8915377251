// The processes of `launch`: a server of its own, and the program that it runs.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace anabranch::cli {

// A server that ends with this object and, on Linux, with this process.
class ServerProcess {
 public:
  // Runs this program with these arguments. What it prints goes to the log file, which is written anew.
  // Errors: io.
  static Result<std::unique_ptr<ServerProcess>> start(const std::vector<std::string>& arguments,
                                                      const std::string& log_file);
  ~ServerProcess();  // the server has a few seconds to end in order
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // The address in the pid file, once the server listens. Errors: io (it ended before), busy (interrupted).
  Result<std::string> wait_until_it_listens(const std::string& pid_file, const std::atomic<bool>& interrupt);

 private:
  explicit ServerProcess(pid_t pid) : pid_(pid) {}
  bool ended(int& status);
  bool ends_within(double seconds);
  pid_t pid_;  // -1: it has ended
};

// Makes SIGINT, SIGTERM and SIGHUP set interrupt_flag(), so that there is time to remove the server's files.
// Those that are ignored, as under nohup, stay so. Returns the flag.
const std::atomic<bool>& catch_ends();
// The signal that set the flag.
int last_end();

// Runs a command of PATH with these variables beside ours, in our terminal, until it ends. Call
// catch_ends() before: Ctrl-C is the program's, and SIGTERM and SIGHUP are passed on to it, also one that
// came while it started. Returns its exit status, or 128 and the signal that ended it. Errors: io.
Result<int> run_program(const std::string& command, const std::vector<std::string>& arguments,
                        const std::vector<std::pair<std::string, std::string>>& variables);

// What a command of PATH prints on stdout. Errors: not_found (there is no such command), io.
Result<std::string> output_of(const std::string& command, const std::string& argument);

}  // namespace anabranch::cli
