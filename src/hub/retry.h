// Which failed requests are tried again, and when.
#pragma once

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
  // Bytes came, so later failures count anew.
  void progress() { failures_ = 0; }

 private:
  int failures_ = 0;
};

}  // namespace anabranch::hub
