#include "cli/launch_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "cli/conversation.h"
#include "cli/pid_file.h"
#include "cli/process.h"

extern char** environ;

namespace anabranch::cli {
namespace {

constexpr double kSecondsToEnd = 5;  // after each signal
constexpr int kNoCommand = 200;      // an exit status that no shell uses

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> words_of(const std::string& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// The file of this program; "": unknown.
std::string own_file() {
#ifdef __APPLE__
  char path[4096];
  uint32_t size = sizeof path;
  return ::_NSGetExecutablePath(path, &size) == 0 ? path : "";
#else
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
#endif
}

// Runs in the server's process between fork and exec: only calls that are safe there. The server is in a
// session of its own, which Ctrl-C in our terminal does not reach.
[[noreturn]] void become_server(const char* file, char** words, int log, pid_t parent) {
  ::setsid();
  ::signal(SIGTERM, SIG_DFL);  // we end it so, also if we ignore this signal
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
#else
  (void)parent;
#endif
  const int null = ::open("/dev/null", O_RDONLY);
  if (::dup2(null, 0) >= 0 && ::dup2(log, 1) >= 0 && ::dup2(log, 2) >= 0) ::execv(file, words);
  ::_exit(1);
}

std::atomic<pid_t> running_program{0};

void pass_on(int signal) {
  ::kill(running_program, signal);
}

volatile std::sig_atomic_t caught_end = SIGINT;

void note_end(int signal) {
  caught_end = signal;
  interrupt_flag() = true;
}

void handle_ends(void (*handler)(int)) {
  for (const int signal : {SIGTERM, SIGHUP}) handle_signal(signal, handler);
}

// Waits for the program's end. While the program is stopped (Ctrl-Z), we are, too.
int wait_for_program(pid_t program) {
  int status = 0;
  while (true) {
    if (::waitpid(program, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return 1;
    }
    if (!WIFSTOPPED(status)) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ::raise(SIGSTOP);
    ::kill(program, SIGCONT);
  }
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(const std::vector<std::string>& arguments,
                                                            const std::string& log_file) {
  const std::string file = own_file();
  const FileDescriptor log(
      ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log.ok())
    return make_error(ErrorKind::io, "cannot write the server's log '{}': {}", log_file,
                      std::strerror(errno));
  auto words = words_of("anabranch", arguments);
  const auto argv = pointers(words);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_server(file.c_str(), const_cast<char**>(argv.data()), *log, parent);
  if (pid < 0) return make_error(ErrorKind::io, "cannot start a server: {}", std::strerror(errno));
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid));
}

bool ServerProcess::ended(int& status) {
  if (pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return pid_ < 0;
  pid_ = -1;
  return true;
}

bool ServerProcess::ends_within(double seconds) {
  int status = 0;
  for (const double end = now_seconds() + seconds; !ended(status) && now_seconds() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return pid_ < 0;
}

ServerProcess::~ServerProcess() {
  if (pid_ < 0) return;
  for (const int signal : {SIGTERM, SIGTERM, SIGKILL}) {  // the second one cuts off running answers
    ::kill(pid_, signal);
    if (ends_within(kSecondsToEnd)) return;
  }
}

Result<std::string> ServerProcess::wait_until_it_listens(const std::string& pid_file,
                                                         const std::atomic<bool>& interrupt) {
  for (int status = 0; !interrupt;) {
    if (ended(status))
      return make_error(ErrorKind::io, "the server ended {} {} before it listened",
                        WIFSIGNALED(status) ? "by signal" : "with status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    TRY(const auto record, find_server(pid_file));
    if (record && !record->address.empty()) return record->address;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return make_error(ErrorKind::busy, "interrupted");
}

const std::atomic<bool>& catch_ends() {
  const std::atomic<bool>& flag = catch_interrupts();
  handle_ends(note_end);
  return flag;
}

int last_end() {
  return caught_end;
}

Result<int> run_program(const std::string& command, const std::vector<std::string>& arguments,
                        const std::vector<std::pair<std::string, std::string>>& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  auto words = words_of(command, arguments);
  const auto argv = pointers(words);
  sigset_t usual;
  sigemptyset(&usual);
  if (std::signal(SIGTSTP, SIG_IGN) != SIG_IGN)  // we stop when the program has stopped
    sigaddset(&usual, SIGTSTP);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t program = 0;
  const int error =
      posix_spawnp(&program, command.c_str(), nullptr, &attributes, const_cast<char**>(argv.data()), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return make_error(ErrorKind::io, "cannot run '{}': {}", command, std::strerror(error));
  running_program = program;
  handle_ends(pass_on);
  if (interrupt_flag() && last_end() != SIGINT) pass_on(last_end());  // it came while the program started
  const int status = wait_for_program(program);
  handle_ends(note_end);  // its process id may be another's now
  return status;
}

Result<std::string> output_of(const std::string& command, const std::string& argument) {
  const auto script =
      fmt::format("command -v {0} >/dev/null 2>&1 || exit {2}; exec {0} {1} </dev/null 2>/dev/null", command,
                  argument, kNoCommand);
  std::FILE* pipe = ::popen(script.c_str(), "r");
  if (!pipe) return make_error(ErrorKind::io, "cannot run '{}': {}", command, std::strerror(errno));
  std::string output;
  char part[4096];
  for (size_t size; (size = std::fread(part, 1, sizeof part, pipe)) > 0;) output.append(part, size);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoCommand)
    return make_error(ErrorKind::not_found, "there is no '{}' in PATH", command);
  if (status != 0)
    return make_error(ErrorKind::io, "`{} {}` failed: run it yourself to see why", command, argument);
  return output;
}

}  // namespace anabranch::cli
