// Reads the requests of one client, one after the other, each part within its deadline and all bodies within
// the server's memory limit.
//
// Used on the I/O thread only, except for BodyShare's destructor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/client_socket.h"
#include "server/http/http_server.h"
#include "server/http/parser.h"

namespace anabranch::server {

// Counts the bytes of bodies that are being read or prepared, in total and for each client. Thread-safe.
class BodyTotals {
 public:
  // Counts `more` bytes of a body, whose size is `bytes` then. False: there is no room for them. One client
  // may use half of the limit, and large bodies may use three quarters, so that the rest is left to others.
  bool add(const std::string& client, size_t more, size_t bytes, size_t limit);
  void remove(const std::string& client, size_t bytes);

 private:
  std::mutex mutex_;
  size_t total_ = 0;
  std::map<std::string, size_t> by_client_;
};

// The bytes of one body, counted in the totals. Any thread may destroy it.
class BodyShare {
 public:
  BodyShare(std::shared_ptr<BodyTotals> totals, std::string client)
      : totals_(std::move(totals)), client_(std::move(client)) {}
  BodyShare(const BodyShare&) = delete;
  ~BodyShare() { totals_->remove(client_, bytes_); }
  // Counts the body with this size from now on. False: there is no room for this many bytes.
  bool grow_to(size_t bytes, size_t limit) {
    const size_t more = bytes - bytes_;
    bytes_ = bytes;
    return totals_->add(client_, more, bytes, limit);
  }

 private:
  std::shared_ptr<BodyTotals> totals_;
  const std::string client_;
  size_t bytes_ = 0;
};

class RequestReader {
 public:
  // The socket and the limits must outlive it. totals: shared by all readers.
  RequestReader(ClientSocket& socket, const HttpLimits& limits, std::shared_ptr<BodyTotals> totals);

  // Reading one request takes wait(), read_head() and, if has_body(), read_body(). Each returns false when
  // the connection must end; then fault() is the error to send to the client, if any.

  // Waits for the first byte of the next request.
  asio::awaitable<bool> wait();
  asio::awaitable<bool> read_head();
  // client: see sender_of().
  asio::awaitable<bool> read_body(std::string client);

  bool has_body() const { return parser_ && parser_->state() == RequestParser::State::body; }
  const std::optional<ApiError>& fault() const { return fault_; }
  // The request as far as it has been read.
  const HttpRequest* request() const { return parser_ ? &parser_->request() : nullptr; }
  bool http10() const { return parser_ && parser_->http10(); }
  bool keep_alive() const { return parser_ && parser_->keep_alive(); }
  bool expects_continue() const { return parser_ && parser_->expects_continue(); }
  // Moves the whole request out of the reader.
  HttpRequest take_request();
  // Frees the request and its share of the limit for bodies.
  void drop_request();

  // Whether no part of a request has arrived and nothing is being answered.
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
  const std::shared_ptr<BodyTotals> totals_;
  std::string input_;  // read but not parsed yet
  std::optional<RequestParser> parser_;
  std::optional<ApiError> fault_;
  std::shared_ptr<BodyShare> share_;
  bool waiting_ = false;
  double slow_since_;
  size_t arrived_ = 0;  // bytes of the body at slow_since_
};

}  // namespace anabranch::server
