// Decides who may connect when the server is full. Pure policy: no sockets, no clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::server {

// What admit() needs to know about an open connection.
struct ConnectionState {
  enum class Phase {
    arriving,  // in a handshake, or its request is incomplete, or its first request has not begun
    kept,      // idle between requests
    busy,      // its request is being answered
  };
  std::string network;  // as network_of() gives it
  Phase phase = Phase::arriving;
  double since =
      0;  // monotonic seconds: when the phase began, or since when a request has arrived too slowly
};

struct Admission {
  bool admitted = false;
  std::optional<size_t> leaves;  // index of the connection that must be closed to make room
};

// Decides about a new connection from `network`. If the limit for all connections or for one network is
// reached, the oldest connection whose request has been arriving for more than give_way_s is closed, or else
// the one that has been idle for longest. If there is neither, the new connection is not admitted.
Admission admit(const std::vector<ConnectionState>& states, const std::string& network, int connections,
                int connections_per_address, double give_way_s, double now);

// The network that counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address. Empty for
// loopback addresses, which are not limited, because a proxy on this machine serves many clients.
std::string network_of(const std::string& address);

// The unit among which resources are shared fairly: the key of this name, or without a key the network.
inline std::string sender_of(const std::string& key_name, const std::string& address) {
  return key_name.empty() ? network_of(address) : "key " + key_name;
}

}  // namespace anabranch::server
