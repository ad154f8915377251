// A JSON schema with its references and its allOf.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_keywords.h"
#include "grammar/work_budget.h"

namespace anabranch {

constexpr size_t kMemberSteps = 10;  // the work of looking at one member of a schema

class SchemaDocument {
 public:
  // Both must outlive this.
  SchemaDocument(const Json& root, WorkBudget& work, Keep keep = Keep::all)
      : root_(root), work_(work), keep_(keep) {}

  const Json& root() const { return root_; }
  WorkBudget& work() const { return work_; }
  // The schema that the value of a "$ref" refers to.
  Result<const Json*> target(const Json& ref, const std::string& where) const;
  // Returns an equivalent schema without $ref and allOf, and without annotations: a boolean, or an object. If
  // keywords may be left out, it leaves out what cannot be merged.
  Result<Json> flatten(const Json& schema, const std::string& where) const {
    return flatten(schema, where, 0);
  }
  // The types that a flat schema and its alternatives in anyOf and oneOf name.
  Result<TypeSet> named_types(const Json& flat, const std::string& where) const {
    return named_types(flat, where, 0);
  }

 private:
  Result<Json> flatten(const Json& schema, const std::string& where, int depth) const;
  Result<Json> own_keywords(const Json& schema, const std::string& where) const;
  Result<void> add_parts(const Json& schema, const std::string& where, int depth, Json& out) const;
  Result<void> add(Json& out, Json part, const std::string& where) const;
  bool may_leave_out(const Error& error) const { return keep_ == Keep::possible && is_of_keyword(error); }
  Result<TypeSet> named_types(const Json& flat, const std::string& where, int depth) const;

  const Json& root_;
  WorkBudget& work_;
  const Keep keep_;
};

}  // namespace anabranch
