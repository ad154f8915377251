#include "text/tool_schema.h"

#include <set>

#include "text/schema_merge.h"
#include "text/tool_json.h"

namespace anabranch::text {
namespace {

constexpr int kMaxNesting = 8;  // of anyOf in anyOf, and references

// The member, or null.
const Json& member(const Json& object, const std::string& key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

const Json& function_of(const Json& tools, std::string_view name) {
  static const Json none;
  if (!tools.is_array()) return none;
  for (const Json& tool : tools) {
    const Json& function = member(tool, "function");
    if (function.is_object() && string_at(function, "name") == name) return function;
  }
  return none;
}

std::string type_of(const Json& value) {
  if (value.is_number_integer()) return "integer";
  return value.type_name();  // string, number, boolean, null, object, array
}

// root: what references of the schema are within.
void add_types(const Json& schema, const Json& root, std::set<std::string>& types, int depth) {
  const Json& type = member(schema, "type");
  if (type.is_string()) types.insert(type.get<std::string>());
  if (type.is_array())
    for (const Json& one : type)
      if (one.is_string()) types.insert(one.get<std::string>());
  if (!types.empty() || depth == kMaxNesting) return;
  if (const std::string ref = schema.is_object() ? string_at(schema, "$ref") : ""; !ref.empty())
    if (const Json* aim = find_reference(root, ref)) add_types(*aim, root, types, depth + 1);
  if (const Json& values = member(schema, "enum"); values.is_array())
    for (const Json& value : values) types.insert(type_of(value));
  if (schema.is_object() && schema.contains("const")) types.insert(type_of(schema["const"]));
  for (const char* key : {"anyOf", "oneOf", "allOf"})
    if (const Json& list = member(schema, key); list.is_array())
      for (const Json& one : list) {
        std::set<std::string> inner;
        add_types(one, root, inner, depth + 1);
        types.merge(inner);
      }
}

}  // namespace

bool has_tool(const Json& tools, std::string_view name) {
  return !function_of(tools, name).is_null();
}

std::string typed_argument(const Json& tools, std::string_view tool, const std::string& parameter,
                           std::string_view text) {
  std::set<std::string> types;
  const Json& parameters = member(function_of(tools, tool), "parameters");
  add_types(member(member(parameters, "properties"), parameter), parameters, types, 0);
  const bool is_string = types.count("string") > 0;
  if (is_string && types.size() == 1) return json_string(text);
  const auto literal = literal_json(text);
  if (!literal) return json_string(text);
  if (!is_string) return *literal;
  // A string or something else: the other only if it is one of the named.
  const std::string type = type_of(*parse_json(*literal));
  const bool named = types.count(type) > 0 || (type == "integer" && types.count("number") > 0);
  return named && type != "string" ? *literal : json_string(text);
}

}  // namespace anabranch::text
