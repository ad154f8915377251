#include "server/http/admission.h"

#include <boost/asio/ip/address.hpp>

namespace anabranch::server {
namespace {

std::optional<size_t> who_leaves(const std::vector<ConnectionState>& states, const std::string* network,
                                 double arrived_before) {
  std::optional<size_t> arriving, kept;
  const auto older = [&](size_t i, const std::optional<size_t>& than) {
    return !than || states[i].since < states[*than].since;
  };
  for (size_t i = 0; i < states.size(); ++i) {
    const ConnectionState& state = states[i];
    if (network && state.network != *network) continue;
    if (state.phase == ConnectionState::Phase::arriving && state.since <= arrived_before &&
        older(i, arriving))
      arriving = i;
    if (state.phase == ConnectionState::Phase::kept && older(i, kept)) kept = i;
  }
  return arriving ? arriving : kept;
}

}  // namespace

Admission admit(const std::vector<ConnectionState>& states, const std::string& network, int connections,
                int connections_per_address, double give_way_s, double now) {
  size_t alike = 0;
  for (const ConnectionState& state : states) alike += state.network == network;
  const bool one_has_too_many = !network.empty() && alike >= static_cast<size_t>(connections_per_address);
  if (!one_has_too_many && states.size() < static_cast<size_t>(connections)) return {true, {}};
  const auto leaves = who_leaves(states, one_has_too_many ? &network : nullptr, now - give_way_s);
  return {leaves.has_value(), leaves};
}

std::string network_of(const std::string& address) {
  boost::system::error_code error;
  auto ip = boost::asio::ip::make_address(address, error);
  if (error) return address;
  if (ip.is_v6() && ip.to_v6().is_v4_mapped())
    ip = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, ip.to_v6());
  if (ip.is_loopback()) return "";
  if (ip.is_v4()) return ip.to_string();
  auto bytes = ip.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return boost::asio::ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace anabranch::server
