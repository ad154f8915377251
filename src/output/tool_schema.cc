#include "output/tool_schema.h"

#include <optional>
#include <set>
#include <utility>

#include "grammar/schema_merge.h"
#include "output/tool_json.h"

namespace anabranch {
namespace {

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

using Types = std::optional<std::set<std::string>>;  // nullopt: any type

Types common(const Types& a, const Types& b) {
  if (!a || !b) return a ? a : b;
  std::set<std::string> out;
  for (const auto& [some, others] : {std::pair(*a, *b), std::pair(*b, *a)})
    for (const std::string& type : some)
      if (others.count(type) > 0 || (type == "integer" && others.count("number") > 0)) out.insert(type);
  return out;
}

// Finds the types that a tool's schema allows for a parameter. Reads each part of the schema at most once,
// and a limited number of parts, because a client's references may be circular.
class ParameterTypes {
 public:
  explicit ParameterTypes(const Json& root) : root_(root) {}

  // The types of a parameter of the object that `schema` describes.
  Types of(const Json& schema, const std::string& parameter) {
    if (!first_time(schema)) return std::nullopt;
    Types types;
    const Json& properties = member(schema, "properties");
    if (properties.is_object() && properties.contains(parameter)) types = in(properties[parameter]);
    for_joined(schema, [&](const Json& one) { types = common(types, of(one, parameter)); });
    return types;
  }

 private:
  bool first_time(const Json& schema) {
    constexpr size_t kMost = 2000;
    return seen_.size() < kMost && seen_.insert(&schema).second;
  }

  // Calls use(other) for each schema that applies in addition to the schema's own keywords ($ref, allOf).
  template <class Use>
  void for_joined(const Json& schema, const Use& use) {
    if (const std::string ref = schema.is_object() ? string_at(schema, "$ref") : ""; !ref.empty())
      if (const Json* aim = find_reference(root_, ref)) use(*aim);
    if (const Json& all = member(schema, "allOf"); all.is_array())
      for (const Json& one : all) use(one);
  }

  Types in(const Json& schema) {
    if (!first_time(schema)) return std::nullopt;
    Types types;
    if (const Json& type = member(schema, "type"); type.is_string()) {
      types = {type.get<std::string>()};
    } else if (type.is_array()) {
      types.emplace();
      for (const Json& one : type)
        if (one.is_string()) types->insert(one.get<std::string>());
    }
    std::set<std::string> values;
    if (const Json& list = member(schema, "enum"); list.is_array())
      for (const Json& value : list) values.insert(type_of(value));
    if (schema.is_object() && schema.contains("const")) values.insert(type_of(schema["const"]));
    if (!values.empty()) types = common(types, values);
    for_joined(schema, [&](const Json& one) { types = common(types, in(one)); });
    for (const char* key : {"anyOf", "oneOf"}) types = common(types, any_of(member(schema, key)));
    return types;
  }

  Types any_of(const Json& options) {
    Types types;
    if (!options.is_array()) return types;
    for (const Json& one : options)
      if (auto some = in(one)) {
        if (!types) types.emplace();
        types->merge(*some);
      }
    return types;
  }

  const Json& root_;
  std::set<const Json*> seen_;
};

}  // namespace

bool has_tool(const Json& tools, std::string_view name) {
  return !function_of(tools, name).is_null();
}

std::string typed_argument(const Json& tools, std::string_view tool, const std::string& parameter,
                           std::string_view text) {
  const Json& parameters = member(function_of(tools, tool), "parameters");
  const auto types = ParameterTypes(parameters).of(parameters, parameter).value_or(std::set<std::string>());
  const bool is_string = types.count("string") > 0;
  if (is_string && types.size() == 1) return json_string(text);
  const auto literal = literal_json(text);
  if (!literal) return json_string(text);
  if (!is_string) return *literal;
  // The schema allows strings and other types: the value counts as another type only if the schema names that
  // type.
  const std::string type = type_of(*parse_json(*literal));
  const bool named = types.count(type) > 0 || (type == "integer" && types.count("number") > 0);
  return named && type != "string" ? *literal : json_string(text);
}

}  // namespace anabranch
