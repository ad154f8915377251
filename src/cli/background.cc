#include "cli/background.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/log.h"
#include "cli/conversation.h"
#include "cli/print.h"

namespace anabranch::cli {
namespace {

constexpr char kReady = 'r', kFailed = 'f';  // the first byte of a report
constexpr std::streamoff kMaxShown = 4096;   // bytes of the log

std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (ssize_t size = 0; (size = ::read(file, part, sizeof part)) != 0;) {
    if (size > 0)
      text.append(part, static_cast<size_t>(size));
    else if (errno != EINTR)
      break;
  }
  return text;
}

// The part of the log after its first `from` bytes.
std::string end_of(const std::string& path, std::streamoff from) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  std::string text(static_cast<size_t>(std::clamp<std::streamoff>(size - from, 0, kMaxShown)), '\0');
  in.seekg(size - static_cast<std::streamoff>(text.size()));
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// The warnings and errors in a log, in either log format.
std::string warnings_in(const std::string& log) {
  static const std::regex mark(R"re(^[0-9:. -]+ (warning|error) |^\{.*"level":"(warning|error)")re");
  std::istringstream lines(log);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_search(line, mark)) out += line + "\n";
  return out;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("by signal {}", WTERMSIG(status));
  return fmt::format("with status {}", WEXITSTATUS(status));
}

// Prints whether the server started, with warnings from its log. Runs in the old process. Returns the exit
// status.
int tell(const std::string& report, pid_t server, const std::string& log_file, std::streamoff log_size) {
  if (!report.empty() && report[0] == kReady) {
    say_lines(report.substr(1) + "\n");
    std::fflush(stdout);
    say_lines(stderr, warnings_in(end_of(log_file, log_size)));
    return 0;
  }
  int status = 0;
  while (::waitpid(server, &status, 0) < 0 && errno == EINTR) {
  }
  if (!report.empty()) return fail(make_error(ErrorKind::io, "{}", report.substr(1)));
  const int failed = fail(make_error(
      ErrorKind::io, "the server ended {} before it listened; its log, {}, ends:", how_it_ended(status),
      log_file));
  say_lines(stderr, end_of(log_file, log_size));
  return failed;
}

void redirect_to_null(int file) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (null < 0) return;
  ::dup2(null, file);
  ::close(null);
}

}  // namespace

std::optional<int> Background::start(const std::string& log_file) {
  int ends[2];
  if (::pipe(ends) != 0)
    return fail(make_error(ErrorKind::io, "cannot make a pipe: {}", std::strerror(errno)));
  struct stat about {};
  const std::streamoff log_size = ::stat(log_file.c_str(), &about) == 0 ? about.st_size : 0;
  std::fflush(nullptr);
  const pid_t server = ::fork();
  if (server < 0) return fail(make_error(ErrorKind::io, "cannot start a process: {}", std::strerror(errno)));
  ::close(ends[server == 0 ? 0 : 1]);
  if (server > 0) {
    const std::string report = read_all(ends[0]);
    ::close(ends[0]);
    return tell(report, server, log_file, log_size);
  }
  report_ = ends[1];
  ::signal(SIGTERM, SIG_DFL);  // `anabranch stop` sends it, also if whoever started us ignores this signal
  if (const auto opened = log_to_file(log_file); !opened) {
    failed(opened.error().message);
    ::_exit(1);
  }
  redirect_to_null(STDIN_FILENO);
  redirect_to_null(STDOUT_FILENO);
  return std::nullopt;
}

void Background::ready(const std::string& text) {
  ::setsid();
  report(kReady, text);
}

void Background::failed(const std::string& error) {
  report(kFailed, error);
}

// The old process may have ended.
void Background::report(char kind, const std::string& text) {
  if (report_ < 0) return;
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const std::string all = kind + text;
  for (size_t done = 0; done < all.size();) {
    const ssize_t size = ::write(report_, all.data() + done, all.size() - done);
    if (size < 0 && errno != EINTR) break;
    if (size > 0) done += static_cast<size_t>(size);
  }
  std::signal(SIGPIPE, before);
  ::close(report_);
  report_ = -1;
}

}  // namespace anabranch::cli
