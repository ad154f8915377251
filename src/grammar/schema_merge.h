// What two JSON schemas ask together, as one schema.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/work_budget.h"

namespace anabranch {

// The steps that copying it costs.
size_t copying_steps(const Json& json);

// Both are booleans, or objects with known keywords only, without $ref and allOf (properties and items may
// have them); `false`: nothing satisfies both. Errors: unsupported, for keywords that no single schema can
// join; exhausted.
Result<Json> merge_schemas(Json a, Json b, const std::string& where, WorkBudget& work);

// Whether no value written for `a` (properties that it does not name are not written, unless it says
// additionalProperties or names none) satisfies `b`, as far as types, constants and properties tell. False
// once the budget is used up.
bool apart(const Json& a, const Json& b, WorkBudget& work, int depth = 0);

// What "#" or "#/..." refers to within a schema; null: nothing, or another kind of reference.
const Json* find_reference(const Json& root, std::string_view ref);

// A member that is an array or an object; else null.
const Json& part_of(const Json& schema, const char* key);

// The values that enum and const leave; nullptr: neither is there.
Json enumerated(const Json& schema);

}  // namespace anabranch
