// The text of `doctor` about a machine, for people.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch::cli {

// The report of machine_report() in readable words and units: a line for each item.
std::string machine_summary(const Json& report);

// The report on the prefix cache on disk: "2.1 GB of 32 GB in /home/...".
std::string states_summary(const Json& states);

}  // namespace anabranch::cli
