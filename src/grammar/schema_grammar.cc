#include "grammar/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/json_text.h"
#include "base/white_space.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_writer.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr int kMaxDepth = 64, kMaxNodes = 20000;
constexpr size_t kLooking = 10;  // steps for a member of a schema that is looked at
constexpr size_t kMaxRules = 20000, kMaxGrammarBytes = 4u << 20, kMaxEnum = 5000, kMaxOptions = 500;

// What no grammar here can keep, and the values with which they ask for nothing.
struct Refused {
  const char* keyword;
  Json harmless;
};
const std::vector<Refused>& refused_keywords() {
  static const std::vector<Refused> list = {{"not", nullptr},
                                            {"if", nullptr},
                                            {"dependentRequired", Json::object()},
                                            {"contains", nullptr},
                                            {"minContains", 0},
                                            {"dependentSchemas", Json::object()},
                                            {"$dynamicRef", nullptr},
                                            {"$recursiveRef", nullptr},
                                            {"dependencies", Json::object()},
                                            {"unevaluatedItems", true},
                                            {"unevaluatedProperties", true}};
  return list;
}

// What says something about values; the rest are notes, or is found by references only.
bool is_known(const std::string& key) {
  static const std::unordered_set<std::string> all = [] {
    std::unordered_set<std::string> out = {"type",  "enum",  "const", "anyOf",
                                           "oneOf", "allOf", "$ref",  "additionalItems"};
    for (const KeywordOf& known : kKeywords) out.insert(known.keyword);
    for (const Refused& known : refused_keywords()) out.insert(known.keyword);
    return out;
  }();
  return all.count(key) > 0;
}

// Something whose only reference is elsewhere.
bool only_refers(const Json& schema) {
  bool refers = false;
  for (const auto& [key, value] : schema.items())
    if (key == "$ref")
      refers = true;
    else if (is_known(key))
      return false;
  return refers;
}

size_t length_of(std::string_view text) {  // in code points
  size_t count = 0;
  for (size_t i = 0; i < text.size(); count++) i += static_cast<size_t>(decode_utf8(text, i).length);
  return count;
}

}  // namespace

Result<const Json*> SchemaWriter::target(const Json& ref, const std::string& where) const {
  if (!ref.is_string()) return invalid(where, "$ref", "is no string");
  const auto& text = ref.get_ref<const std::string&>();
  if (text != "#" && text.substr(0, 2) != "#/")
    return unsupported(
        where, "$ref",
        fmt::format("is {}, but only references within the schema (#/...) are supported", dump_json(ref)));
  const Json* found = find_reference(root_, text);
  if (!found)
    return invalid(where, "$ref", fmt::format("is {}, which the schema does not have", dump_json(ref)));
  return found;
}

// Without $ref and allOf, and only with keywords that are known.
Result<Json> SchemaWriter::flatten(const Json& schema, const std::string& where, int depth) {
  if (schema.is_boolean()) return schema;
  if (!schema.is_object())
    return make_error(ErrorKind::invalid, "{} must be an object, true or false, not {}", where,
                      schema.type_name());
  if (depth > kMaxFlattening) return unsupported(where, "$ref", "or 'allOf' leads back to itself");
  if (!rules_.work().spend(kLooking * (schema.size() + 1))) return too_large(where);
  Json out = Json::object();
  for (const auto& [key, part] : schema.items()) {
    if (key == "$ref" || key == "allOf" || !is_known(key)) continue;
    if (!rules_.work().spend(copying_steps(part))) return too_large(where);
    out[key] = part;
  }
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    TRY(const Json* aim, target(*ref, where));
    TRY(Json other, flatten(*aim, where, depth + 1));
    TRY(out, merge_schemas(std::move(out), std::move(other), where, rules_.work()));
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array()) return invalid(where, "allOf", "is no array");
    for (size_t i = 0; i < all->size(); i++) {
      TRY(Json other, flatten((*all)[i], step_of(where, "allOf", i), depth + 1));
      TRY(out, merge_schemas(std::move(out), std::move(other), where, rules_.work()));
    }
  }
  return out;
}

// Which references have values that end: the least solution, from none on.
Result<void> SchemaWriter::find_finite() {
  std::map<std::string, const Json*> aims;
  std::vector<const Json*> todo = {&root_};
  while (!todo.empty()) {
    const Json& json = *todo.back();
    todo.pop_back();
    if (!rules_.work().spend(kLooking)) return too_large(where_);
    if (json.is_object() && json.contains("$ref") && json["$ref"].is_string())
      finite_.emplace(json["$ref"].get<std::string>(), false);
    if (json.is_structured())
      for (const Json& part : json) todo.push_back(&part);
  }
  constexpr size_t kMostReferences = 2000;
  if (finite_.size() > kMostReferences)
    return make_error(ErrorKind::exhausted, "the schema at {} has more than {} references", where_,
                      kMostReferences);
  for (auto& [pointer, known] : finite_) {
    const auto aim = target(pointer, where_);
    known = !aim.ok();  // a bad one is reported where it is used
    if (aim.ok()) aims.emplace(pointer, *aim);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [pointer, known] : finite_) {
      if (known) continue;
      known = finite(*aims.at(pointer));
      changed |= known;
    }
  }
  return {};
}

