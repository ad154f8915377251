#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "grammar/schema_keywords.h"

namespace anabranch {
namespace {

constexpr size_t kMaxComparisons = 250'000;  // between the values of two enumerations

Json as_list(const Json& value) {
  return value.is_array() ? value : Json::array({value});
}

Json both(const Json& a, const Json& b) {
  if (a == b || b == true) return a;
  if (a == true) return b;
  if (a == false || b == false) return false;
  return {{"allOf", Json::array({a, b})}};
}

// A list of patterns, all of which hold. In a schema of a client, "pattern" is one string.
Json all_patterns(const Json& a, const Json& b) {
  Json out = as_list(a);
  for (const Json& pattern : as_list(b))
    if (!has(out, pattern)) out.push_back(pattern);
  return out;
}

bool in(const std::string& key, std::initializer_list<const char*> list) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// Applies additionalProperties of `from` to the properties that only `other` names.
void restrict_additional(const Json& from, Json& other) {
  const auto additional = from.find("additionalProperties");
  if (additional == from.end() || *additional == true || !part_of(other, "properties").is_object()) return;
  const Json& known = part_of(from, "properties");
  for (auto& [name, schema] : other["properties"].items())
    if (!known.contains(name)) schema = both(schema, *additional);
}

// The steps of work for merging two schemas, whose members and listed values are compared one by one.
size_t merging_steps(const Json& a, const Json& b) {
  size_t steps = copying_steps(a) + copying_steps(b);
  for (const char* key : {"properties", "required"})
    steps += 2 * part_of(a, key).size() * part_of(b, key).size();
  for (const char* key : {"anyOf", "oneOf"})
    if (b.contains(key)) steps += part_of(a, key).size() * copying_steps(part_of(b, key));
  for (const char* key : {"enum", "type"}) steps += copying_steps(part_of(a, key)) * part_of(b, key).size();
  return steps;
}

// Whether one schema cannot express both patternProperties of `a` and additionalProperties of `b`:
// additionalProperties applies to all properties except those that the patterns of its own schema match.
bool patterns_clash(const Json& a, const Json& b) {
  const auto additional = b.find("additionalProperties");
  return a.contains("patternProperties") && additional != b.end() && *additional != true &&
         part_of(a, "patternProperties") != part_of(b, "patternProperties");
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
  if (key == "pattern") return all_patterns(a, b);
  if (key == "uniqueItems") return Json(a == true || b == true);
  if (key == "required" && a.is_array() && b.is_array()) {
    Json out = a;
    for (const Json& name : b)
      if (!has(out, name)) out.push_back(name);
    return out;
  }
  if ((key == "anyOf" || key == "oneOf") && a.is_array()) {  // each of the one list with the other list
    Json out = Json::array();
    for (const Json& one : a) out.push_back(both(one, {{key, b}}));
    return out;
  }
  if (key == "properties" && a.is_object() && b.is_object()) {
    Json out = a;
    for (const auto& [name, schema] : b.items())
      out[name] = out.contains(name) ? both(out[name], schema) : schema;
    return out;
  }
  return unsupported_together(where, key,
                              fmt::format("two '{}' that hold together (by allOf or beside $ref) are", key));
}

}  // namespace

bool has(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json others = as_list(b);
  for (const Json& type : as_list(a))
    if (has(others, type) || (type == "integer" && has(others, "number")))
      out.push_back(type);
    else if (type == "number" && has(others, "integer"))
      out.push_back("integer");
  return out;
}

Json common_values(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& value : a)
    if (has(b, value)) out.push_back(value);
  return out;
}

const Json& part_of(const Json& schema, const char* key) {
  static const Json nothing;
  const auto it = schema.find(key);
  return it == schema.end() || !it->is_structured() ? nothing : *it;
}

const Json* find_reference(const Json& root, std::string_view ref) {
  if (ref != "#" && ref.substr(0, 2) != "#/") return nullptr;
  const Json* at = &root;
  for (size_t begin = 2; begin <= ref.size() && ref.size() > 2;) {
    const size_t end = std::min(ref.find('/', begin), ref.size());
    std::string key;
    for (size_t i = begin; i < end; i++) {
      if (ref[i] == '~' && i + 1 < end) {
        key += ref[++i] == '0' ? '~' : '/';
      } else if (ref[i] == '%' && i + 2 < end) {
        key += static_cast<char>(std::strtol(std::string(ref.substr(i + 1, 2)).c_str(), nullptr, 16));
        i += 2;
      } else {
        key += ref[i];
      }
    }
    const Json* next = nullptr;
    if (at->is_object()) {
      const auto it = at->find(key);
      if (it != at->end()) next = &*it;
    } else if (at->is_array() && !key.empty() && key.size() < 7 &&
               key.find_first_not_of("0123456789") == key.npos && std::stoul(key) < at->size()) {
      next = &(*at)[std::stoul(key)];
    }
    if (!next) return nullptr;
    at = next;
    begin = end + 1;
  }
  return at;
}

Json enumerated(const Json& schema) {
  Json values;
  if (const auto it = schema.find("enum"); it != schema.end()) values = *it;
  if (const auto it = schema.find("const"); it != schema.end())
    values = values.is_null() || has(values, *it) ? Json::array({*it}) : Json::array();
  return values;
}

size_t copying_steps(const Json& json) {
  constexpr size_t kNode = 30, kByte = 1;
  size_t steps = kNode;
  if (json.is_string()) steps += kByte * json.get_ref<const std::string&>().size();
  if (json.is_structured())
    for (const auto& [key, member] : json.items()) steps += kByte * key.size() + copying_steps(member);
  return steps;
}

Result<Json> merge_schemas(Json a, Json b, const std::string& where, WorkBudget& work) {
  if (a == false || b == false) return Json(false);
  if (a == true || b == true) return a == true ? b : a;
  if (!work.spend(merging_steps(a, b)))
    return make_error(ErrorKind::exhausted, "the schema is too large at {}", where);
  restrict_additional(a, b);
  restrict_additional(b, a);
  if ((a.contains("prefixItems") && b.contains("items")) ||
      (b.contains("prefixItems") && a.contains("items")))
    return unsupported_together(where, "prefixItems",
                                "'prefixItems' together with another schema's 'items' is");
  if (patterns_clash(a, b) || patterns_clash(b, a))
    return unsupported_together(
        where, "patternProperties",
        "'patternProperties' together with another schema's 'additionalProperties' is");
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) {
      a[key] = value;
    } else if (key == "const") {
      if (a[key] != value) return Json(false);
    } else {
      TRY(a[key], merge_value(key, a[key], value, where));
    }
  }
  if (a.contains("type") && a["type"].empty()) return Json(false);
  return a;
}

}  // namespace anabranch
