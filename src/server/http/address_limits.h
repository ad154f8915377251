// Limits the number of requests that each client address may send in a minute.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "server/http/api_error.h"
#include "server/http/rate_limit.h"

namespace anabranch::server {

// I/O thread only.
class AddressLimits {
 public:
  // per_minute: 0 for no limit.
  explicit AddressLimits(int per_minute) : per_minute_(per_minute) {}

  // 429 rate_limit_exceeded if the address (IPv6: its /64 network; loopback addresses have no limit) has sent
  // too many. now: monotonic seconds.
  std::optional<ApiError> refusal(const std::string& address, double now);
  // Counts a request.
  void count(const std::string& address, double now);

 private:
  // The budget of an address; null: it has no limit.
  RateLimit* limit_of(const std::string& address, double now);
  void forget_some(double now);

  const int per_minute_;
  std::unordered_map<std::string, RateLimit> limits_;
};

}  // namespace anabranch::server