bool SchemaWriter::finite(const Json& schema, int depth) const {
  // Then it is refused where it is used.
  if (!schema.is_object() || depth > kMaxDepth || !rules_.work().spend(kLooking * (schema.size() + 1)))
    return true;
  const auto of = [&](const char* key) -> const Json* {
    const auto it = schema.find(key);
    return it == schema.end() ? nullptr : &*it;
  };
  if (const Json* ref = of("$ref"); ref && ref->is_string()) {
    const auto it = finite_.find(ref->get<std::string>());
    if (it != finite_.end() && !it->second) return false;
  }
  if (const Json* all = of("allOf"); all && all->is_array())
    for (const Json& one : *all)
      if (!finite(one, depth + 1)) return false;
  for (const char* key : {"anyOf", "oneOf"})
    if (const Json* list = of(key); list && list->is_array())
      if (std::none_of(list->begin(), list->end(), [&](const Json& one) { return finite(one, depth + 1); }))
        return false;
  const Json* type = of("type");
  const auto only = [&](const char* name) { return !type || *type == name || *type == Json::array({name}); };
  return !(only("object") && !members_finite(schema, depth + 1)) &&
         !(only("array") && !items_finite(schema, depth + 1));
}

// Whether the members that an object must have may end.
bool SchemaWriter::members_finite(const Json& schema, int depth) const {
  const Json &properties = part_of(schema, "properties"), &required = part_of(schema, "required");
  if (!rules_.work().spend(2 * required.size() * properties.size())) return true;
  const Json& patterns = part_of(schema, "patternProperties");
  const auto rest = schema.find("additionalProperties");
  const bool others_finite = !patterns.empty()      ? finite(patterns.front(), depth)
                             : rest != schema.end() ? finite(*rest, depth)
                                                    : true;
  size_t possible = 0;  // of a finite value
  for (const Json& name : required) {
    if (!name.is_string()) continue;
    const auto it = properties.find(name.get_ref<const std::string&>());
    if (it == properties.end() ? !others_finite : !finite(*it, depth)) return false;
    possible += it == properties.end();
  }
  const auto least = schema.find("minProperties");
  if (least == schema.end() || !least->is_number() || *least <= 0) return true;
  for (const Json& one : properties) possible += finite(one, depth);
  // Names that the schema does not have are written only where it speaks of them, or has none.
  const bool others = !patterns.empty() || rest != schema.end() || (properties.empty() && required.empty());
  return *least <= possible || (others && others_finite);
}

// Whether the items that an array must have may end.
bool SchemaWriter::items_finite(const Json& schema, int depth) const {
  const auto least = schema.find("minItems"), items = schema.find("items");
  if (least == schema.end() || !least->is_number() || *least <= 0) return true;
  const bool listed = items != schema.end() && items->is_array();
  const Json& list = listed ? *items : part_of(schema, "prefixItems");
  size_t count = 0;
  for (const Json& one : list)
    if (*least > count++ && !finite(one, depth)) return false;
  const auto rest = listed ? schema.find("additionalItems") : items;
  return rest == schema.end() || *least <= list.size() || finite(*rest, depth);
}

// Any JSON value, array or object.
std::string SchemaWriter::any(const std::string& name) {
  const std::string object = "any-object", array = "any-array", all = "any-value";
  if (rules_.has(all)) return "any-" + name;
  const std::string s = space(), text = any_string();
  WorkBudget own;  // for what is always the same
  const std::string number =
      add_automaton(*compile_regex(*number_regex({}), own, true), StringForm::bare, "number", rules_);
  rules_.define(
      all, fmt::format("{} | {} | \"true\" | \"false\" | \"null\" | {} | {}", text, number, object, array));
  rules_.define(object, fmt::format("\"{{\" {} (\"}}\" | any-pair)", s));
  rules_.define("any-pair",
                fmt::format("{0} {1} \":\" {1} {2} {1} (\"}}\" | \",\" {1} any-pair)", text, s, all));
  rules_.define(array, fmt::format("\"[\" {} (\"]\" | any-item)", s));
  rules_.define("any-item", fmt::format("{0} {1} (\"]\" | \",\" {1} any-item)", all, s));
  return "any-" + name;
}

