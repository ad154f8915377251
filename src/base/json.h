// JSON as the project uses it: nlohmann's ordered form (templates print tools in the client's key order), parsed
// with limits because ordered objects are quadratic in their keys.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t bytes = 32u << 20;
  int depth = 128;
  size_t keys_per_object = 4096;
};

// Errors: invalid (with the byte offset), exhausted (a limit of `limits`).
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace anabranch
