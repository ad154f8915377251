// Merges two JSON schemas into one that requires both, and decides whether two schemas exclude each other.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/work_budget.h"

namespace anabranch {

// The steps of work for copying a schema.
size_t copying_steps(const Json& json);

// The schema that requires both. `a` and `b` are flat (SchemaDocument::flatten; their properties and items
// need not be). The result is `false` if no value satisfies both. Errors: unsupported (keywords that one
// schema cannot express together), exhausted.
Result<Json> merge_schemas(Json a, Json b, const std::string& where, WorkBudget& work);

// Whether no value that the grammar writes for `a` satisfies `b`. The grammar writes properties that `a` does
// not name only if `a` has additionalProperties or names none. Only types, constants and properties are
// compared: true is certain, false is not. False as well once the budget is used up.
bool apart(const Json& a, const Json& b, WorkBudget& work, int depth = 0);

// The schema that the reference "#" or "#/..." points to; null if there is none, or for other kinds of
// references.
const Json* find_reference(const Json& root, std::string_view ref);

// The member of that name if it is an array or an object; otherwise a JSON null.
const Json& part_of(const Json& schema, const char* key);

// The values that enum and const allow; a JSON null if the schema has neither.
Json enumerated(const Json& schema);

}  // namespace anabranch
