// A server over streamable HTTP: each message is a POST. The answer to a request comes as JSON, or as an
// event stream that may contain other messages before it.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/event_stream.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "mcp/connection.h"
#include "mcp/flood.h"
#include "mcp/message.h"
#include "mcp/text.h"
#include "net/http_client.h"
#include "net/http_text.h"

namespace anabranch::mcp {
namespace {

constexpr int kMaxRedirects = 3;
constexpr double kSideSeconds = 5;     // for answers to the server's own requests, and notifications
constexpr int kMaxSideMessages = 100;  // answers to such requests, in one stream and waiting to be sent
constexpr size_t kShownBytes = 300;    // of an error page, in our messages
constexpr size_t kMaxSessionBytes = 1024;
constexpr double kStreamSeconds = 3600, kFirstPauseSeconds = 1, kLongestPauseSeconds = 60;
constexpr int kListenMilliseconds = 100;

// Reads the response to one POST: looks for the answer to request `id`, and collects requests that must be
// answered.
class Answers {
 public:
  Answers(std::string server, std::string method, int64_t id, const Limits& limits, Changes& changes)
      : server_(std::move(server)),
        method_(std::move(method)),
        id_(id),
        limits_(limits),
        changes_(changes),
        flood_(limits),
        events_([this](const std::string& data) { take(data); }, limits.message_bytes) {}

  // Takes a piece of the response's body. False: nothing more is needed.
  bool push(const net::Response& head, std::string_view bytes) {
    const bool events = head.status == 200 && head.header("content-type").starts_with("text/event-stream");
    if (events && !events_.push(bytes)) fail("sent an event that is too long");
    if (!events) body_ += bytes.substr(0, limits_.message_bytes + 1 - body_.size());
    if (body_.size() > limits_.message_bytes) fail("sent a message that is too long");
    return !answer_;
  }
  // Handles the body of a response that is not an event stream.
  void finish(const net::Response& head) {
    if (!answer_ && head.status == 200 && !body_.empty()) take(body_);
  }

  std::optional<Result<Json>>& answer() { return answer_; }
  const std::string& body() const { return body_; }
  // Answers to the server's requests, to be sent.
  std::vector<std::string> take_replies() { return std::exchange(replies_, {}); }

 private:
  void fail(const std::string& what) {
    if (!answer_) answer_ = make_error(ErrorKind::invalid, "MCP server '{}' {}", server_, what);
  }

  void take(const std::string& text) {
    if (answer_ || text.empty()) return;
    if (!flood_.take(text.size())) return fail("sent too many messages at once");
    const auto messages = parse_messages(text, limits_);
    if (!messages) return fail("sent a message that cannot be read: " + messages.error().message);
    for (const Message& message : *messages) take(message);
  }

  void take(const Message& message) {
    using Kind = Message::Kind;
    if (message.kind == Kind::notification) return changes_.take(message.method);
    if (message.kind == Kind::request) {
      if (++requests_ > kMaxSideMessages) return fail("asks too much itself");
      replies_.push_back(answer_to(message));
    } else if (message.id != Json(id_)) {
      log_debug("MCP server '{}' answered a request that was never sent", server_);
    } else if (!answer_) {
      answer_ = message.kind == Kind::error
                    ? Result<Json>(server_error(server_, method_, message.code, message.text))
                    : Result<Json>(message.body);
    }
  }

  const std::string server_, method_;
  const int64_t id_;
  const Limits limits_;
  Changes& changes_;
  FloodGate flood_;
  EventStream events_;
  std::string body_;
  std::optional<Result<Json>> answer_;
  std::vector<std::string> replies_;
  int requests_ = 0;
};

class HttpConnection : public Connection {
 public:
  HttpConnection(ServerConfig config, const Limits& limits)
      : config_(std::move(config)),
        limits_(limits),
        origin_(net::origin_with_port(config_.url)),
        url_(config_.url) {}

  ~HttpConnection() override {
    const double until = now_seconds() + limits_.close_seconds;
    {
      std::lock_guard lock(mutex_);
      leave_at_ = alive_ ? until - limits_.close_seconds / 2 : 0;
      closing_ = true;
    }
    wake_.notify_all();
    for (std::thread* thread : {&listener_, &courier_})
      if (thread->joinable()) thread->join();
    if (!alive_ || session_.empty()) return;
    net::Transfer transfer = prepare({}, until - now_seconds());
    transfer.method = "DELETE";
    if (const auto ended = client_.run(std::move(transfer)).checked(); !ended)
      log_debug("MCP server '{}' did not hear that its session ends: {}", config_.name,
                ended.error().message);
  }

