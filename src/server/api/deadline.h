// Ends requests whose time is over.
#pragma once

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// When a request must have ended.
struct Deadline {
  double at = std::numeric_limits<double>::infinity();  // monotonic seconds
  double allowed_s = 0;

  // Sets the deadline, unless an earlier one is set. seconds: 0 for no limit.
  void limit(double started, double seconds) {
    if (seconds > 0 && started + seconds < at) *this = {started + seconds, seconds};
  }
  bool is_set() const { return allowed_s > 0; }
};

// Fails the jobs of a map whose time is over, with 504. Returns whether any job had a deadline.
// deadline_of(job): its deadline. fail(key, error): may erase the job.
template <class Jobs, class DeadlineOf, class Fail>
bool fail_late_ones(const Jobs& jobs, const DeadlineOf& deadline_of, const Fail& fail) {
  const double now = now_seconds();
  std::vector<std::pair<typename Jobs::key_type, double>> late;  // with the seconds that it had
  bool any = false;
  for (const auto& [key, job] : jobs) {
    const Deadline& deadline = deadline_of(job);
    any |= deadline.is_set();
    if (deadline.at <= now) late.emplace_back(key, deadline.allowed_s);
  }
  for (const auto& [key, allowed_s] : late) fail(key, timeout_error(allowed_s));
  return any;
}

// Checks all deadlines every 20 ms as long as any request has one, so one timer is enough for any number of
// requests. I/O thread only.
class DeadlineWatch {
 public:
  // sweep: ends the requests whose time is over, and returns whether others have a deadline. This object must
  // live as long as `after` runs functions.
  DeadlineWatch(After after, std::function<bool()> sweep)
      : after_(std::move(after)), sweep_(std::move(sweep)) {}

  // Call it when a request gets a deadline.
  void start() {
    if (std::exchange(running_, true)) return;
    constexpr double kEverySeconds = 0.02;
    after_(kEverySeconds, [this] {
      running_ = false;
      if (sweep_()) start();
    });
  }

 private:
  const After after_;
  const std::function<bool()> sweep_;
  bool running_ = false;
};

}  // namespace anabranch::server
