// How much a client may use in a minute. Pure arithmetic: the clock is the caller's.
#pragma once

namespace anabranch::server {

// A budget that refills steadily and holds at most a minute's share, with which it begins (a token bucket).
class RateLimit {
 public:
  // per_minute: 0 for no limit.
  explicit RateLimit(double per_minute = 0) : per_minute_(per_minute), left_(per_minute) {}

  // Seconds until `amount` is left; 0: now. Times are monotonic seconds.
  double wait_for(double amount, double now);
  // May leave less than nothing: then others wait longer.
  void take(double amount, double now);
  // Takes the other's limit. What was used stays used, unless there was no limit before.
  void change(const RateLimit& other);
  bool full(double now) const { return left_at(now) >= per_minute_; }

 private:
  double left_at(double now) const;
  void refill(double now);

  double per_minute_, left_;
  double at_ = 0;  // when left_ was true
};

}  // namespace anabranch::server
