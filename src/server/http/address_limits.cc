#include "server/http/address_limits.h"

#include <fmt/format.h>

#include <cmath>

#include "server/http/admission.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostAddresses = 1u << 16;

}  // namespace

RateLimit* AddressLimits::limit_of(const std::string& address, double now) {
  if (per_minute_ <= 0) return nullptr;
  const std::string network = network_of(address);
  if (network.empty()) return nullptr;
  if (limits_.size() >= kMostAddresses) forget_some(now);
  return &limits_.try_emplace(network, per_minute_).first->second;
}

std::optional<ApiError> AddressLimits::refusal(const std::string& address, double now) {
  RateLimit* limit = limit_of(address, now);
  const double wait_s = limit ? limit->wait_for(1, now) : 0;
  if (wait_s <= 0) return std::nullopt;
  ApiError error{429, fmt::format("Your address may send {} requests a minute", per_minute_), "",
                 "rate_limit_exceeded"};
  error.retry_after_s = static_cast<int>(std::ceil(wait_s));
  return error;
}

void AddressLimits::count(const std::string& address, double now) {
  if (RateLimit* limit = limit_of(address, now)) limit->take(1, now);
}

// Forgets addresses whose budget is full again, and all addresses if more than kMostAddresses / 2 remain. An
// attacker with very many addresses must neither fill the memory nor cause a scan of all addresses with each
// request.
void AddressLimits::forget_some(double now) {
  std::erase_if(limits_, [&](const auto& entry) { return entry.second.full(now); });
  if (limits_.size() > kMostAddresses / 2) limits_.clear();
}

}  // namespace anabranch::server
