// A server that runs as a process: messages are lines on its standard input and output. Each connection has a
// thread that owns the process and does all reading and writing.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "mcp/child_process.h"
#include "mcp/connection.h"
#include "mcp/flood.h"
#include "mcp/line_reader.h"
#include "mcp/pending.h"
#include "mcp/text.h"

namespace anabranch::mcp {
namespace {

constexpr int kTickMilliseconds = 250;            // how soon the end of the process is noticed, at the latest
constexpr size_t kMaxUnsentBytes = 16 << 20;      // for a server that does not read
constexpr size_t kShownBytes = 200;               // of a line from the server, in our log and messages
constexpr size_t kErrorLineBytes = 64 << 10;      // per line of its stderr
constexpr int kErrorLinesPerSecond = 20;          // of its stderr, in our log
constexpr size_t kErrorBytesPerSecond = 1 << 20;  // read from its stderr; more must wait
constexpr size_t kReadBytes = 64 << 10;
constexpr double kTerminateSeconds = 0.5;  // from SIGTERM to SIGKILL

// Writes a server's stderr to the debug log, within limits. Its last line helps to explain why the server
// ended.
class ErrorOutput {
 public:
  explicit ErrorOutput(const std::string& server) : server_(server) {}
  void push(std::string_view bytes) {
    if (now_seconds() - second_ >= 1) begin_second();
    bytes_ += bytes.size();
    const bool good = lines_.push(bytes, [this](std::string_view line) {
      take(line);
      return true;
    });
    if (!good) lines_.clear();  // a line without an end
  }
  const std::string& last() const { return last_; }
  // Whether more of the server's stderr may be read: not after too much output in the current second.
  bool wants_more() const { return bytes_ < kErrorBytesPerSecond || now_seconds() - second_ >= 1; }

 private:
  void begin_second() {
    if (logged_ > kErrorLinesPerSecond)
      log_debug("MCP server '{}', stderr: {} more lines", server_, logged_ - kErrorLinesPerSecond);
    second_ = now_seconds();
    logged_ = 0;
    bytes_ = 0;
  }
  void take(std::string_view line) {
    std::string shown = one_line(line, kShownBytes);
    if (shown.find_first_not_of(' ') == shown.npos) return;
    last_ = std::move(shown);
    if (++logged_ <= kErrorLinesPerSecond) log_debug("MCP server '{}', stderr: {}", server_, last_);
  }

  const std::string server_;
  LineReader lines_{kErrorLineBytes};
  std::string last_;
  double second_ = 0;  // start of the current second
  int logged_ = 0;     // lines in the current second
  size_t bytes_ = 0;   // bytes in the current second
};

class StdioConnection : public Connection {
 public:
  StdioConnection(ServerConfig config, const Limits& limits)
      : config_(std::move(config)),
        limits_(limits),
        lines_(limits.message_bytes),
        flood_(limits),
        errors_(config_.name) {}

  ~StdioConnection() override {
    closing_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
    for (int end : wake_)
      if (end >= 0) ::close(end);
  }

  Result<void> start() {
    if (::pipe(wake_) != 0) return make_error(ErrorKind::io, "no pipe: {}", std::strerror(errno));
    for (int end : wake_) {
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
      ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
    std::promise<Result<void>> started;
    auto result = started.get_future();
    thread_ = std::thread([this, &started] { run(started); });
    return result.get();
  }

  Result<Json> request(const std::string& method, const Json& params, const Patience& patience) override {
    TRY(const int64_t id, pending_.add(method));
    if (const auto sent = send(request_text(id, method, params)); !sent) {
      pending_.wait(id, 0, nullptr);
      return sent.error();
    }
    if (auto answer = pending_.wait(id, patience.until, patience.cancelled)) return std::move(*answer);
    const bool late = now_seconds() >= patience.until;
    const char* reason = late ? "it took too long" : "the user cancelled it";
    if (method != "initialize")
      (void)send(notification_text("notifications/cancelled", {{"requestId", id}, {"reason", reason}}));
    if (!late) return cancelled_error(config_.name, method);
    Error error = late_error(config_.name, method, patience.seconds);
    if (const int strays = strays_)
      error.message += fmt::format("; {} of its answers had ids that nobody waits for", strays);
    if (const int noise = noise_) error.message += fmt::format("; {} of its lines were no messages", noise);
    return error;
  }

  Result<void> notify(const std::string& method, const Json& params, const Patience&) override {
    return send(notification_text(method, params));
  }

  bool alive() const override { return !pending_.failed(); }
  bool hears_changes() const override { return true; }

 private:
  Result<void> send(const std::string& text) {
    {
      std::lock_guard lock(mutex_);
      if (unsent_.size() + text.size() > kMaxUnsentBytes)
        return make_error(ErrorKind::io, "MCP server '{}' does not read what it is sent", config_.name);
      unsent_ += text;
      unsent_ += '\n';
    }
    wake();
    return {};
  }

  void wake() { (void)!::write(wake_[1], "x", 1); }

  // The main function of the thread.
  void run(std::promise<Result<void>>& started) {
    name_thread("mcp program");
    // Writing to a process that has ended must not end ours.
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    auto child = ChildProcess::start(config_.command, config_.args, config_.env, config_.cwd);
    if (!child) {
      started.set_value(
          make_error(child.error().kind, "MCP server '{}': {}", config_.name, child.error().message));
      return;
    }
    child_ = std::move(*child);
    started.set_value({});
    while (!closing_ && problem_.empty()) turn();
    pending_.fail_all(make_error(ErrorKind::io, "MCP server '{}' {}", config_.name,
                                 problem_.empty() ? "is being closed" : problem_),
                      true);
    if (!problem_.empty()) log_debug("MCP server '{}' {}", config_.name, problem_);
    end_process();
  }

  // Waits until something can be read or written, and then reads or writes it.
  void turn() {
    bool to_write = false;
    {
      std::lock_guard lock(mutex_);
      to_write = !unsent_.empty();
    }
    pollfd files[] = {{child_->output(), POLLIN, 0},
                      {errors_.wants_more() ? child_->errors() : -1, POLLIN, 0},
                      {wake_[0], POLLIN, 0},
                      {to_write ? child_->input() : -1, POLLOUT, 0}};
    ::poll(files, std::size(files), kTickMilliseconds);
    char bytes[256];
    while (::read(wake_[0], bytes, sizeof bytes) > 0) {
    }
    if (files[1].revents) read_errors();
    if (files[3].revents) write_some();
    if (files[0].revents) read_messages();
    if (problem_.empty() && child_->ended()) {
      read_messages();  // its last messages
      if (problem_.empty()) problem_ = ending();
    }
  }

  void read_errors() {
    char bytes[kReadBytes];
    const ssize_t got = ::read(child_->errors(), bytes, sizeof bytes);
    if (got > 0) errors_.push({bytes, static_cast<size_t>(got)});
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) child_->close_errors();
  }

