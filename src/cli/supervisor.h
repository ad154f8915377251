// Notifies service managers, using systemd's protocol of sd_notify(3) without its library.
#pragma once

#include <string_view>

namespace anabranch::cli {

// Sends a state such as "READY=1" to the socket that $NOTIFY_SOCKET names, if it is set. Failures are
// ignored, as sd_notify's callers do.
void tell_supervisor(std::string_view state);

}  // namespace anabranch::cli
