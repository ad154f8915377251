// Which failed requests are tried again, and when.
#pragma once

#include <cstdint>
#include <optional>

#include "hub/http.h"

namespace anabranch::hub {

// Whether the same request may succeed later: dropped connections, 408, 429 and 5xx.
bool may_pass(const HttpResponse& response);

// Seconds that the header Retry-After asks for; none where there is no such header.
std::optional<double> retry_after(const HttpResponse& response);

// Of one request.
class Retry {
 public:
  // Seconds to wait after a response that may_pass(): what Retry-After asks for, or longer each time. None:
  // it was tried often enough, or the wait would be too long. patient: an outage of a minute is worth waiting
  // for, since much has been downloaded.
  std::optional<double> wait_after(const HttpResponse& response, bool patient = false);
  // So many bytes came. A good number of them, since the last failure or before, lets failures count anew; a
  // few before each do not.
  void progress(uint64_t bytes);

 private:
  int failures_ = 0;
  uint64_t came_ = 0;  // since the failures were counted anew
};

// Whether a download gets on, however many bytes come one by one.
class Pace {
 public:
  // window: seconds within which kLeastRate is looked for.
  explicit Pace(double window) : window_(window) {}
  static constexpr uint64_t kLeastRate = 4096;  // bytes a second
  // bytes: that came so far; now: monotonic seconds. False: they are too few for a whole window.
  bool keeps_up(uint64_t bytes, double now);
  // Nothing is expected now.
  void pause() { began_ = 0; }

 private:
  const double window_;
  double began_ = 0;    // of the window; 0: with the next call
  uint64_t bytes_ = 0;  // at that time
};

}  // namespace anabranch::hub
