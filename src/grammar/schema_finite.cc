#include "grammar/schema_finite.h"

#include <algorithm>
#include <vector>

#include "grammar/schema_merge.h"

namespace anabranch {

// Computes a least fixed point: no reference has a finite value until its target is shown to have one.
Result<void> FiniteSchemas::find(const std::string& where) {
  std::map<std::string, const Json*> aims;
  std::vector<const Json*> todo = {&document_.root()};
  while (!todo.empty()) {
    const Json& json = *todo.back();
    todo.pop_back();
    if (!document_.work().spend(kMemberSteps)) return schema_too_large(where);
    if (json.is_object() && json.contains("$ref") && json["$ref"].is_string())
      finite_.emplace(json["$ref"].get<std::string>(), false);
    if (json.is_structured())
      for (const Json& part : json) todo.push_back(&part);
  }
  constexpr size_t kMostReferences = 2000;
  if (finite_.size() > kMostReferences)
    return make_error(ErrorKind::exhausted, "the schema at {} has more than {} references", where,
                      kMostReferences);
  for (auto& [pointer, known] : finite_) {
    const auto aim = document_.target(pointer, where);
    known = !aim.ok();  // the use of a bad reference reports the error
    if (aim.ok()) aims.emplace(pointer, *aim);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [pointer, known] : finite_) {
      if (known) continue;
      known = has_finite_value(*aims.at(pointer));
      changed |= known;
    }
  }
  return {};
}

bool FiniteSchemas::has_finite_value(const Json& schema, int depth) const {
  // SchemaWriter refuses such schemas.
  if (!schema.is_object() || depth > kMaxSchemaDepth ||
      !document_.work().spend(kMemberSteps * (schema.size() + 1)))
    return true;
  const auto of = [&](const char* key) -> const Json* {
    const auto it = schema.find(key);
    return it == schema.end() ? nullptr : &*it;
  };
  if (const Json* ref = of("$ref"); ref && ref->is_string()) {
    const auto it = finite_.find(ref->get<std::string>());
    if (it != finite_.end() && !it->second) return false;
  }
  if (const Json* all = of("allOf"); all && all->is_array())
    for (const Json& one : *all)
      if (!has_finite_value(one, depth + 1)) return false;
  for (const char* key : {"anyOf", "oneOf"})
    if (const Json* list = of(key); list && list->is_array())
      if (std::none_of(list->begin(), list->end(),
                       [&](const Json& one) { return has_finite_value(one, depth + 1); }))
        return false;
  const Json* type = of("type");
  const auto only = [&](const char* name) { return !type || *type == name || *type == Json::array({name}); };
  return !(only("object") && !members_finite(schema, depth + 1)) &&
         !(only("array") && !items_finite(schema, depth + 1));
}

// Whether an object with all required members can be finite.
bool FiniteSchemas::members_finite(const Json& schema, int depth) const {
  const Json &properties = part_of(schema, "properties"), &required = part_of(schema, "required");
  if (!document_.work().spend(2 * required.size() * properties.size())) return true;
  const Json& patterns = part_of(schema, "patternProperties");
  const auto rest = schema.find("additionalProperties");
  const bool others_finite = !patterns.empty()      ? has_finite_value(patterns.front(), depth)
                             : rest != schema.end() ? has_finite_value(*rest, depth)
                                                    : true;
  size_t possible = 0;  // how many members can have a finite value
  for (const Json& name : required) {
    if (!name.is_string()) continue;
    const auto it = properties.find(name.get_ref<const std::string&>());
    if (it == properties.end() ? !others_finite : !has_finite_value(*it, depth)) return false;
    possible += it == properties.end();
  }
  const auto least = schema.find("minProperties");
  if (least == schema.end() || !least->is_number() || *least <= 0) return true;
  for (const Json& one : properties) possible += has_finite_value(one, depth);
  // Members with other names are written only if the schema mentions them, or if it names no members at all.
  const bool others = !patterns.empty() || rest != schema.end() || (properties.empty() && required.empty());
  return *least <= possible || (others && others_finite);
}

// Whether an array with all required items can be finite.
bool FiniteSchemas::items_finite(const Json& schema, int depth) const {
  const auto least = schema.find("minItems"), items = schema.find("items");
  if (least == schema.end() || !least->is_number() || *least <= 0) return true;
  const bool listed = items != schema.end() && items->is_array();
  const Json& list = listed ? *items : part_of(schema, "prefixItems");
  size_t count = 0;
  for (const Json& one : list)
    if (*least > count++ && !has_finite_value(one, depth)) return false;
  const auto rest = listed ? schema.find("additionalItems") : items;
  return rest == schema.end() || *least <= list.size() || has_finite_value(*rest, depth);
}

}  // namespace anabranch
