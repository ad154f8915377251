// What two JSON schemas ask together, as one schema.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace anabranch::text {

// Both are objects without $ref and allOf (properties and items may have them); `false`: nothing satisfies
// both. Errors: unsupported, for keywords that no single schema can join.
Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& where);

// Whether no value written for `a` (properties that it does not name are not written, unless it says
// additionalProperties) satisfies `b`, as far as types, constants and properties tell.
bool apart(const Json& a, const Json& b, int depth = 0);

// The values that enum and const leave; nullptr: neither is there.
Json enumerated(const Json& schema);

}  // namespace anabranch::text
