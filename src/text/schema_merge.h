// What two JSON schemas ask together, as one schema.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "text/work_budget.h"

namespace anabranch::text {

// The steps that copying it costs.
size_t copying_steps(const Json& json);

// Both are booleans, or objects with known keywords only, without $ref and allOf (properties and items may
// have them); `false`: nothing satisfies both. Errors: unsupported, for keywords that no single schema can
// join; exhausted.
Result<Json> merge_schemas(Json a, Json b, const std::string& where, WorkBudget& work);

// Whether no value written for `a` (properties that it does not name are not written, unless it says
// additionalProperties) satisfies `b`, as far as types, constants and properties tell. False once the budget
// is used up.
bool apart(const Json& a, const Json& b, WorkBudget& work, int depth = 0);

// The values that enum and const leave; nullptr: neither is there.
Json enumerated(const Json& schema);

}  // namespace anabranch::text
