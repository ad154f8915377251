#include "mcp/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace anabranch::mcp {
namespace {

constexpr int kReapTries = 200, kReapMicroseconds = 10'000;
// The only variables of our environment that a child inherits, as in MCP's own client libraries: others may
// contain keys.
constexpr const char* kInherited[] = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"};

std::map<std::string, std::string> environment(const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> out;
  for (const char* name : kInherited) {
    const char* value = std::getenv(name);
    if (value && std::strncmp(value, "()", 2) != 0) out[name] = value;  // no functions of a shell
  }
  for (const auto& [name, value] : more) out[name] = value;
  return out;
}

bool is_program(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// Finds the program's file for a command.
Result<std::string> find_program(const std::string& command, const std::string& path,
                                 const std::string& cwd) {
  if (command.find('/') != command.npos) {
    const bool relative = command.front() != '/' && !cwd.empty();
    if (is_program(relative ? cwd + "/" + command : command)) return command;
    return make_error(ErrorKind::not_found, "'{}' is no program that can be run", command);
  }
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, end - at) + "/" + command;
    if (end > at && is_program(file)) return file;
    at = end + 1;
  }
  return make_error(ErrorKind::not_found,
                    "there is no program '{}' in PATH: install it, or give its whole path", command);
}

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
  bool open() {
    int ends[2];
#ifdef __linux__
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
#else
    if (::pipe(ends) != 0) return false;
    for (int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
    read = ends[0];
    write = ends[1];
    return true;
  }
};

int take(int& file) {
  return std::exchange(file, -1);
}

// Everything the child needs. It is prepared before the fork, because nothing may be allocated after it.
struct ChildSetup {
  std::string program, cwd;
  std::vector<char*> argv, envp;
  int in = -1, out = -1, err = -1, report = -1;
  pid_t parent = 0;
};

// Marks all file descriptors from `first` on as close-on-exec.
void close_others(int first) {
#ifdef __linux__
  // By its number: glibc has its name since 2.34 only.
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
#endif
  const long limit = ::sysconf(_SC_OPEN_MAX);
  for (int file = first; file < (limit > 0 && limit < 65536 ? limit : 65536); file++)
    ::fcntl(file, F_SETFD, FD_CLOEXEC);
}

// Runs in the child between fork and exec: only calls that are safe after a fork.
[[noreturn]] void become(const ChildSetup& setup) {
  ::setpgid(0, 0);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != setup.parent) ::_exit(127);  // the parent died before prctl()
#endif
  for (int number = 1; number < NSIG; number++) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool good = ::dup2(setup.in, 0) >= 0 && ::dup2(setup.out, 1) >= 0 && ::dup2(setup.err, 2) >= 0 &&
                    (setup.cwd.empty() || ::chdir(setup.cwd.c_str()) == 0);
  close_others(3);
  if (good) ::execve(setup.program.c_str(), setup.argv.data(), setup.envp.data());
  const int error = errno;
  (void)!::write(setup.report, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

void set_nonblocking(int file) {
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::string& command,
                                                          const std::vector<std::string>& args,
                                                          const std::map<std::string, std::string>& env,
                                                          const std::string& cwd) {
  auto variables = environment(env);
  ChildSetup setup;
  TRY(setup.program, find_program(command, variables["PATH"], cwd));
  std::vector<std::string> words = {command}, settings;
  words.insert(words.end(), args.begin(), args.end());
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  setup.argv = pointers(words);
  setup.envp = pointers(settings);
  setup.cwd = cwd;
  setup.parent = ::getpid();
  Pipe in, out, err, report;
  if (!in.open() || !out.open() || !err.open() || !report.open())
    return make_error(ErrorKind::io, "no pipe to '{}': {}", command, std::strerror(errno));
  setup.in = in.read;
  setup.out = out.write;
  setup.err = err.write;
  setup.report = report.write;
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->pid_ = ::fork();
  if (child->pid_ == 0) become(setup);
  if (child->pid_ < 0) {
    child->reaped_ = true;
    return make_error(ErrorKind::io, "no process for '{}': {}", command, std::strerror(errno));
  }
  ::setpgid(child->pid_, child->pid_);  // parent and child both call this, whichever comes first
  ::close(take(report.write));
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(report.read, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == sizeof error)
    return make_error(ErrorKind::io, "'{}' cannot be run{}: {}", command,
                      cwd.empty() ? "" : " in '" + cwd + "'", std::strerror(error));
  child->input_ = take(in.write);
  child->output_ = take(out.read);
  child->errors_ = take(err.read);
  for (int file : {child->input_, child->output_, child->errors_}) set_nonblocking(file);
  return child;
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);  // also ends other processes of the group
  // Give up after a while: a process that the kernel cannot end, because a disk hangs, must not block us.
  for (int tries = 0; !ended() && tries < kReapTries; tries++) ::usleep(kReapMicroseconds);
  close_input();
  close_errors();
  if (output_ >= 0) ::close(output_);
}

void ChildProcess::close_input() {
  if (input_ >= 0) ::close(take(input_));
}

void ChildProcess::close_errors() {
  if (errors_ >= 0) ::close(take(errors_));
}

bool ChildProcess::ended() {
  if (reaped_ || pid_ <= 0) return true;
  siginfo_t about{};
  const int asked = ::waitid(P_PID, static_cast<id_t>(pid_), &about, WEXITED | WNOHANG | WNOWAIT);
  if (asked == 0 && about.si_pid != pid_) return false;
  // While the process is a zombie, its number cannot be reused: this ends the other processes of its group.
  signal(SIGKILL);
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_)
    how_ = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit status {}", WEXITSTATUS(status));
  reaped_ = true;
  return true;
}

void ChildProcess::signal(int number) {
  if (!reaped_ && pid_ > 0) ::kill(-pid_, number);
}

}  // namespace anabranch::mcp