Result<std::string> SchemaWriter::value(const Json& schema, const std::string& where) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || ++nodes_ > kMaxNodes || rules_.count() > kMaxRules || rules_.work().used_up() ||
      rules_.bytes() > kMaxGrammarBytes)
    return too_large(where);
  if (schema.is_boolean()) return schema == true ? any("value") : std::string();
  if (!finite(schema)) return std::string();
  if (schema.is_object() && only_refers(schema)) return reference(schema["$ref"], where);
  TRY(const Json flat, flatten(schema, where));
  if (flat.is_boolean()) return flat == true ? any("value") : std::string();
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, false, {});
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null()) return constants(flat, values, where, nullptr);
  TRY(const TypeSet wanted, types(flat, where));
  if (std::all_of(wanted.begin(), wanted.end(), [](bool b) { return b; })) {
    bool constrained = false;
    for (const KeywordOf& known : kKeywords) constrained |= flat.contains(known.keyword);
    if (!constrained) return any("value");
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
  if (!ref.is_string()) return invalid(where, "$ref", "is no string");
  const auto pointer = ref.get<std::string>();
  if (const auto it = refs_.find(pointer); it != refs_.end()) {
    if (!it->second.done && it->second.level == level_)
      return invalid(where, "$ref", fmt::format("refers to itself: {}", dump_json(ref)));
    return it->second.empty ? std::string() : it->second.name;
  }
  TRY(const Json* aim, target(ref, where));
  const size_t slash = pointer.rfind('/');
  Rule& rule = refs_[pointer];
  rule.name = rules_.reserve("def_" + (slash == std::string::npos ? "root" : pointer.substr(slash + 1)));
  rule.level = level_;
  TRY(const std::string element, value(*aim, pointer));
  rule.done = true;
  rule.empty = element.empty();
  // An empty one is part of nothing that can be written; its rule must be there all the same.
  rules_.define(rule.name, rule.empty ? literal(std::string(1, '\0')) : element);
  return rule.empty ? "" : rule.name;
}

// Of oneOf: no value may satisfy one of the others, too.
Result<void> SchemaWriter::check_apart(const std::vector<Json>& others, const Json& schema,
                                       const std::string& where) {
  for (size_t i = 0; i < others.size(); i++) {
    if (others[i] == false || schema == false) continue;
    if (apart(others[i], schema, rules_.work()) && apart(schema, others[i], rules_.work())) continue;
    if (rules_.work().used_up()) return too_large(where);
    return unsupported(
        where, "oneOf",
        fmt::format("is not supported where its schemas {} and {} may both hold: let them differ in type, "
                    "in a constant, or in required properties, or use anyOf",
                    i, others.size()));
  }
  return {};
}

// anyOf and oneOf, with what stands beside them.
Result<std::string> SchemaWriter::options(Json flat, const char* keyword, const std::string& where,
                                          bool is_bare, const TypeSet& named) {
  const Json list = std::move(flat[keyword]);
  if (!list.is_array() || list.empty()) return invalid(where, keyword, "is no array with schemas");
  if (list.size() > kMaxOptions)
    return unsupported(where, keyword, fmt::format("has more than {} schemas", kMaxOptions));
  flat.erase(keyword);
  bool alone = enumerated(flat).is_null() && !flat.contains("type") && !flat.contains("anyOf") &&
               !flat.contains("oneOf");
  for (const KeywordOf& known : kKeywords) alone = alone && !flat.contains(known.keyword);
  TRY_VOID(check_keywords(flat, where));
  std::vector<Json> whole;  // of oneOf
  const bool only_one = std::string_view(keyword) == "oneOf";
  std::vector<std::string> elements;
  for (size_t i = 0; i < list.size(); i++) {
    const std::string place = step_of(where, keyword, i);
    Json one = alone ? list[i] : Json{{"allOf", Json::array({flat, list[i]})}};
    std::string element;
    if (only_one || is_bare) {
      TRY(Json flat_one, flatten(one, place));
      if (only_one) TRY_VOID(check_apart(whole, flat_one, where));
      if (is_bare && flat_one.is_object()) {
        TRY(element, bare_flat(flat_one, place, named));
      } else {
        TRY(element, value(one, place));
      }
      if (only_one) whole.push_back(std::move(flat_one));
    } else {
      TRY(element, value(one, place));
    }
    if (!element.empty() && std::find(elements.begin(), elements.end(), element) == elements.end())
      elements.push_back(element);
  }
  if (elements.size() <= 1) return elements.empty() ? "" : elements[0];
  return rules_.add("option", fmt::format("{}", fmt::join(elements, " | ")));
}

