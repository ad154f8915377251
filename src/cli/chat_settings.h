// `/set` of `chat`: changes sampling options during a conversation.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/options.h"

namespace anabranch::cli {

// Changes one of the options; value "default": as the model recommends. Errors: not_found (no such option;
// the message lists the names), invalid (not a number, or out of range).
Result<void> change_setting(SamplingOptions& options, const std::string& name, const std::string& value);
// One line for each option: its name and value.
std::string list_settings(const SamplingOptions& options);

}  // namespace anabranch::cli
