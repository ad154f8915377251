// JSON as the project uses it: nlohmann's ordered form (templates print tools in the client's key order),
// parsed with limits because ordered objects are quadratic in their keys.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

// The library's literals (""_json) parse text to its unordered form. Compiling that form and its parser would
// cost every file 0.3 s. We use the ordered form only, so this declaration suffices.
namespace nlohmann {
template <>
class basic_json<> {
 public:
  using json_pointer = nlohmann::json_pointer<std::string>;
  static basic_json parse(const char* begin, const char* end);
};
}  // namespace nlohmann

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace anabranch {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t bytes = 32u << 20;
  int depth = 128;
  size_t keys_per_object = 4096;
  size_t values = 4u << 20;  // in the whole text; "0," takes 16 bytes of memory, "[]," about 70
};

// Strict JSON in UTF-8; half a surrogate pair is U+FFFD. The last of a repeated key wins. Integers beyond 64
// bits become doubles. Errors: invalid (with the byte offset), exhausted (a limit of `limits`).
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Prints JSON. Bytes of strings that are not UTF-8 become U+FFFD. indent: -1 = on one line.
std::string dump_json(const Json& json, int indent = -1);

// The float's shortest decimal notation: 0.6 for a float whose value is 0.60000002384185791.
double shortest(float value);

// The string under `key`; "" if `object` is not an object, has no such key, or the value is not a string.
std::string string_at(const Json& object, const char* key);

}  // namespace anabranch
