// The bytes that are to be sent to one client, and whether the client takes them.
//
// Used on the I/O thread only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/client_socket.h"
#include "server/http/stall.h"

namespace anabranch::server {

class OutputQueue {
 public:
  // The socket must outlive it. stall: decides when a client that takes too little is stalled.
  OutputQueue(ClientSocket& socket, StallWatch stall) : socket_(socket), stall_(stall) {}

  void add(std::string_view data) { queued_ += data; }
  // Whether nothing waits for the next flush().
  bool empty() const { return queued_.empty(); }
  // Bytes that have not been handed to the system.
  size_t unsent() const { return queued_.size() + writing_.size() - written_; }
  // Sends everything that was queued when it was called. False: the client is gone or was given up. Has no
  // deadline, because stalled() detects clients that take nothing.
  asio::awaitable<bool> flush();
  // To be called regularly. Returns whether the client has taken too little for too long.
  bool stalled(double now);

 private:
  ClientSocket& socket_;
  StallWatch stall_;
  std::string queued_, writing_;
  size_t written_ = 0;          // bytes of writing_ that were written
  uint64_t written_total_ = 0;  // bytes handed to the system, ever
};

}  // namespace anabranch::server
