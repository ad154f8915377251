#include "grammar/schema_apart.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_merge.h"

namespace anabranch {
namespace {

// Whether the grammar writes only objects for the schema.
bool writes_objects(const Json& schema) {
  if (schema.contains("type")) return string_at(schema, "type") == "object";
  const auto types = types_of(schema, "");
  return types.ok() && (*types)[kObject] && std::count(types->begin(), types->end(), true) == 1;
}

// Whether the grammar writes no properties for the schema but the named ones.
bool is_closed(const Json& schema) {
  for (const char* key : {"anyOf", "oneOf", "allOf", "$ref", "patternProperties"})
    if (schema.contains(key)) return false;
  return schema.contains("additionalProperties")
             ? schema["additionalProperties"] == false
             : schema.contains("properties") || !part_of(schema, "required").empty();
}

// Whether the values of a property tell two schemas apart.
bool apart_by(const Json& ours, const Json& theirs, const SchemaDocument& document, int depth) {
  if (ours == false || theirs == false) return true;
  const auto flat = [&](const Json& schema) {
    const bool whole = !schema.is_object() || (!schema.contains("$ref") && !schema.contains("allOf"));
    auto out = whole ? Result<Json>(schema) : document.flatten(schema, "");
    return out.ok() ? std::move(*out) : Json(true);
  };
  return apart(flat(ours), flat(theirs), document, depth + 1);
}

bool apart_by_properties(const Json& a, const Json& b, const SchemaDocument& document, int depth) {
  const Json &ours = part_of(a, "properties"), &theirs = part_of(b, "properties");
  const Json &we_need = part_of(a, "required"), &they_need = part_of(b, "required");
  const bool closed = is_closed(a);
  for (const Json& name : they_need) {
    if (!name.is_string()) continue;
    const auto our = ours.find(name.get_ref<const std::string&>());
    if (our != ours.end() ? *our == false : closed && !has(we_need, name)) return true;
  }
  const bool others_closed = b.contains("additionalProperties") && b["additionalProperties"] == false &&
                             !b.contains("patternProperties");
  for (const Json& name : we_need) {
    if (!name.is_string()) continue;
    const auto& text = name.get_ref<const std::string&>();
    const auto our = ours.find(text), their = theirs.find(text);
    if (their == theirs.end() && others_closed) return true;
    if (our != ours.end() && their != theirs.end() && apart_by(*our, *their, document, depth)) return true;
  }
  return false;
}

void require(Json& schema, const std::string& name) {
  if (!schema.contains("required")) schema["required"] = Json::array();
  if (!has(schema["required"], name)) schema["required"].push_back(name);
}

// Lets both always have a property whose values tell them apart.
void write_tag(Json& a, Json& b, const SchemaDocument& document) {
  const Json &ours = part_of(a, "properties"), &theirs = part_of(b, "properties");
  if (!ours.is_object() || !theirs.is_object()) return;
  for (const auto& [name, our] : ours.items()) {
    const auto their = theirs.find(name);
    if (our == false || their == theirs.end() || *their == false || !apart_by(our, *their, document, 0))
      continue;
    const std::string tag = name;
    require(a, tag), require(b, tag);
    return;
  }
}

// Lets `a` never have a property that `b` requires.
void leave_out_property(Json& a, const Json& b) {
  for (const Json& name : part_of(b, "required")) {
    if (!name.is_string() || has(part_of(a, "required"), name)) continue;
    const Json& ours = part_of(a, "properties");
    if (!ours.is_object() || !ours.contains(name.get_ref<const std::string&>())) continue;
    a["properties"][name.get_ref<const std::string&>()] = false;
    return;
  }
}

// Where one of two schemas has only integers and the other all numbers, an integer satisfies both.
void leave_out_integers(Json& a, Json& b) {
  if (a.is_object() && string_at(a, "type") == "integer" && b == Json{{"type", "number"}}) {
    a = false;
    b["not"] = {{"type", "integer"}};
  }
}

}  // namespace

bool apart(const Json& a, const Json& b, const SchemaDocument& document, int depth) {
  if (!a.is_object() || !b.is_object() || depth > 8) return a == false || b == false;
  const Json &our_values = part_of(a, "enum"), &their_values = part_of(b, "enum");
  const size_t names = part_of(a, "required").size() + part_of(b, "required").size();
  if (!document.work().spend(
          100 + copying_steps(our_values) * (1 + their_values.size()) + copying_steps(their_values) +
          copying_steps(part_of(a, "type")) * (1 + part_of(b, "type").size()) +
          2 * names * (part_of(a, "properties").size() + part_of(b, "properties").size() + names)))
    return false;
  if (a.contains("type") && b.contains("type") && common_types(a["type"], b["type"]).empty()) return true;
  const Json values = enumerated(a), others = enumerated(b);
  if (!values.is_null() && !others.is_null()) return common_values(values, others).empty();
  return writes_objects(a) && apart_by_properties(a, b, document, depth);
}

Result<std::vector<bool>> keep_apart(std::vector<Json>& list, const SchemaDocument& document,
                                     const std::string& where) {
  std::vector<Json> before, after;
  for (size_t i = 0; i < list.size(); i++) {
    TRY(Json flat, document.flatten(list[i], step_of(where, "oneOf", i)));
    before.push_back(std::move(flat));
  }
  after = before;
  const auto excluded = [&](size_t i, size_t j) { return apart(after[i], before[j], document); };
  for (size_t i = 0; i < list.size(); i++)
    for (size_t j = 0; j < i; j++) {
      leave_out_integers(after[i], after[j]);
      leave_out_integers(after[j], after[i]);
      if (after[i] == false || after[j] == false || (excluded(i, j) && excluded(j, i))) continue;
      if (after[i].is_object() && after[j].is_object()) {
        write_tag(after[i], after[j], document);
        if (!excluded(i, j)) leave_out_property(after[i], before[j]);
        if (!excluded(j, i)) leave_out_property(after[j], before[i]);
        if (excluded(i, j) && excluded(j, i)) continue;
      }
      if (document.work().used_up()) return schema_too_large(where);
      return unsupported_keyword(
          where, "oneOf",
          fmt::format("is not supported where its schemas {} and {} may both hold: let them differ in type, "
                      "in a constant, or in required properties, or use anyOf",
                      j, i));
    }
  std::vector<bool> changed(list.size());
  for (size_t i = 0; i < list.size(); i++) {
    changed[i] = after[i] != before[i];
    if (changed[i]) list[i] = std::move(after[i]);
  }
  return changed;
}

}  // namespace anabranch
