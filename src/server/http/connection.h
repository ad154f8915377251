// One client's connection: reads requests, has them answered, sends the answers.
//
// Ownership: a connection belongs to the coroutine that runs it, and ends with it. I/O thread only.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/http/admission.h"
#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/http/parser.h"
#include "server/http/stall.h"
#include "server/http/stream.h"

namespace anabranch::server {

// One body's share of the bytes that all bodies may take; given back from whichever thread drops it.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<std::atomic<size_t>> all) : all_(std::move(all)) {}
  BodyShare(const BodyShare&) = delete;
  ~BodyShare() { *all_ -= bytes_; }
  // False: they take more than `limit` now.
  bool grow_to(size_t bytes, size_t limit) {
    const size_t more = bytes - bytes_;
    bytes_ = bytes;
    return (*all_ += more) <= limit;
  }

 private:
  std::shared_ptr<std::atomic<size_t>> all_;
  size_t bytes_ = 0;
};

class Connection;

// What the connections of a server share.
struct ConnectionContext {
  explicit ConnectionContext(const HttpLimits& limits_) : limits(limits_) {}

  const HttpLimits limits;
  HttpHandlers handlers;
  std::shared_ptr<asio::ssl::context> tls;  // none: plain HTTP
  const std::shared_ptr<std::atomic<size_t>> all_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  bool stopping = false;
  std::mt19937_64 random{std::random_device{}()};  // of request ids
  std::unordered_set<Connection*> connections;
  asio::io_context io{1};  // last: it ends the coroutines that use the rest
};

class Connection final : public Outlet, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ConnectionContext& context);
  ~Connection() override;

  static asio::awaitable<void> run(std::shared_ptr<Connection> self);
  // For connections beyond the limit: an error and a close.
  static asio::awaitable<void> refuse(std::shared_ptr<Connection> self);

  void send(std::string_view data, bool limited) override;
  void wake() override { wake_.cancel(); }
  // The client is gone, stalled, or no longer wanted: whoever answers is told, and run() ends soon.
  void lose();
  // The same, and what was sent and not taken is thrown away.
  void drop();
  bool lost() const { return lost_; }
  bool refused() const { return refused_; }
  void begin_stop();
  bool stopping() const override { return context_.stopping; }
  void responded(int status) override;
  Seat seat() const;

 private:
  asio::awaitable<bool> handshake();
  asio::awaitable<error_code> read_some();
  asio::awaitable<bool> read_first_byte();
  asio::awaitable<bool> read_request();
  // Reads until the parser has left this state.
  asio::awaitable<bool> read_past(RequestParser::State state);
  bool refuse_body();
  bool account_for_body();
  asio::awaitable<void> answer();
  asio::awaitable<bool> flush();
  asio::awaitable<void> linger();
  void read_failed();
  void send_error(const ApiError& error);
  void name_request();
  std::shared_ptr<Exchange> make_exchange(bool keep_alive);
  void log_answer();
  void watch();
  void watched(error_code error, size_t bytes);
  void watch_for_stall();
  bool is_stalled();
  void arm(double s);
  void disarm();

  ConnectionContext& context_;
  Stream socket_;
  asio::steady_timer deadline_;  // of the current read or write: cancels the socket's operations
  uint64_t deadline_number_ = 0;
  bool expired_ = false;
  asio::steady_timer wake_;  // waits for something to send
  asio::steady_timer stall_timer_;
  StallWatch stall_;
  const std::string network_;  // of the client, as network_of() gives it
  double arriving_since_;      // as of Seat
  size_t arrived_ = 0;         // bytes of the body at that time
  std::array<char, 16u << 10> read_buffer_;
  std::string input_;  // has been read and not parsed
  std::optional<RequestParser> parser_;
  std::shared_ptr<BodyShare> body_;
  RequestName name_;        // of the request that is read or answered
  double began_;            // when its first byte came, in monotonic seconds
  int status_ = 0;          // of its answer; 0: none began
  Headers answer_headers_;  // of its answer, beside its own
  std::string output_, writing_;
  size_t sent_ = 0;          // of writing_
  uint64_t sent_total_ = 0;  // bytes handed to the system, ever
  std::shared_ptr<Exchange> exchange_;
  bool watching_ = false;  // a read is pending while a request is answered, to see the client leave
  bool idle_ = false;      // waits for a request's first byte, or for a handshake
  bool kept_ = false;      // has had an answer
  bool refused_ = false;   // is only told that there are too many
  bool lost_ = false;
  bool close_ = false;  // after what is queued has been sent
};

}  // namespace anabranch::server