// Whether a constant satisfies what stands beside it.
Result<bool> SchemaWriter::admits(const Json& flat, const Json& value, const std::string& where) const {
  TRY(const TypeSet wanted, types(flat, where));
  const bool whole =
      value.is_number_integer() || (value.is_number() && value == std::floor(value.get<double>()));
  const SchemaType type = value.is_null()      ? kNull
                          : value.is_boolean() ? kBoolean
                          : whole              ? kInteger
                          : value.is_number()  ? kNumber
                          : value.is_string()  ? kString
                          : value.is_array()   ? kArray
                                               : kObject;
  const SchemaType wide = type == kInteger ? kNumber : type;
  if (flat.contains("type") && !wanted[type] && !wanted[wide]) return false;
  for (const KeywordOf& known : kKeywords) {
    if (known.type != wide || !flat.contains(known.keyword)) continue;
    const std::string_view keyword = known.keyword;
    const Json& limit = flat[known.keyword];
    if (!limit.is_number() || wide > kString || keyword == "multipleOf")
      return unsupported(where, known.keyword, "is not supported beside 'enum' or 'const'");
    const double n = wide == kString ? static_cast<double>(length_of(value.get_ref<const std::string&>()))
                                     : value.get<double>();
    const double m = limit.get<double>();
    if (keyword == "minimum" || keyword == "minLength"   ? n < m
        : keyword == "maximum" || keyword == "maxLength" ? n > m
        : keyword == "exclusiveMinimum"                  ? n <= m
                                                         : n >= m)
      return false;
  }
  return true;
}

// Whether a reader of bare text takes it for a value of another type than string that may stand there.
bool SchemaWriter::misread(std::string_view text, const TypeSet& types) {
  const auto spelled = literal_json(text);
  if (!spelled) return false;
  const Json value = parse_json(*spelled).value();
  return value.is_number()    ? types[kNumber] || types[kInteger]
         : value.is_boolean() ? types[kBoolean]
         : value.is_null()    ? types[kNull]
         : value.is_array()   ? types[kArray]
                              : value.is_object() && types[kObject];
}

// bare: types that bare text may be read as; null: it is JSON.
Result<std::string> SchemaWriter::constants(const Json& flat, const Json& values, const std::string& where,
                                            const TypeSet* bare) {
  if (!values.is_array()) return invalid(where, "enum", "is no array");
  if (values.size() > kMaxEnum)
    return unsupported(where, "enum", fmt::format("has more than {} values", kMaxEnum));
  std::string out;
  for (const Json& one : values) {
    TRY(const bool good, admits(flat, one, where));
    if (!good) continue;
    std::string text = dump_json(one);
    if (bare && one.is_string()) {
      text = one.get<std::string>();
      if (text.find("</parameter") != text.npos || text != trimmed(text) || misread(text, *bare))
        return unsupported(where, "enum", "has a value that cannot be written between tags");
    }
    out += (out.empty() ? "" : " | ") + literal(text);
  }
  return out.empty() ? out : rules_.add("constant", out);
}

// All of them where the schema does not say, or those that its keywords speak of.
Result<TypeSet> SchemaWriter::types(const Json& flat, const std::string& where) const {
  TypeSet out{};
  const auto it = flat.find("type");
  if (it == flat.end()) {
    bool any = false;
    for (const KeywordOf& known : kKeywords)
      if (flat.contains(known.keyword)) any = out[known.type] = true;
    if (!any) out.fill(true);
    return out;
  }
  for (const Json& name : it->is_array() ? *it : Json::array({*it})) {
    const auto at = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
    if (at == std::end(kTypeNames))
      return invalid(where, "type", fmt::format("is {}, which is no type", dump_json(name)));
    out[at - std::begin(kTypeNames)] = true;
  }
  return out;
}

Result<void> SchemaWriter::check_keywords(const Json& flat, const std::string& where) const {
  for (const Refused& known : refused_keywords())
    if (const auto it = flat.find(known.keyword);
        it != flat.end() && (known.harmless.is_null() || *it != known.harmless))
      return unsupported(where, known.keyword, "is not supported: a grammar cannot keep it");
  return {};
}

Result<std::string> SchemaWriter::of_type(SchemaType type, const Json& flat, const std::string& where) {
  switch (type) {
    case kNull:
      return std::string("\"null\"");
    case kBoolean:
      return rules_.add("boolean", "\"true\" | \"false\"");
    case kInteger:
      return integer(flat, where);
    case kNumber:
      return number(flat, where);
    case kString:
      return string(flat, where, StringForm::quoted, any_string());
    case kArray:
      return array(flat, where);
    default:
      return object(flat, where);
  }
}

Result<std::string> add_schema(const Json& schema, GrammarRules& rules, const std::string& where) {
  return SchemaWriter(schema, rules, where).whole();
}

std::string add_any_object(GrammarRules& rules) {
  return SchemaWriter(Json(true), rules, "#").any_object();
}

Result<std::string> add_parameters(const Json& schema, GrammarRules& rules, const std::string& where) {
  return SchemaWriter(schema, rules, where).parameters();
}

}  // namespace anabranch