  Result<Json> request(const std::string& method, const Json& params, const Patience& patience) override {
    const int64_t id = next_++;
    Answers answers(config_.name, method, id, limits_, changes_);
    const auto stop = [&] {
      for (std::string& text : answers.take_replies()) send_aside(std::move(text));
      return answers.answer() || (patience.cancelled && patience.cancelled());
    };
    const auto head = post(request_text(id, method, params), patience.until, stop, answers);
    if (answers.answer()) return std::move(*answers.answer());
    if (!head) return failure(head.error(), id, method, patience.seconds);
    if (head->status == 404 && !session_id().empty()) {
      alive_ = false;
      return make_error(ErrorKind::not_found, "MCP server '{}' has forgotten the session", config_.name);
    }
    if (head->status != 200) return refusal(*head, answers.body());
    if (method == "initialize") keep_session(*head);
    answers.finish(*head);
    if (answers.answer()) return std::move(*answers.answer());
    return make_error(ErrorKind::io, "MCP server '{}' ended its answer before the result of {} had come",
                      config_.name, method);
  }

  Result<void> notify(const std::string& method, const Json& params, const Patience& patience) override {
    Answers ignored(config_.name, method, 0, limits_, changes_);
    const double until = std::min(patience.until, now_seconds() + kSideSeconds);
    const auto head = post(notification_text(method, params), until, patience.cancelled, ignored);
    if (!head)
      return make_error(head.error().kind, "MCP server '{}': {}", config_.name, head.error().message);
    if (head->status < 200 || head->status > 299) return refusal(*head, ignored.body());
    return {};
  }

  bool alive() const override { return alive_; }
  bool hears_changes() const override { return false; }  // notifications between two streams are lost
  void listen() override {
    if (!session_id().empty()) listener_ = std::thread([this] { hold_stream(); });
  }
  void set_protocol_version(const std::string& version) override {
    std::lock_guard lock(mutex_);
    version_ = version;
  }

 private:
  // Keeps the stream for the server's own messages open, and reopens it when it ends. Servers may not offer
  // one.
  void hold_stream() {
    name_thread("mcp stream");
    for (double pause = kFirstPauseSeconds; !closing_; pause = std::min(2 * pause, kLongestPauseSeconds)) {
      Answers answers(config_.name, "", 0, limits_, changes_);
      net::Transfer transfer = prepare({}, kStreamSeconds);
      transfer.method = "GET";
      transfer.headers["Accept"] = "text/event-stream";
      transfer.headers.erase("Content-Type");
      transfer.poll_milliseconds = kListenMilliseconds;
      transfer.on_body = [&](const net::Response& head, std::string_view bytes) {
        return head.status == 200 && answers.push(head, bytes);
      };
      transfer.stop = [&] {
        for (std::string& text : answers.take_replies()) send_aside(std::move(text));
        return closing_ || answers.answer();
      };
      const auto head = client_.run(std::move(transfer)).checked();
      if (head && head->status != 200) return;
      for (double until = now_seconds() + pause; !closing_ && now_seconds() < until;)
        std::this_thread::sleep_for(std::chrono::milliseconds(kListenMilliseconds));
    }
  }

  net::Transfer prepare(std::string body, double seconds) const {
    net::Transfer transfer{
        .method = "POST", .headers = config_.headers, .body = std::move(body), .seconds = seconds};
    transfer.headers["Content-Type"] = "application/json";
    transfer.headers["Accept"] = "application/json, text/event-stream";
    std::lock_guard lock(mutex_);
    transfer.url = url_;
    if (!session_.empty()) transfer.headers["Mcp-Session-Id"] = session_;
    if (!version_.empty()) transfer.headers["MCP-Protocol-Version"] = version_;
    return transfer;
  }

