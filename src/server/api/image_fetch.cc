#include "server/api/image_fetch.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>

#include "base/lower_case.h"
#include "net/http_client.h"
#include "net/http_text.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

struct Block {
  uint32_t address;
  int bits;
};

// Special-purpose blocks of IPv4, in the order of their addresses.
constexpr Block kSpecialBlocks[] = {
    {0x00000000, 8},   // this network
    {0x0A000000, 8},   // private
    {0x64400000, 10},  // shared address space (carrier-grade NAT)
    {0x7F000000, 8},   // loopback
    {0xA9FE0000, 16},  // link-local
    {0xAC100000, 12},  // private
    {0xC0000000, 24},  // protocols
    {0xC0000200, 24},  // documentation
    {0xC0586300, 24},  // relays to IPv6
    {0xC0A80000, 16},  // private
    {0xC6120000, 15},  // benchmarks
    {0xC6336400, 24},  // documentation
    {0xCB007100, 24},  // documentation
    {0xE0000000, 3},   // multicast, reserved, broadcast
};

bool is_public_v4(uint32_t address) {
  return std::ranges::none_of(kSpecialBlocks, [&](const Block& block) {
    return (address ^ block.address) >> (32 - block.bits) == 0;
  });
}

// Whether an IPv6 address is on the public internet. Only 2000::/3 is given out, and within it some blocks
// hold no hosts or hide an IPv4 address.
bool is_public_v6(const std::array<uint8_t, 16>& a) {
  if (a[0] >> 5 != 1) return false;
  const unsigned first = a[0] << 8 | a[1], second = a[2] << 8 | a[3];
  const bool protocols = first == 0x2001 && second < 0x0200;
  const bool documentation = (first == 0x2001 && second == 0x0DB8) || (first == 0x3FFF && second < 0x1000);
  return !protocols && !documentation && first != 0x2002;
}

// "host:port" of each address that an entry of the list stands for; empty: the entry is not a host.
std::vector<std::string> places_of(const std::string& host) {
  const std::string http = net::origin_with_port("http://" + host);
  if (host.empty() || host.find_first_of("/\\@?# ") != host.npos || http.empty()) return {};
  const std::string place = http.substr(http.find("//") + 2);
  if (lower_case(host) == place) return {place};
  return {place, place.substr(0, place.rfind(':')) + ":443"};
}

Result<std::string> get(net::HttpClient& client, net::Transfer transfer, size_t bytes) {
  transfer.on_body = [bytes](net::Response& so_far, std::string_view part) {
    if (so_far.status != 200 || part.size() > bytes - so_far.body.size()) return false;
    so_far.body += part;
    return true;
  };
  TRY(auto response, client.run(std::move(transfer)).checked());
  if (!response.location.empty())
    return make_error(ErrorKind::invalid, "it is elsewhere, and redirects are not followed: name {}",
                      response.location);
  if (response.status != 200)
    return make_error(ErrorKind::io, "the server answers with HTTP {}", response.status);
  if (response.end == net::End::not_taken)
    return make_error(ErrorKind::exhausted, "the images that a request names may have {} MiB together",
                      kMaxImageBytes >> 20);
  return std::move(response.body);
}

}  // namespace

bool is_public_address(const std::string& address) {
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return is_public_v4(ntohl(v4.s_addr));
  std::array<uint8_t, 16> v6{};
  return inet_pton(AF_INET6, address.c_str(), v6.data()) == 1 && is_public_v6(v6);
}

Result<WebFetch> make_image_fetch(const std::vector<std::string>& hosts,
                                  std::function<bool(const std::string& address)> may_connect) {
  std::set<std::string> allowed;
  for (const std::string& host : hosts) {
    const auto places = places_of(host);
    if (places.empty())
      return make_error(ErrorKind::invalid,
                        "'{}' is no host: write a name, such as images.example.com, or a name with its port",
                        host);
    allowed.insert(places.begin(), places.end());
  }
  if (allowed.empty()) return WebFetch();
  const auto client = std::make_shared<net::HttpClient>();
  return WebFetch([=](const std::string& url, size_t bytes, double seconds,
                      const std::function<bool()>& cancelled) -> Result<std::string> {
    const std::string origin = net::origin_with_port(url);
    const bool web = origin.starts_with("http://") || origin.starts_with("https://");
    if (!web || !allowed.contains(origin.substr(origin.find("//") + 2)))
      return make_error(ErrorKind::invalid,
                        "this server fetches images only from the hosts of --allow-image-urls");
    const net::Transfer transfer{
        .url = url, .seconds = seconds, .may_connect = may_connect, .stop = cancelled};
    return get(*client, transfer, bytes);
  });
}

}  // namespace anabranch::server
