#include "server/http/address_limits.h"

#include <fmt/format.h>

#include <cmath>

#include "server/http/admission.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostAddresses = 1u << 16;

}  // namespace

std::optional<ApiError> AddressLimits::count(const std::string& address, double now) {
  if (per_minute_ <= 0) return std::nullopt;
  const std::string network = network_of(address);
  if (network.empty()) return std::nullopt;
  if (limits_.size() >= kMostAddresses) forget_some(now);
  RateLimit& limit = limits_.try_emplace(network, per_minute_).first->second;
  if (const double wait_s = limit.wait_for(1, now); wait_s > 0) {
    ApiError error{429, fmt::format("Your address may send {} requests a minute", per_minute_), "",
                   "rate_limit_exceeded"};
    error.retry_after_s = static_cast<int>(std::ceil(wait_s));
    return error;
  }
  limit.take(1, now);
  return std::nullopt;
}

// Those that have not asked for a minute; if all have, every one: an attacker with so many addresses must not
// fill the memory.
void AddressLimits::forget_some(double now) {
  std::erase_if(limits_, [&](const auto& entry) { return entry.second.full(now); });
  if (limits_.size() >= kMostAddresses) limits_.clear();
}

}  // namespace anabranch::server
