// A client's socket, with or without TLS, and the deadline of its current operation.
//
// Used on the I/O thread only.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/stream.h"

namespace anabranch::server {

class ClientSocket {
 public:
  // tls: null for plain TCP.
  ClientSocket(asio::io_context& io, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls);

  // The client's IP address as text; empty if the client has already gone.
  const std::string& address() const { return address_; }
  bool has_tls() { return stream_.tls() != nullptr; }

  // Starts the deadline: reads fail with timed_out once it has passed, until the next arm() or disarm().
  void arm(double s);
  void disarm();

  // Completes the TLS handshake; true at once for plain TCP.
  asio::awaitable<bool> handshake();
  // Appends what arrives next to `to`. Errors: timed_out after the deadline, operation_aborted after
  // abandon().
  asio::awaitable<error_code> read(std::string& to);
  // Like read(), but without a deadline, for callers that do not wait. `done` is called once, with the error.
  template <typename Done>
  void read_in_background(std::string& to, Done done) {
    stream_.async_read_some(asio::buffer(buffer_),
                            [this, &to, done = std::move(done)](error_code error, size_t bytes) mutable {
                              to.append(buffer_.data(), bytes);
                              done(error);
                            });
  }
  // Sends some of the bytes and returns how many. The deadline does not apply.
  asio::awaitable<std::pair<error_code, size_t>> write(std::string_view data);
  // Bytes that were written and that the client's system has not acknowledged yet.
  size_t unacknowledged() { return unacknowledged_bytes(stream_.lowest()); }

  // Ends the operations that are pending; each of them fails with operation_aborted.
  void cancel();
  // Gives up the client: pending and later reads fail.
  void abandon();
  bool abandoned() const { return abandoned_; }
  // Makes close() reset the connection, so that the system discards unsent data.
  void reset_on_close();
  void close();

  // Tells the client that nothing more is sent, and discards what it still sends: until it stops for
  // `pause_s`, or after `most_s` or `most_bytes`. Closing a socket with unread input resets the connection,
  // which may destroy an answer on its way; clients that send a body look for the answer only afterwards.
  asio::awaitable<void> linger(double pause_s, double most_s, size_t most_bytes);

 private:
  Stream stream_;
  std::string address_;
  asio::steady_timer deadline_;
  // The number of the current deadline, because a timer that has already fired cannot be cancelled. The
  // timer's handler holds it weakly, because it may run after this object has gone.
  std::shared_ptr<uint64_t> deadline_number_ = std::make_shared<uint64_t>(0);
  bool expired_ = false;
  bool abandoned_ = false;
  std::array<char, 16u << 10> buffer_;
};

}  // namespace anabranch::server
