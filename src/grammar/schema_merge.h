// Merges two JSON schemas into one that requires both.
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

// The schema that the reference "#" or "#/..." points to; null if there is none, or for other kinds of
// references.
const Json* find_reference(const Json& root, std::string_view ref);

// The member of that name if it is an array or an object; otherwise a JSON null.
const Json& part_of(const Json& schema, const char* key);

// Whether the value is in the array.
bool has(const Json& list, const Json& value);
// The types that both lists name ("type" is one name, or a list). An integer is also a number.
Json common_types(const Json& a, const Json& b);
// The values in both arrays.
Json common_values(const Json& a, const Json& b);

// The values that enum and const allow; a JSON null if the schema has neither.
Json enumerated(const Json& schema);

}  // namespace anabranch
