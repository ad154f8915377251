#include "output/tool_schema.h"

#include <algorithm>
#include <utility>

#include "base/white_space.h"
#include "grammar/schema_merge.h"
#include "output/lenient_json.h"

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

  // Adds the names of all parameters of the object that `schema` describes.
  void names(const Json& schema, std::set<std::string, std::less<>>& out) {
    if (!first_time(schema)) return;
    if (const Json& properties = member(schema, "properties"); properties.is_object())
      for (const auto& [name, one] : properties.items()) out.insert(name);
    for_joined(schema, [&](const Json& one) { names(one, out); });
  }
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
    if (types && member(schema, "nullable") == true) types->insert("null");  // as in OpenAPI 3.0
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

const Json& parameters_of(const Json& tools, std::string_view tool) {
  return member(function_of(tools, tool), "parameters");
}

// The types that the tool's schema names for the parameter; empty: none.
std::set<std::string> types_of(const Json& tools, std::string_view tool, const std::string& parameter) {
  const Json& parameters = parameters_of(tools, tool);
  return ParameterTypes(parameters).of(parameters, parameter).value_or(std::set<std::string>());
}

bool names_type(const std::set<std::string>& types, const std::string& type) {
  return types.count(type) > 0 || (type == "integer" && types.count("number") > 0);
}

bool is_text(const std::set<std::string>& types, bool quoted) {
  const bool is_string = types.count("string") > 0;
  return (is_string && types.size() == 1) || (quoted && (is_string || types.empty()));
}

// A number in Python's spelling: 1_000, +1, 1., .5
std::optional<std::string> python_number(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    const bool after = is_digit(at(i + 1)), before = i > 0 && is_digit(at(i - 1));
    if (text[i] == '_' && before && after) continue;
    if (text[i] == '+' && i == 0) continue;
    if (text[i] == '.' && !before) out += '0';
    out += text[i];
    if (text[i] == '.' && !after) out += '0';
    if (text[i] == '.' && !before && !after) return std::nullopt;
  }
  const auto number = parse_json(out);
  return number.ok() && number->is_number() ? std::optional(out) : std::nullopt;
}

// A value of one of these types as models spell it beside JSON.
std::optional<std::string> spelled(std::string_view text, const std::set<std::string>& types) {
  text = trimmed(text);
  if (auto json = lenient_json(text); json && types.count(json->front() == '{' ? "object" : "array") > 0)
    return json;
  if (types.count("string") > 0) return std::nullopt;
  std::string lower(text);
  std::transform(text.begin(), text.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (types.count("boolean") > 0 && (lower == "true" || lower == "false")) return lower;
  if (types.count("null") > 0 && (lower == "null" || lower == "none")) return "null";
  return names_type(types, "integer") ? python_number(text) : std::nullopt;
}

}  // namespace

bool has_tool(const Json& tools, std::string_view name) {
  return !function_of(tools, name).is_null();
}

std::set<std::string, std::less<>> parameter_names(const Json& tools, std::string_view tool) {
  const Json& parameters = parameters_of(tools, tool);
  std::set<std::string, std::less<>> names;
  ParameterTypes(parameters).names(parameters, names);
  return names;
}

bool may_be_structured(const Json& tools, std::string_view tool, const std::string& parameter) {
  const auto types = types_of(tools, tool, parameter);
  return types.count("object") > 0 || types.count("array") > 0;
}

bool must_be_text(const Json& tools, std::string_view tool, const std::string& parameter, bool quoted) {
  return is_text(types_of(tools, tool, parameter), quoted);
}

std::optional<std::string> typed_argument(const Json& tools, std::string_view tool,
                                          const std::string& parameter, std::string_view text, bool quoted) {
  const auto types = types_of(tools, tool, parameter);
  const bool is_string = types.count("string") > 0;
  if (is_text(types, quoted)) return json_string(text);
  if (!is_string && !types.empty() && is_blank(text)) return std::nullopt;
  auto json = literal_json(text);
  if (!json) json = spelled(text, types);
  if (!json) return json_string(text);
  if (!is_string && !quoted) return json;
  // The schema allows strings and other types: the value counts as another type only if the schema names that
  // type.
  const std::string type = type_of(*parse_json(*json));
  return names_type(types, type) && type != "string" ? *json : json_string(text);
}

}  // namespace anabranch
