// The text of `show` about a model, for people.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch::cli {

// The report of model_report() in readable words and units, with the model's name: a line for each item, the
// verdict last.
std::string model_summary(const Json& report);

// "name                 text", or nothing without a text.
std::string summary_line(const char* what, const std::string& text);

// "runs here            yes" or "no, because ...", a line for each problem.
std::string verdict(const Json& problems);

}  // namespace anabranch::cli
