// Limits how much a client may use in a minute. Pure arithmetic: the caller passes the time.
#pragma once

namespace anabranch::server {

// A token bucket: a budget that refills steadily, holds at most one minute's share, and starts full.
class RateLimit {
 public:
  // per_minute: 0 for no limit.
  explicit RateLimit(double per_minute = 0) : per_minute_(per_minute), left_(per_minute) {}

  // Seconds until the budget has `amount`; 0: it has it now. Times are monotonic seconds.
  double wait_for(double amount, double now);
  // May leave a negative budget; then later requests wait longer.
  void take(double amount, double now);
  // Takes over the other's limit. Usage so far still counts, unless there was no limit before.
  void change(const RateLimit& other);
  bool full(double now) const { return left_at(now) >= per_minute_; }

 private:
  double left_at(double now) const;
  void refill(double now);

  double per_minute_, left_;
  double at_ = 0;  // time for which left_ holds
};

}  // namespace anabranch::server
