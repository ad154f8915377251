#include "cli/process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/print.h"

namespace anabranch::cli {
namespace {

constexpr int kClosedPipe = 128 + 13;

// Must not allocate memory.
void say_out_of_memory() {
  std::fputs(
      "error: out of memory: free some, raise the limit (ulimit -v, the container's), or use a smaller model "
      "or "
      "--context\n",
      stderr);
}

bool is_out_of_memory(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e)) return true;
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  if (system && (system->code() == std::errc::not_enough_memory ||
                 system->code() == std::errc::resource_unavailable_try_again))
    return true;  // a thread's stack is memory, too
  return std::string_view(e.what()).find("Unable to allocate") != std::string_view::npos;  // MLX
}

[[noreturn]] void terminated() {
  if (const auto current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& e) {
      if (is_out_of_memory(e)) {
        say_out_of_memory();
        std::_Exit(1);
      }
      say(stderr, "error: {}\n", e.what());
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

void end_with_a_message() {
  std::set_terminate(terminated);
}

int failed_by(const std::exception& e) {
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  if (is_out_of_memory(e))
    say_out_of_memory();
  else if (system && system->code() == std::errc::broken_pipe)
    return kClosedPipe;
  else
    say(stderr, "error: {}\n", e.what());
  return 1;
}

int finish_output(int status) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout);
  if (!failed) return status;
  if (errno == EPIPE) return kClosedPipe;
  say(stderr, "error: cannot write to stdout{}{}\n", errno ? ": " : "", errno ? std::strerror(errno) : "");
  return 1;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

struct sigaction handle_signal(int signal, void (*handler)(int)) {
  struct sigaction action {
  }, before{};
  action.sa_handler = handler;
  ::sigaction(signal, is_ignored(signal) ? nullptr : &action, &before);
  return before;
}

}  // namespace anabranch::cli
