// Who may connect when the server is full. Pure policy: no sockets, no clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::server {

// A connection, as far as its place is concerned.
struct Seat {
  enum class Phase {
    arriving,  // a handshake or a request comes in, or has not begun since the client connected
    kept,      // open for a next request
    busy,      // a request is answered
  };
  std::string network;  // as network_of() gives it
  Phase phase = Phase::arriving;
  double since = 0;  // monotonic seconds: since when, or since when a request's bytes came too slowly
};

struct Admission {
  bool admitted = false;
  std::optional<size_t> leaves;  // the seat that has to be cleared for it
};

// A new connection from `network`. Where a limit (of all, or of one network's) is reached, a connection whose
// request has been arriving for more than give_way_s leaves, the oldest first; then the one kept longest
// without a request. If there is neither, the new one is not admitted.
Admission admit(const std::vector<Seat>& seats, const std::string& network, int connections,
                int connections_per_address, double give_way_s, double now);

// What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 one. Empty for loopback
// addresses: a proxy on this machine stands for many clients, so they are not counted by address.
std::string network_of(const std::string& address);

}  // namespace anabranch::server
