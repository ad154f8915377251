#include "grammar/schema_document.h"

#include <fmt/format.h>

#include "grammar/schema_merge.h"

namespace anabranch {
namespace {

constexpr int kMaxFlattening = 16;  // levels of $ref and allOf inside one another

}  // namespace

Result<const Json*> SchemaDocument::target(const Json& ref, const std::string& where) const {
  if (!ref.is_string()) return invalid_keyword(where, "$ref", "is no string");
  const auto& text = ref.get_ref<const std::string&>();
  if (text != "#" && text.substr(0, 2) != "#/")
    return unsupported_keyword(
        where, "$ref",
        fmt::format("is {}, but only references within the schema (#/...) are supported", dump_json(ref)));
  const Json* found = find_reference(root_, text);
  if (!found)
    return invalid_keyword(where, "$ref",
                           fmt::format("is {}, which the schema does not have", dump_json(ref)));
  return found;
}

Result<Json> SchemaDocument::flatten(const Json& schema, const std::string& where, int depth) const {
  if (schema.is_boolean()) return schema;
  if (!schema.is_object())
    return make_error(ErrorKind::invalid, "{} must be an object, true or false, not {}", where,
                      schema.type_name());
  if (depth > kMaxFlattening) return unsupported_keyword(where, "$ref", "or 'allOf' leads back to itself");
  if (!work_.spend(kMemberSteps * (schema.size() + 1))) return schema_too_large(where);
  Json out = Json::object();
  for (const auto& [key, part] : schema.items()) {
    if (key == "$ref" || key == "allOf" || !constrains_values(key)) continue;
    if (!work_.spend(copying_steps(part))) return schema_too_large(where);
    out[key] = part;
  }
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    TRY(const Json* aim, target(*ref, where));
    TRY(Json other, flatten(*aim, where, depth + 1));
    TRY(out, merge_schemas(std::move(out), std::move(other), where, work_));
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array()) return invalid_keyword(where, "allOf", "is no array");
    for (size_t i = 0; i < all->size(); i++) {
      TRY(Json other, flatten((*all)[i], step_of(where, "allOf", i), depth + 1));
      TRY(out, merge_schemas(std::move(out), std::move(other), where, work_));
    }
  }
  return out;
}

Result<TypeSet> SchemaDocument::named_types(const Json& flat, const std::string& where, int depth) const {
  TypeSet out{};
  if (!flat.is_object() || depth > kMaxFlattening) return out;
  bool any = false;
  for (const char* keyword : {"anyOf", "oneOf"})
    if (const auto it = flat.find(keyword); it != flat.end() && it->is_array())
      for (const Json& one : *it) {
        TRY(const Json inner, flatten(one, where));
        TRY(const TypeSet more, named_types(inner, where, depth + 1));
        for (int i = 0; i < kTypes; i++) out[i] |= more[i];
        any = true;
      }
  if (any && !flat.contains("type")) return out;
  if (const Json values = enumerated(flat); values.is_array() && !flat.contains("type")) {
    for (const Json& one : values)
      out[one.is_string()    ? kString
          : one.is_number()  ? kNumber
          : one.is_array()   ? kArray
          : one.is_object()  ? kObject
          : one.is_boolean() ? kBoolean
                             : kNull] = true;
    return out;
  }
  return types_of(flat, where);
}

}  // namespace anabranch
