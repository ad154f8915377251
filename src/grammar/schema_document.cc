#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <utility>

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

// The keywords that constrain values, without $ref and allOf.
Result<Json> SchemaDocument::own_keywords(const Json& schema, const std::string& where) const {
  Json out = Json::object();
  for (const auto& [key, part] : schema.items()) {
    if (key == "$ref" || key == "allOf" || !constrains_values(key)) continue;
    if (!work_.spend(copying_steps(part))) return schema_too_large(where);
    out[key] = part;
  }
  for (const auto& [limit, exclusive] :
       {std::pair{"minimum", "exclusiveMinimum"}, std::pair{"maximum", "exclusiveMaximum"}})
    if (const auto it = out.find(exclusive); it != out.end() && it->is_boolean()) {  // as in draft 4
      const bool above = *it == true && out.contains(limit);
      out.erase(exclusive);
      if (!above) continue;
      out[exclusive] = out[limit];
      out.erase(limit);
    }
  return out;
}

// Merges `part` into `out`.
Result<void> SchemaDocument::add(Json& out, Json part, const std::string& where) const {
  if (keep_ == Keep::all) {
    TRY(out, merge_schemas(std::move(out), std::move(part), where, work_));
    return {};
  }
  for (;;) {
    auto merged = merge_schemas(out, part, where, work_);
    if (merged.ok()) {
      out = std::move(*merged);
      return {};
    }
    if (!may_leave_out(merged.error())) return merged.error();
    if (!part.is_object() || part.erase(merged.error().field) == 0) return {};
  }
}

// Merges what $ref and allOf say into `out`.
Result<void> SchemaDocument::add_parts(const Json& schema, const std::string& where, int depth,
                                       Json& out) const {
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    const auto aim = target(*ref, where);
    if (!aim.ok() && !may_leave_out(aim.error())) return aim.error();
    if (aim.ok()) {
      TRY(Json other, flatten(**aim, where, depth + 1));
      TRY_VOID(add(out, std::move(other), where));
    }
  }
  const auto all = schema.find("allOf");
  if (all == schema.end()) return {};
  if (!all->is_array()) {
    const Error error = invalid_keyword(where, "allOf", "is no array");
    return may_leave_out(error) ? Result<void>() : error;
  }
  for (size_t i = 0; i < all->size(); i++) {
    TRY(Json other, flatten((*all)[i], step_of(where, "allOf", i), depth + 1));
    TRY_VOID(add(out, std::move(other), where));
  }
  return {};
}

// With all parts merged, and unless alternatives are left, what no part speaks of is what `properties` and
// `items` do not speak of.
Result<Json> SchemaDocument::flatten(const Json& schema, const std::string& where, int depth) const {
  if (schema.is_boolean()) return schema;
  if (!schema.is_object()) {
    if (keep_ == Keep::possible) return Json(true);
    return make_error(ErrorKind::invalid, "{} must be an object, true or false, not {}", where,
                      schema.type_name());
  }
  if (depth > kMaxFlattening) {
    const Error error = unsupported_keyword(where, "$ref", "or 'allOf' leads back to itself");
    return may_leave_out(error) ? Result<Json>(Json(true)) : error;
  }
  if (!work_.spend(kMemberSteps * (schema.size() + 1))) return schema_too_large(where);
  TRY(Json out, own_keywords(schema, where));
  const std::pair<const char*, const char*> rests[] = {{"unevaluatedProperties", "additionalProperties"},
                                                       {"unevaluatedItems", "items"}};
  Json own = Json::object();
  for (const auto& [rest, usual] : rests)
    if (const auto it = out.find(rest); it != out.end()) {
      if (*it != true) own[rest] = *it;
      out.erase(rest);
    }
  TRY_VOID(add_parts(schema, where, depth, out));
  if (!out.is_object()) return out;
  const bool settled = !out.contains("anyOf") && !out.contains("oneOf");
  for (const auto& [rest, usual] : rests) {
    if (out.contains(rest)) {  // another part's, which does not see what this schema speaks of
      const Error error = unsupported_keyword(where, rest, "is not supported in a part of another schema");
      if (!may_leave_out(error)) return error;
      out.erase(rest);
    }
    if (!own.contains(rest)) continue;
    if (!settled)
      out[rest] = own[rest];
    else if (!out.contains(usual))
      out[usual] = own[rest];
    else if (out[usual].is_array() && !out.contains("additionalItems"))
      out["additionalItems"] = own[rest];
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
  auto types = types_of(flat, where);
  if (types.ok() || !may_leave_out(types.error())) return types;
  out.fill(true);
  return out;
}

}  // namespace anabranch
