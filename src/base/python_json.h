// config.json as Python writes it.
#pragma once

#include <string_view>

#include "base/json.h"

namespace anabranch {

// parse_json(), which also takes Python's NaN, Infinity and -Infinity: as {"__float__": "NaN"} and so on, the
// form in which newer versions of Transformers save these numbers.
Result<Json> parse_python_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace anabranch
