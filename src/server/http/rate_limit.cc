#include "server/http/rate_limit.h"

#include <algorithm>

namespace anabranch::server {

double RateLimit::left_at(double now) const {
  return std::min(per_minute_, left_ + per_minute_ / 60 * std::max(0.0, now - at_));
}

void RateLimit::refill(double now) {
  left_ = left_at(now);
  at_ = now;
}

double RateLimit::wait_for(double amount, double now) {
  if (per_minute_ <= 0) return 0;
  refill(now);
  return std::max(0.0, (std::min(amount, per_minute_) - left_) / per_minute_ * 60);
}

void RateLimit::change(const RateLimit& other) {
  if (per_minute_ <= 0) left_ = other.per_minute_;
  per_minute_ = other.per_minute_;
  left_ = std::min(left_, per_minute_);
}

void RateLimit::take(double amount, double now) {
  if (per_minute_ <= 0) return;
  refill(now);
  left_ -= amount;
}

}  // namespace anabranch::server
