#include "text/schema_merge.h"

#include <algorithm>
#include <set>

namespace anabranch::text {
namespace {

constexpr size_t kMaxComparisons = 250'000;  // of enumerations with one another

bool has(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json as_list(const Json& value) {
  return value.is_array() ? value : Json::array({value});
}

Json both(const Json& a, const Json& b) {
  if (a == b || b == true) return a;
  if (a == true) return b;
  if (a == false || b == false) return false;
  return {{"allOf", Json::array({a, b})}};
}

// The types that both lists have; an integer is a number, too.
Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& type : as_list(a))
    if (has(as_list(b), type) || (type == "integer" && has(as_list(b), "number")))
      out.push_back(type);
    else if (type == "number" && has(as_list(b), "integer"))
      out.push_back("integer");
  return out;
}

Json common_values(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& value : a)
    if (has(b, value)) out.push_back(value);
  return out;
}

bool in(const std::string& key, std::initializer_list<const char*> list) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// `additional` of one schema holds for properties that only the other names.
void restrict_additional(const Json& from, Json& other) {
  const auto additional = from.find("additionalProperties");
  if (additional == from.end() || *additional == true || !other.contains("properties")) return;
  for (auto& [name, schema] : other["properties"].items())
    if (!from.contains("properties") || !from["properties"].contains(name))
      schema = both(schema, *additional);
}

Result<Json> merge_value(const std::string& key, const Json& a, const Json& b, const std::string& where) {
  const bool numbers = a.is_number() && b.is_number();
  if (a == b) return a;
  if (key == "type") return common_types(a, b);
  if (key == "enum" && a.is_array() && b.is_array() && a.size() * b.size() <= kMaxComparisons)
    return common_values(a, b);
  if (in(key, {"items", "additionalProperties", "propertyNames"})) return both(a, b);
  if (in(key, {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}) && numbers)
    return a.get<double>() > b.get<double>() ? a : b;
  if (in(key, {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}) && numbers)
    return a.get<double>() < b.get<double>() ? a : b;
  if (key == "uniqueItems") return Json(a == true || b == true);
  if (key == "required" && a.is_array() && b.is_array()) {
    Json out = a;
    for (const Json& name : b)
      if (!has(out, name)) out.push_back(name);
    return out;
  }
  if (key == "properties" && a.is_object() && b.is_object()) {
    Json out = a;
    for (const auto& [name, schema] : b.items())
      out[name] = out.contains(name) ? both(out[name], schema) : schema;
    return out;
  }
  if (in(key, {"enum", "anyOf", "oneOf", "pattern", "format", "multipleOf", "patternProperties",
               "prefixItems", "not", "if"}))
    return make_error(ErrorKind::unsupported,
                      "{}: two '{}' that hold together (by allOf or beside $ref) are not supported", where,
                      key);
  return a;  // says nothing about values
}

}  // namespace

Json enumerated(const Json& schema) {
  Json values;
  if (const auto it = schema.find("enum"); it != schema.end()) values = *it;
  if (const auto it = schema.find("const"); it != schema.end())
    values = values.is_null() || has(values, *it) ? Json::array({*it}) : Json::array();
  return values;
}

Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& where) {
  if (a == false || b == false) return Json(false);
  if (a == true || b == true) return a == true ? b : a;
  Json left = a, right = b;
  restrict_additional(a, right);
  restrict_additional(b, left);
  if ((a.contains("prefixItems") && b.contains("items")) ||
      (b.contains("prefixItems") && a.contains("items")))
    return make_error(ErrorKind::unsupported,
                      "{}: 'prefixItems' together with another schema's 'items' is not supported", where);
  for (const auto& [key, value] : right.items()) {
    if (!left.contains(key)) {
      left[key] = value;
    } else if (key == "const") {
      if (left[key] != value) return Json(false);
    } else {
      TRY(left[key], merge_value(key, left[key], value, where));
    }
  }
  if (left.contains("type") && left["type"].empty()) return Json(false);
  return left;
}

bool apart(const Json& a, const Json& b, int depth) {
  if (!a.is_object() || !b.is_object() || depth > 8) return false;
  if (a.contains("type") && b.contains("type") && common_types(a["type"], b["type"]).empty()) return true;
  const Json values = enumerated(a), others = enumerated(b);
  if (!values.is_null() && !others.is_null()) return common_values(values, others).empty();
  const auto object = [](const Json& schema) { return string_at(schema, "type") == "object"; };
  if (!object(a) || !object(b)) return false;
  const auto properties = [](const Json& schema) { return schema.value("properties", Json::object()); };
  const auto required = [](const Json& schema) { return schema.value("required", Json::array()); };
  const Json ours = properties(a), theirs = properties(b);
  const bool closed = !a.contains("additionalProperties") || a["additionalProperties"] == false;
  for (const Json& name : required(b)) {
    if (!name.is_string()) continue;
    const bool named = ours.contains(name.get<std::string>());
    if (closed && !named && !a.contains("patternProperties")) return true;
    if (named && has(required(a), name) && theirs.contains(name.get<std::string>()) &&
        apart(ours[name.get<std::string>()], theirs[name.get<std::string>()], depth + 1))
      return true;
  }
  const bool others_closed = b.contains("additionalProperties") && b["additionalProperties"] == false;
  for (const Json& name : required(a))
    if (name.is_string() && others_closed && !theirs.contains(name.get<std::string>()) &&
        !b.contains("patternProperties"))
      return true;
  return false;
}

}  // namespace anabranch::text
