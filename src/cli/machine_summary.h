// What `doctor` tells people of a machine.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch::cli {

// The report of machine_report() in words and units of people: a line for each thing.
std::string machine_summary(const Json& report);

// The report on states on disk: "2.1 GB of 32 GB in /home/...".
std::string states_summary(const Json& states);

}  // namespace anabranch::cli
