#include "server/http/client_address.h"

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <optional>

#include "base/white_space.h"

namespace anabranch::server {
namespace {

using Bytes = std::array<unsigned char, 16>;
constexpr int kMappedBits = 96;  // bits before an IPv4 address

struct Address {
  Bytes bytes;
  bool is_v4;
};

std::optional<Address> parse(std::string_view text) {
  namespace ip = boost::asio::ip;
  boost::system::error_code error;
  const auto address = ip::make_address(std::string(text), error);
  if (error) return std::nullopt;
  if (address.is_v6()) return Address{address.to_v6().to_bytes(), false};
  return Address{ip::make_address_v6(ip::v4_mapped, address.to_v4()).to_bytes(), true};
}

// Removes a port and brackets: "203.0.113.9:5123", "[2001:db8::9]:443".
std::string_view host_of(std::string_view text) {
  if (!text.empty() && text.front() == '[') return text.substr(1, text.find(']') - 1);
  const size_t colon = text.find(':');
  return colon == text.rfind(':') ? text.substr(0, colon) : text;
}

// The address in its canonical spelling, without a scope.
std::string spelled(const Address& address) {
  namespace ip = boost::asio::ip;
  const ip::address_v6 v6(address.bytes);
  return v6.is_v4_mapped() ? ip::make_address_v4(ip::v4_mapped, v6).to_string() : v6.to_string();
}

bool same_bits(const Bytes& a, const Bytes& b, int bits) {
  for (int i = 0; i < bits; ++i) {
    const int shift = 7 - i % 8;
    if (((a[i / 8] ^ b[i / 8]) >> shift & 1) != 0) return false;
  }
  return true;
}

// The entries of all X-Forwarded-For headers, in order.
std::vector<std::string_view> forwarded_for(const HttpRequest& head) {
  std::vector<std::string_view> entries;
  for (const auto& [name, value] : head.headers) {
    if (name != "x-forwarded-for") continue;
    for (std::string_view rest = value;;) {
      const size_t comma = rest.find(',');
      entries.push_back(trimmed(rest.substr(0, comma)));
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return entries;
}

}  // namespace

Result<TrustedProxies> TrustedProxies::make(const std::vector<std::string>& networks) {
  TrustedProxies proxies;
  for (const std::string& text : networks) {
    const size_t slash = text.find('/');
    const auto address = parse(std::string_view(text).substr(0, slash));
    const int most = address && address->is_v4 ? 32 : 128;
    int bits = most;
    bool good = address.has_value();
    if (slash != text.npos) {
      const char* const digits = text.data() + slash + 1;
      const auto [end, error] = std::from_chars(digits, text.data() + text.size(), bits);
      good = good && error == std::errc() && end == text.data() + text.size() && bits >= 0 && bits <= most;
    }
    if (!good)
      return make_error(ErrorKind::invalid,
                        "--trusted-proxy '{}' is neither an IP address nor a network such as 10.0.0.0/8",
                        text);
    proxies.networks_.push_back({address->bytes, address->is_v4 ? kMappedBits + bits : bits});
  }
  return proxies;
}

bool TrustedProxies::contains(std::string_view address) const {
  if (networks_.empty()) return false;
  const auto parsed = parse(address);
  if (!parsed) return false;
  for (const Network& network : networks_)
    if (same_bits(network.bytes, parsed->bytes, network.bits)) return true;
  return false;
}

std::string TrustedProxies::client_of(const std::string& remote, const HttpRequest& head) const {
  if (!contains(remote)) return remote;
  const auto entries = forwarded_for(head);
  for (size_t i = entries.size(); i-- > 0;) {
    const std::string_view entry = host_of(entries[i]);
    if (contains(entry)) continue;
    const auto address = parse(entry);
    return address ? spelled(*address) : remote;
  }
  return remote;
}

}  // namespace anabranch::server
