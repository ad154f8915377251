// Whether some value satisfies two of oneOf's schemas, and how to narrow the schemas so that none does.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_document.h"

namespace anabranch {

// Whether no value that the grammar writes for `a` satisfies `b`; both are flat. The grammar writes
// properties that `a` does not name only if `a` has additionalProperties or names none. Only types, constants
// and properties are compared: true is certain, false is not. False as well once the budget is used up.
bool apart(const Json& a, const Json& b, const SchemaDocument& document, int depth = 0);

// Narrows the schemas of oneOf until no value of one satisfies another: a tag that tells them apart is always
// written, a property that only another schema requires never, and no integer as a number. Returns which
// schemas have changed. Errors: those of flatten(); unsupported (they may overlap).
Result<std::vector<bool>> keep_apart(std::vector<Json>& list, const SchemaDocument& document,
                                     const std::string& where);

}  // namespace anabranch
