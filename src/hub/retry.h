// Decides which failed requests are retried, and when.
#pragma once

#include <cstdint>
#include <optional>

#include "hub/http.h"

namespace anabranch::hub {

// Whether the same request may succeed later: dropped connections, 408, 429 and 5xx.
bool may_pass(const net::Response& response);

// Seconds to wait according to the header Retry-After; none without that header.
std::optional<double> retry_after(const net::Response& response);

// Retries of one request.
class Retry {
 public:
  // Seconds to wait after a response for which may_pass() is true: as Retry-After says, or longer each time.
  // None: there were too many attempts, or the wait would be too long. patient: makes enough attempts to
  // outlast an outage of a minute, since much has been downloaded.
  std::optional<double> wait_after(const net::Response& response, bool patient = false);
  // Reports that `bytes` bytes arrived. Enough bytes in total, also across failures, reset the count of
  // failures.
  void progress(uint64_t bytes);

 private:
  int failures_ = 0;
  uint64_t came_ = 0;  // since the count of failures was last reset
};

// Whether a download is fast enough, even if bytes keep trickling in.
class Pace {
 public:
  // interval: seconds over which the rate is measured.
  explicit Pace(double interval) : interval_(interval) {}
  static constexpr uint64_t kLeastRate = 4096;  // bytes per second
  // bytes: received so far; now: monotonic seconds. False: a whole interval was slower than kLeastRate.
  bool keeps_up(uint64_t bytes, double now);
  // Call while no bytes are expected: the next interval begins with the next call of keeps_up().
  void pause() { began_ = 0; }

 private:
  const double interval_;
  double began_ = 0;    // start of the interval; 0: begins with the next call
  uint64_t bytes_ = 0;  // bytes received at that time
};

}  // namespace anabranch::hub
