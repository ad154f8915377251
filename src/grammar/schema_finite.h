// Which schemas have a finite value. A schema that contains itself without an alternative has none.
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_document.h"

namespace anabranch {

constexpr int kMaxSchemaDepth = 64;

class FiniteSchemas {
 public:
  // `document` must outlive this.
  explicit FiniteSchemas(const SchemaDocument& document) : document_(document) {}

  // Decides for every reference of the document; call it first. `where`: the document's place.
  // Errors: exhausted (too large, or too many references).
  Result<void> find(const std::string& where);
  // Whether some value of the schema is finite. True as well for schemas that are refused later: malformed
  // ones, too deep ones, and all of them once the budget is used up.
  bool has_finite_value(const Json& schema, int depth = 0) const;

 private:
  bool members_finite(const Json& schema, int depth) const;
  bool items_finite(const Json& schema, int depth) const;

  const SchemaDocument& document_;
  std::map<std::string, bool> finite_;  // by pointer
};

}  // namespace anabranch
