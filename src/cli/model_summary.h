// What `show` tells people of a model.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch::cli {

// The report of model_report() in words and units of people, with its name: a line for each thing, the
// verdict last.
std::string model_summary(const Json& report);

// "name                 text", or nothing without a text.
std::string summary_line(const char* what, const std::string& text);

// "runs here            yes" or "no, because ...", a line for each problem.
std::string verdict(const Json& problems);

}  // namespace anabranch::cli
