// One client's connection: reads requests, has them answered, sends the answers.
//
// Ownership: a connection belongs to the coroutine that runs it, and ends with it. I/O thread only.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/http_exchange.h"
#include "server/http_server.h"
#include "server/http_stream.h"

namespace anabranch::server {

namespace http = boost::beast::http;

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
  Handler handler;
  Refusal refusal;
  Responded responded;
  std::optional<asio::ssl::context> tls;  // none: plain HTTP
  const std::shared_ptr<std::atomic<size_t>> all_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  bool stopping = false;
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
  void begin_stop();
  bool stopping() const override { return context_.stopping; }
  void responded(int status) override { context_.responded(target_, status); }

 private:
  asio::awaitable<bool> handshake();
  asio::awaitable<bool> read_request();
  bool refuse_body();
  asio::awaitable<bool> read_body();
  asio::awaitable<bool> read_first_byte();
  asio::awaitable<void> answer();
  asio::awaitable<bool> flush();
  asio::awaitable<void> linger();
  void request_failed(error_code error);
  void send_error(int status, std::string message, const char* code);
  HttpRequest request_head() const;
  HttpRequest take_request();
  void watch();
  void watched(error_code error, size_t bytes);
  void arm(double s);
  void disarm();

  ConnectionContext& context_;
  Stream socket_;
  asio::steady_timer deadline_;  // of the current read or write: cancels the socket's operations
  uint64_t deadline_number_ = 0;
  bool expired_ = false;
  asio::steady_timer wake_;  // waits for something to send
  boost::beast::flat_buffer input_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<BodyShare> body_;
  std::string target_;  // of the request that is answered
  std::string output_, writing_;
  size_t sent_ = 0;  // of writing_
  std::shared_ptr<Exchange> exchange_;
  bool watching_ = false;  // a read is pending while a request is answered, to see the client leave
  bool idle_ = false;      // waits for a request's first byte
  bool lost_ = false;
  bool close_ = false;  // after what is queued has been sent
};

}  // namespace anabranch::server
