// The address of the client behind proxies.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/types.h"

namespace anabranch::server {

// Machines whose X-Forwarded-For header is trusted.
class TrustedProxies {
 public:
  // Addresses or networks, such as 10.0.0.5, 10.1.0.0/16 or fd00::/8. Errors: invalid (one is neither).
  static Result<TrustedProxies> make(const std::vector<std::string>& networks);

  bool contains(std::string_view address) const;
  // The last address in X-Forwarded-For that is not a trusted proxy's. Returns `remote` if it is not a
  // trusted proxy itself, or if the header is missing, malformed or names only trusted proxies.
  std::string client_of(const std::string& remote, const HttpRequest& head) const;

 private:
  // The first `bits` of an IPv6 address. IPv4 addresses are mapped into IPv6.
  struct Network {
    std::array<unsigned char, 16> bytes;
    int bits;
  };
  std::vector<Network> networks_;
};

}  // namespace anabranch::server