  void write_some() {
    std::lock_guard lock(mutex_);
    const ssize_t put = ::write(child_->input(), unsent_.data(), unsent_.size());
    if (put > 0) unsent_.erase(0, static_cast<size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) problem_ = ending();
  }

  void read_messages() {
    char bytes[kReadBytes];
    const ssize_t got = ::read(child_->output(), bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) problem_ = ending();
    if (got <= 0) return;
    const bool good = lines_.push({bytes, static_cast<size_t>(got)}, [this](std::string_view line) {
      take_line(line);
      return problem_.empty();
    });
    if (!good && problem_.empty())
      problem_ = fmt::format("sent a message longer than {} bytes and was ended", limits_.message_bytes);
  }

  void take_line(std::string_view line) {
    if (!flood_.take(line.size())) {
      problem_ = fmt::format("sent too much at once (more than {} messages or {} MB in {:g} s) and was ended",
                             limits_.flood_messages, limits_.flood_bytes >> 20, FloodGate::kWindowSeconds);
      return;
    }
    if (line.empty()) return;
    const auto messages = parse_messages(line, limits_);
    if (messages) {
      for (const Message& message : *messages) take(message);
      return;
    }
    noise_++;
    log_debug("MCP server '{}' sent a line that is no message: {}: {}", config_.name,
              messages.error().message, one_line(line, kShownBytes));
    // Some servers print other text, too. A line that begins like JSON must be a valid message.
    if (line.front() == '{' || line.front() == '[')
      pending_.fail_all(
          make_error(ErrorKind::invalid, "MCP server '{}' sent a message that cannot be read: {}",
                     config_.name, messages.error().message),
          false);
  }

  void take(const Message& message) {
    using Kind = Message::Kind;
    if (message.kind == Kind::request)
      (void)send(answer_to(message));
    else if (message.kind == Kind::notification)
      changes_.take(message.method);
    else if (!pending_.take(config_.name, message))
      strays_++;
  }

  // The error text for a process that has ended, or closed its output.
  std::string ending() {
    for (int waits = 0; !child_->ended() && waits < 10; waits++) ::usleep(10'000);
    if (child_->errors() >= 0) read_errors();
    std::string out = child_->ended() ? "ended (" + child_->how_it_ended() + ")" : "closed its output";
    if (!errors_.last().empty()) out += "; its last words on stderr: " + errors_.last();
    return out;
  }

  // Ends the process as the protocol says: close its input, wait, terminate it, kill it.
  void end_process() {
    if (problem_.empty()) {
      child_->close_input();
      wait_for_end(limits_.close_seconds);
      if (!child_->ended()) child_->signal(SIGTERM);
      wait_for_end(kTerminateSeconds);
    }
    child_.reset();
  }

  void wait_for_end(double seconds) {
    const double until = now_seconds() + seconds;
    while (!child_->ended() && now_seconds() < until) ::usleep(5'000);
  }

  const ServerConfig config_;
  const Limits limits_;
  PendingRequests pending_;
  std::thread thread_;
  std::atomic<bool> closing_{false};
  std::atomic<int> strays_{0}, noise_{0};
  int wake_[2] = {-1, -1};
  std::mutex mutex_;
  std::string unsent_;  // guarded by mutex_

  // Used by the thread only.
  std::unique_ptr<ChildProcess> child_;
  LineReader lines_;
  FloodGate flood_;
  ErrorOutput errors_;
  std::string problem_;  // why the connection ended; empty: it has not
};

}  // namespace

Result<std::unique_ptr<Connection>> connect_stdio(const ServerConfig& config, const Limits& limits) {
  auto connection = std::make_unique<StdioConnection>(config, limits);
  TRY_VOID(connection->start());
  return std::unique_ptr<Connection>(std::move(connection));
}

}  // namespace anabranch::mcp