  // Sends one message. Follows redirects on the same server.
  Result<net::Response> post(const std::string& text, double until, const std::function<bool()>& stop,
                             Answers& answers) {
    for (int redirects = 0;; redirects++) {
      net::Transfer transfer = prepare(text, until - now_seconds());
      const std::string origin = net::origin_of(transfer.url);
      transfer.stop = stop;
      transfer.on_body = [&](const net::Response& head, std::string_view bytes) {
        // Do not wait for the end: the session's id is in the head, and the stream may go on for a while.
        if (head.status == 200 && session_id().empty()) keep_session(head);
        return answers.push(head, bytes);
      };
      auto head = client_.run(std::move(transfer)).checked();
      if (!head || (head->status != 307 && head->status != 308)) return head;
      if (redirects == kMaxRedirects || net::origin_of(head->location) != origin)
        return make_error(ErrorKind::invalid,
                          "it redirects to '{}': give that address if it is the right one",
                          one_line(head->location.substr(0, head->location.find('?')), kShownBytes));
      std::lock_guard lock(mutex_);
      url_ = head->location;
    }
  }

  // Lets a thread send messages whose result nobody waits for: answers to the server's requests and, before
  // them, cancellations. If the server takes them too slowly, some are dropped.
  void send_aside(std::string text, bool first = false) {
    {
      std::lock_guard lock(mutex_);
      if (closing_ || (!first && aside_.size() >= kMaxSideMessages)) return;
      aside_.insert(first ? aside_.begin() : aside_.end(), std::move(text));
      if (aside_.size() > kMaxSideMessages) aside_.pop_back();
      if (!courier_.joinable()) courier_ = std::thread([this] { carry(); });
    }
    wake_.notify_all();
  }

  void carry() {
    name_thread("mcp answers");
    const auto must_leave = [this] { return closing_ && now_seconds() >= leave_at_; };
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return closing_ || !aside_.empty(); });
      if (aside_.empty() || must_leave()) return;
      const std::string text = std::move(aside_.front());
      aside_.pop_front();
      lock.unlock();
      net::Transfer transfer = prepare(text, kSideSeconds);
      transfer.stop = must_leave;
      if (const auto sent = client_.run(std::move(transfer)).checked(); !sent)
        log_debug("MCP server '{}' did not take a message: {}", config_.name, sent.error().message);
      lock.lock();
    }
  }

  Error failure(const Error& error, int64_t id, const std::string& method, double seconds) {
    const bool late = error.kind == ErrorKind::exhausted, given_up = error.kind == ErrorKind::busy;
    if ((late || given_up) && method != "initialize")
      send_aside(notification_text("notifications/cancelled", {{"requestId", id}}), true);
    if (given_up) return cancelled_error(config_.name, method);
    if (late) return late_error(config_.name, method, seconds);
    return make_error(error.kind, "MCP server '{}' at {}: {}", config_.name, origin_, error.message);
  }

  Error refusal(const net::Response& head, const std::string& body) const {
    std::string what = one_line(body, kShownBytes);
    if (const auto messages = parse_messages(body, limits_);
        messages && messages->size() == 1 && messages->front().kind == Message::Kind::error)
      what = one_line(messages->front().text, kShownBytes);
    if (head.status == 401 || head.status == 403)
      what += " (it wants to know who asks: put a key into 'headers' of its configuration)";
    return make_error(ErrorKind::invalid, "MCP server '{}' at {} answers with HTTP {}: {}", config_.name,
                      origin_, head.status, what.empty() ? "no message" : what);
  }

  void keep_session(const net::Response& head) {
    const std::string id = head.header("mcp-session-id");
    const bool good = id.size() <= kMaxSessionBytes &&
                      std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    std::lock_guard lock(mutex_);
    if (good) session_ = id;
  }

  std::string session_id() const {
    std::lock_guard lock(mutex_);
    return session_;
  }

  const ServerConfig config_;
  const Limits limits_;
  const std::string origin_;  // for messages: the rest of the address may hold a key
  net::HttpClient client_;
  std::atomic<int64_t> next_{1};
  std::atomic<bool> alive_{true}, closing_{false};
  double leave_at_ = 0;  // valid once closing_ is set: messages not sent by then are dropped
  std::thread listener_, courier_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string url_, session_, version_;  // these and aside_ are guarded by mutex_
  std::deque<std::string> aside_;
};

}  // namespace

Result<std::unique_ptr<Connection>> connect_http(const ServerConfig& config, const Limits& limits) {
  return std::unique_ptr<Connection>(std::make_unique<HttpConnection>(config, limits));
}

}  // namespace anabranch::mcp
