// Reads the requests of one client, one after the other, each part within its deadline and all bodies within
// the server's memory limit.
//
// Used on the I/O thread only, but for BodyShare's destructor.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/client_socket.h"
#include "server/http/http_server.h"
#include "server/http/parser.h"

namespace anabranch::server {

// The bytes of one body, counted in the total of all bodies. Any thread may destroy it.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<std::atomic<size_t>> total) : total_(std::move(total)) {}
  BodyShare(const BodyShare&) = delete;
  ~BodyShare() { *total_ -= bytes_; }
  // False: the total exceeds `limit` now.
  bool grow_to(size_t bytes, size_t limit) {
    const size_t more = bytes - bytes_;
    bytes_ = bytes;
    return (*total_ += more) <= limit;
  }

 private:
  std::shared_ptr<std::atomic<size_t>> total_;
  size_t bytes_ = 0;
};

class RequestReader {
 public:
  // The socket and the limits must outlive it. total: of the bytes of all bodies.
  RequestReader(ClientSocket& socket, const HttpLimits& limits, std::shared_ptr<std::atomic<size_t>> total);

  // One request is read by wait(), read_head() and, if has_body(), read_body(). Each returns false when the
  // connection must end; then fault() is what to tell the client, if anything.

  // Waits for the first byte of the next request.
  asio::awaitable<bool> wait();
  asio::awaitable<bool> read_head();
  asio::awaitable<bool> read_body();

  bool has_body() const { return parser_ && parser_->state() == RequestParser::State::body; }
  const std::optional<ApiError>& fault() const { return fault_; }
  // The request as far as it has been read.
  const HttpRequest* request() const { return parser_ ? &parser_->request() : nullptr; }
  bool http10() const { return parser_ && parser_->http10(); }
  bool keep_alive() const { return parser_ && parser_->keep_alive(); }
  bool expects_continue() const { return parser_ && parser_->expects_continue(); }
  // The whole request, which is not kept here.
  HttpRequest take_request();
  // Frees the request and its share of the limit for bodies.
  void drop_request();

  // Nothing of a request has arrived, and nothing is being answered.
  bool waiting() const { return waiting_; }
  // Monotonic seconds: since when the client has been silent, or has sent its request too slowly.
  double slow_since() const { return slow_since_; }
  // Bytes that were read and belong to later requests.
  std::string& input() { return input_; }

 private:
  asio::awaitable<bool> read_past(RequestParser::State state);
  bool account_for_body();

  ClientSocket& socket_;
  const HttpLimits& limits_;
  const std::shared_ptr<std::atomic<size_t>> total_;
  std::string input_;  // has been read and not parsed
  std::optional<RequestParser> parser_;
  std::optional<ApiError> fault_;
  std::shared_ptr<BodyShare> share_;
  bool waiting_ = false;
  double slow_since_;
  size_t arrived_ = 0;  // bytes of the body at slow_since_
};

}  // namespace anabranch::server
