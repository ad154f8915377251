// What service managers are told: systemd's protocol of sd_notify(3), which needs no library.
#pragma once

#include <string_view>

namespace anabranch::cli {

// Sends a state such as "READY=1" to the socket that $NOTIFY_SOCKET names, if there is one. Failures are
// ignored, as sd_notify's callers do.
void tell_supervisor(std::string_view state);

}  // namespace anabranch::cli
