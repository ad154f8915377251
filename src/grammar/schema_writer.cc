#include "grammar/schema_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "grammar/json_rules.h"
#include "grammar/schema_apart.h"
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

}  // namespace

Result<std::string> SchemaWriter::whole() {
  TRY_VOID(finite_.find(where_));
  TRY(const std::string element, concluded(value(document_.root(), where_)));
  if (element.empty()) return unsatisfiable(where_);
  return element;
}

Result<std::string> SchemaWriter::concluded(Element made) {
  if (made.ok()) return made;
  for (auto& [key, rule] : refs_)
    if (!rule.done) rules_.define(rule.name, add_any("value", rules_));
  return made;
}

Result<std::string> SchemaWriter::kept(Json flat, const std::function<Element(const Json&)>& write) const {
  for (;;) {
    Element out = write(flat);
    if (out.ok() || !may_leave_out(out.error()) || flat.empty()) return out;
    const std::string& keyword = out.error().field;
    if (keyword == "oneOf" && flat.contains("oneOf") && !flat.contains("anyOf"))
      flat["anyOf"] = flat["oneOf"];  // that only one of them holds is left out
    if (flat.erase(keyword) == 0) flat = Json::object();
  }
}

Result<std::string> SchemaWriter::value(const Json& schema, const std::string& where) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxSchemaDepth || ++nodes_ > kMaxNodes || rules_.count() > kMaxRules ||
      rules_.work().used_up() || rules_.bytes() > kMaxGrammarBytes)
    return schema_too_large(where);
  if (schema.is_boolean()) return schema == true ? add_any("value", rules_) : std::string();
  if (!finite_.has_finite_value(schema)) return std::string();
  if (schema.is_object() && only_refers(schema)) {
    Element out = reference(schema["$ref"], where);
    return out.ok() || !may_leave_out(out.error()) ? out : add_any("value", rules_);
  }
  TRY(Json flat, document_.flatten(schema, where));
  if (flat.is_boolean()) return flat == true ? add_any("value", rules_) : std::string();
  return kept(std::move(flat), [&](const Json& rest) { return flat_value(rest, where); });
}

Result<std::string> SchemaWriter::flat_value(const Json& flat, const std::string& where) {
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
  TRY(const Json* aim, document_.target(ref, where));
  const auto pointer = ref.get<std::string>();
  const size_t slash = pointer.rfind('/');
  return shared(pointer, "def_" + (slash == std::string::npos ? "root" : pointer.substr(slash + 1)), where,
                [&] { return value(*aim, pointer); });
}

Result<std::string> SchemaWriter::shared(const std::string& key, std::string_view hint,
                                         const std::string& where, const std::function<Element()>& write) {
  if (const auto it = refs_.find(key); it != refs_.end()) {
    if (!it->second.done && it->second.level == level_)
      return invalid_keyword(where, "$ref", fmt::format("refers to itself: {}", dump_json(Json(key))));
    return it->second.empty ? std::string() : it->second.name;
  }
  Rule& rule = refs_[key];
  rule.name = rules_.reserve(hint);
  rule.level = level_;
  TRY(const std::string element, write());
  rule.done = true;
  rule.empty = element.empty();
  // The rule must exist even if it has no values: alternatives that cannot be completed may refer to it.
  rules_.define(rule.name, rule.empty ? literal(std::string(1, '\0')) : element);
  return rule.empty ? "" : rule.name;
}

Result<std::string> SchemaWriter::option(const Json& schema, const std::string& where, bool is_bare,
                                         const TypeSet& named) {
  if (!is_bare) return value(schema, where);
  TRY(Json flat, document_.flatten(schema, where));
  if (!flat.is_object()) return value(schema, where);
  return kept(std::move(flat), [&](const Json& rest) { return bare_flat(rest, where, named); });
}

Result<std::string> SchemaWriter::options(Json flat, const char* keyword, const std::string& where,
                                          bool is_bare, const TypeSet& named) {
  const Json list = std::move(flat[keyword]);
  if (!list.is_array() || list.empty()) return invalid_keyword(where, keyword, "is no array with schemas");
  if (list.size() > kMaxOptions)
    return unsupported_keyword(where, keyword, fmt::format("has more than {} schemas", kMaxOptions));
  flat.erase(keyword);
  TRY_VOID(check_keywords(flat, where));
  // What no part speaks of is judged with each option.
  Json rests = Json::object();
  for (const char* rest : {"unevaluatedProperties", "unevaluatedItems"})
    if (const auto it = flat.find(rest); it != flat.end()) rests[rest] = *it, flat.erase(rest);
  std::vector<Json> all;
  for (const Json& one : list) {
    if (flat.empty() && rests.empty()) {
      all.push_back(one);
      continue;
    }
    all.push_back({{"allOf", Json::array({flat, one})}});
    all.back().update(rests);
  }
  std::vector<bool> narrowed(all.size());
  if (std::string_view(keyword) == "oneOf") {
    TRY(narrowed, keep_apart(all, document_, where));
  }
  std::vector<std::string> elements;
  for (size_t i = 0; i < all.size(); i++) {
    const std::string place = step_of(where, keyword, i);
    const auto write = [&] { return option(all[i], place, is_bare, named); };
    std::string element;
    if (narrowed[i] && !is_bare) {  // it is no reference any more, but may contain itself
      TRY(element, shared("option " + dump_json(all[i]), "option", place, write));
    } else {
      TRY(element, write());
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
      return add_string(flat, where, StringSyntax::quoted, add_any_string(rules_), rules_);
    case kArray:
      return array(flat, where);
    default:
      return object(flat, where);
  }
}

}  // namespace anabranch
