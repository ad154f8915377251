#include "grammar/schema_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "grammar/json_rules.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_scalars.h"

namespace anabranch {
namespace {

constexpr int kMaxNodes = 20000;
constexpr size_t kMaxRules = 20000, kMaxGrammarBytes = 4u << 20, kMaxOptions = 500;

// Whether a schema is a $ref and nothing else that constrains values.
bool only_refers(const Json& schema) {
  bool refers = false;
  for (const auto& [key, value] : schema.items())
    if (key == "$ref")
      refers = true;
    else if (constrains_values(key))
      return false;
  return refers;
}

// Fails unless it is certain that no value satisfies both `schema` and one of the others, as oneOf requires.
Result<void> check_apart(const std::vector<Json>& others, const Json& schema, const std::string& where,
                         WorkBudget& work) {
  for (size_t i = 0; i < others.size(); i++) {
    if (others[i] == false || schema == false) continue;
    if (apart(others[i], schema, work) && apart(schema, others[i], work)) continue;
    if (work.used_up()) return schema_too_large(where);
    return unsupported_keyword(
        where, "oneOf",
        fmt::format("is not supported where its schemas {} and {} may both hold: let them differ in type, "
                    "in a constant, or in required properties, or use anyOf",
                    i, others.size()));
  }
  return {};
}

}  // namespace

Result<std::string> SchemaWriter::whole() {
  TRY_VOID(finite_.find(where_));
  TRY(const std::string element, value(document_.root(), where_));
  if (element.empty()) return unsatisfiable(where_);
  return element;
}

Result<std::string> SchemaWriter::value(const Json& schema, const std::string& where) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxSchemaDepth || ++nodes_ > kMaxNodes || rules_.count() > kMaxRules ||
      rules_.work().used_up() || rules_.bytes() > kMaxGrammarBytes)
    return schema_too_large(where);
  if (schema.is_boolean()) return schema == true ? add_any("value", rules_) : std::string();
  if (!finite_.has_finite_value(schema)) return std::string();
  if (schema.is_object() && only_refers(schema)) return reference(schema["$ref"], where);
  TRY(const Json flat, document_.flatten(schema, where));
  if (flat.is_boolean()) return flat == true ? add_any("value", rules_) : std::string();
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, false, {});
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null())
    return add_constants(flat, values, where, nullptr, rules_);
  TRY(const TypeSet wanted, types_of(flat, where));
  if (std::all_of(wanted.begin(), wanted.end(), [](bool b) { return b; })) {
    bool constrained = false;
    for (const KeywordOf& known : kKeywords) constrained |= flat.contains(known.keyword);
    if (!constrained) return add_any("value", rules_);
  }
  std::string out;
  int count = 0;
  for (int type = 0; type < kTypes; type++) {
    if (!wanted[type] || (type == kInteger && wanted[kNumber])) continue;
    TRY(const std::string element, of_type(static_cast<SchemaType>(type), flat, where));
    if (element.empty()) continue;
    out += (count++ == 0 ? "" : " | ") + element;
  }
  return count > 1 ? rules_.add("value", out) : out;
}

Result<std::string> SchemaWriter::reference(const Json& ref, const std::string& where) {
  if (!ref.is_string()) return invalid_keyword(where, "$ref", "is no string");
  const auto pointer = ref.get<std::string>();
  if (const auto it = refs_.find(pointer); it != refs_.end()) {
    if (!it->second.done && it->second.level == level_)
      return invalid_keyword(where, "$ref", fmt::format("refers to itself: {}", dump_json(ref)));
    return it->second.empty ? std::string() : it->second.name;
  }
  TRY(const Json* aim, document_.target(ref, where));
  const size_t slash = pointer.rfind('/');
  Rule& rule = refs_[pointer];
  rule.name = rules_.reserve("def_" + (slash == std::string::npos ? "root" : pointer.substr(slash + 1)));
  rule.level = level_;
  TRY(const std::string element, value(*aim, pointer));
  rule.done = true;
  rule.empty = element.empty();
  // The rule must exist even if it has no values: alternatives that cannot be completed may refer to it.
  rules_.define(rule.name, rule.empty ? literal(std::string(1, '\0')) : element);
  return rule.empty ? "" : rule.name;
}

Result<std::string> SchemaWriter::options(Json flat, const char* keyword, const std::string& where,
                                          bool is_bare, const TypeSet& named) {
  const Json list = std::move(flat[keyword]);
  if (!list.is_array() || list.empty()) return invalid_keyword(where, keyword, "is no array with schemas");
  if (list.size() > kMaxOptions)
    return unsupported_keyword(where, keyword, fmt::format("has more than {} schemas", kMaxOptions));
  flat.erase(keyword);
  bool alone = enumerated(flat).is_null() && !flat.contains("type") && !flat.contains("anyOf") &&
               !flat.contains("oneOf");
  for (const KeywordOf& known : kKeywords) alone = alone && !flat.contains(known.keyword);
  TRY_VOID(check_keywords(flat, where));
  std::vector<Json> earlier;  // the flat schemas before this one, for oneOf
  const bool only_one = std::string_view(keyword) == "oneOf";
  std::vector<std::string> elements;
  for (size_t i = 0; i < list.size(); i++) {
    const std::string place = step_of(where, keyword, i);
    Json one = alone ? list[i] : Json{{"allOf", Json::array({flat, list[i]})}};
    std::string element;
    if (only_one || is_bare) {
      TRY(Json flat_one, document_.flatten(one, place));
      if (only_one) TRY_VOID(check_apart(earlier, flat_one, where, rules_.work()));
      if (is_bare && flat_one.is_object()) {
        TRY(element, bare_flat(flat_one, place, named));
      } else {
        TRY(element, value(one, place));
      }
      if (only_one) earlier.push_back(std::move(flat_one));
    } else {
      TRY(element, value(one, place));
    }
    if (!element.empty() && std::find(elements.begin(), elements.end(), element) == elements.end())
      elements.push_back(element);
  }
  if (elements.size() <= 1) return elements.empty() ? "" : elements[0];
  return rules_.add("option", fmt::format("{}", fmt::join(elements, " | ")));
}

Result<std::string> SchemaWriter::of_type(SchemaType type, const Json& flat, const std::string& where) {
  switch (type) {
    case kNull:
      return std::string("\"null\"");
    case kBoolean:
      return rules_.add("boolean", "\"true\" | \"false\"");
    case kInteger:
      return add_integer(flat, where, rules_);
    case kNumber:
      return add_number(flat, where, rules_);
    case kString:
      return add_string(flat, where, StringForm::quoted, add_any_string(rules_), rules_);
    case kArray:
      return array(flat, where);
    default:
      return object(flat, where);
  }
}

}  // namespace anabranch
