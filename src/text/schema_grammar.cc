#include "text/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "text/automaton.h"
#include "text/number_grammar.h"
#include "text/schema_merge.h"
#include "text/utf8.h"
#include "text/white_space.h"

namespace anabranch::text {
namespace {

constexpr int kMaxDepth = 64, kMaxNodes = 20000, kMaxFlattening = 16;
constexpr size_t kMaxRules = 20000, kMaxGrammarBytes = 4u << 20, kMaxEnum = 5000;
constexpr int64_t kMaxRepeat = 100000, kMaxLeast = 1000;
constexpr int64_t kCounted = 24;  // the longest string that states count; a budget counts longer ones
constexpr int64_t kMaxProperties = 64;

enum Type { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject, kTypes };
constexpr const char* kTypeNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
using TypeSet = std::array<bool, kTypes>;

struct KeywordOf {
  const char* keyword;
  Type type;
};
// What says something about values of one type.
constexpr KeywordOf kKeywords[] = {{"minimum", kNumber},
                                   {"maximum", kNumber},
                                   {"exclusiveMinimum", kNumber},
                                   {"exclusiveMaximum", kNumber},
                                   {"multipleOf", kNumber},
                                   {"minLength", kString},
                                   {"maxLength", kString},
                                   {"pattern", kString},
                                   {"format", kString},
                                   {"items", kArray},
                                   {"prefixItems", kArray},
                                   {"minItems", kArray},
                                   {"maxItems", kArray},
                                   {"uniqueItems", kArray},
                                   {"properties", kObject},
                                   {"required", kObject},
                                   {"additionalProperties", kObject},
                                   {"patternProperties", kObject},
                                   {"propertyNames", kObject},
                                   {"minProperties", kObject},
                                   {"maxProperties", kObject}};

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

// Formats of strings that are kept; others are notes to the reader, as JSON Schema has it.
struct Format {
  const char *name, *pattern;
};
#define DATE                                                                                        \
  "[1-2][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(" \
  "0[1-9]|1[0-9]|2[0-8]))"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define URI_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
constexpr Format kFormats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,4}H)?|[0-9]{1,4}Y([0-9]{1,2}M([0-9]{1,2}D)?)?|T([0-9]{1,4}H([0-9]{"
     "1,2}M("
     "[0-9]{1,2}S)?)?|[0-9]{1,4}M([0-9]{1,2}S)?|[0-9]{1,4}S))$"},
    {"email", "^[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16})?@" LABEL "(\\." LABEL "){1,3}$"},
    {"hostname", "^" LABEL "(\\." LABEL "){0,4}$"},
    {"ipv4", "^(" BYTE "\\.){3}" BYTE "$"},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
    {"uri", "^[a-z][a-z0-9+.-]{0,15}://" LABEL "(\\." LABEL "){0,4}(:[1-9][0-9]{0,3})?(/" URI_CHAR
            "*)*(\\?(" URI_CHAR "|[/?])*)?(#(" URI_CHAR "|[/?])*)?$"},
};
#undef DATE
#undef TIME
#undef LABEL
#undef BYTE
#undef URI_CHAR

const char* format_pattern(const std::string& name) {
  for (const Format& format : kFormats)
    if (name == format.name) return format.pattern;
  return nullptr;
}

std::string step_of(const std::string& where, std::string_view key) {
  std::string out = where + "/";
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}
std::string step_of(const std::string& where, const char* key, size_t index) {
  return fmt::format("{}/{}/{}", where, key, index);
}

// Something whose only reference is elsewhere.
bool only_refers(const Json& schema) {
  if (!schema.contains("$ref")) return false;
  for (const auto& [key, value] : schema.items())
    for (const char* known : {"type", "enum", "const", "anyOf", "oneOf", "allOf"})
      if (key == known) return false;
  for (const KeywordOf& known : kKeywords)
    if (schema.contains(known.keyword)) return false;
  for (const Refused& known : refused_keywords())
    if (schema.contains(known.keyword)) return false;
  return true;
}

size_t length_of(std::string_view text) {  // in code points
  size_t count = 0;
  for (size_t i = 0; i < text.size(); count++) i += static_cast<size_t>(decode_utf8(text, i).length);
  return count;
}

class Writer {
 public:
  Writer(const Json& root, GrammarRules& rules, const std::string& where)
      : root_(root), rules_(rules), where_(where) {}

  Result<std::string> whole() {
    TRY_VOID(find_finite());
    TRY(const std::string element, value(root_, where_));
    if (element.empty()) return nothing();
    return element;
  }
  Result<std::string> parameters();
  std::string any_object() { return any("object"); }

 private:
  using Element = Result<std::string>;  // "": no value satisfies it

  Error nothing() const {
    return make_error(ErrorKind::invalid, "no value satisfies the schema at {}", where_);
  }
  Error invalid(const std::string& where, const char* keyword, std::string_view what) const {
    return make_error(ErrorKind::invalid, "'{}' at {} {}", keyword, where, what);
  }
  Error unsupported(const std::string& where, const char* keyword, std::string_view what) const {
    return make_error(ErrorKind::unsupported, "'{}' at {} {}", keyword, where, what);
  }

  Result<const Json*> target(const Json& ref, const std::string& where) const;
  Result<Json> flatten(const Json& schema, const std::string& where, int depth = 0);
  Result<void> find_finite();
  bool finite(const Json& schema, int depth = 0) const;

  Element value(const Json& schema, const std::string& where);
  Element reference(const Json& ref, const std::string& where);
  Element options(Json flat, const char* keyword, const std::string& where, bool bare, const TypeSet& named);
  Element constants(const Json& flat, const Json& values, const std::string& where, bool bare);
  Result<bool> admits(const Json& flat, const Json& value, const std::string& where) const;
  Result<TypeSet> types(const Json& flat, const std::string& where) const;
  Result<void> check_keywords(const Json& flat, const std::string& where) const;
  Element of_type(Type type, const Json& flat, const std::string& where);
  Element integer(const Json& flat, const std::string& where);
  Element number(const Json& flat, const std::string& where);
  Element string(const Json& flat, const std::string& where, StringForm form, const std::string& plain);
  Element array(const Json& flat, const std::string& where);
  Element object(const Json& flat, const std::string& where);
  struct Members;
  struct Member {
    std::string text;  // its name and its value, as elements
    bool required = false;
  };
  template <class Write>
  Result<bool> named_members(const Json& flat, const std::string& where, const Write& write,
                             std::vector<Member>& out, std::vector<std::string>& names);
  Element other_members(const Json& flat, const std::vector<std::string>& names, const std::string& where);
  using MemberRules = std::shared_ptr<std::map<std::pair<size_t, int64_t>, std::string>>;
  std::string members_from(const Members& members, size_t i, int64_t count, MemberRules known);
  Result<TypeSet> all_types(const Json& flat, const std::string& where, int depth = 0);
  Element bare(const Json& schema, const std::string& where);
  Element bare_flat(const Json& flat, const std::string& where, const TypeSet& named);

  Result<std::optional<double>> bound(const Json& flat, const char* keyword, const std::string& where) const;
  Result<std::optional<int64_t>> count(const Json& flat, const char* keyword, const std::string& where,
                                       int64_t most) const;
  std::string any(const std::string& name);
  std::string space() { return rules_.add("space", "\"\" | \" \" | \"\\n\" [ ]{0,16}"); }
  std::string any_string() { return add_automaton(any_text(), StringForm::quoted, "string", rules_); }
  // Of a regular expression that is ours.
  std::string digits(const std::string& regex, const char* hint) {
    return add_automaton(*compile_regex(regex, true), StringForm::bare, hint, rules_);
  }

  struct Rule {
    std::string name;
    int level = 0;
    bool done = false, empty = false;
  };
  const Json& root_;
  GrammarRules& rules_;
  const std::string where_;
  std::map<std::string, Rule> refs_;    // by pointer
  std::map<std::string, bool> finite_;  // by pointer: some value of it ends
  int nodes_ = 0, depth_ = 0;
  int level_ = 0;  // objects and arrays around: something was written before what they hold
};

struct Deeper {
  explicit Deeper(int& n) : n(n) { ++n; }
  ~Deeper() { --n; }
  int& n;
};

Result<const Json*> Writer::target(const Json& ref, const std::string& where) const {
  if (!ref.is_string()) return invalid(where, "$ref", "is no string");
  const auto& text = ref.get_ref<const std::string&>();
  if (text != "#" && text.substr(0, 2) != "#/")
    return unsupported(
        where, "$ref",
        fmt::format("is {}, but only references within the schema (#/...) are supported", dump_json(ref)));
  const Json* at = &root_;
  for (size_t begin = 2; begin <= text.size() && text.size() > 2;) {
    const size_t end = std::min(text.find('/', begin), text.size());
    std::string key;
    for (size_t i = begin; i < end; i++) {
      if (text[i] == '~' && i + 1 < end) {
        key += text[++i] == '0' ? '~' : '/';
      } else if (text[i] == '%' && i + 2 < end) {
        key += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
        i += 2;
      } else {
        key += text[i];
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
    if (!next)
      return invalid(where, "$ref", fmt::format("is {}, which the schema does not have", dump_json(ref)));
    at = next;
    begin = end + 1;
  }
  return at;
}

// Without $ref and allOf.
Result<Json> Writer::flatten(const Json& schema, const std::string& where, int depth) {
  if (schema.is_boolean()) return schema;
  if (!schema.is_object())
    return make_error(ErrorKind::invalid, "{} must be an object, true or false, not {}", where,
                      schema.type_name());
  if (depth > kMaxFlattening) return unsupported(where, "$ref", "or 'allOf' leads back to itself");
  Json out = schema;
  out.erase("$ref");
  out.erase("allOf");
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    TRY(const Json* aim, target(*ref, where));
    TRY(const Json other, flatten(*aim, where, depth + 1));
    TRY(out, merge_schemas(out, other, where));
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array()) return invalid(where, "allOf", "is no array");
    for (size_t i = 0; i < all->size(); i++) {
      TRY(const Json other, flatten((*all)[i], step_of(where, "allOf", i), depth + 1));
      TRY(out, merge_schemas(out, other, where));
    }
  }
  return out;
}

// Which references have values that end: the least solution, from none on.
Result<void> Writer::find_finite() {
  std::vector<const Json*> todo = {&root_};
  while (!todo.empty()) {
    const Json& json = *todo.back();
    todo.pop_back();
    if (json.is_object() && json.contains("$ref") && json["$ref"].is_string())
      finite_.emplace(json["$ref"].get<std::string>(), false);
    if (json.is_structured())
      for (const Json& part : json) todo.push_back(&part);
  }
  constexpr size_t kMostReferences = 2000;
  if (finite_.size() > kMostReferences)
    return make_error(ErrorKind::exhausted, "the schema at {} has more than {} references", where_,
                      kMostReferences);
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [pointer, known] : finite_) {
      if (known) continue;
      const auto aim = target(pointer, where_);
      // A bad one is reported where it is used.
      known = !aim.ok() || finite(**aim);
      changed |= known;
    }
  }
  return {};
}

bool Writer::finite(const Json& schema, int depth) const {
  if (!schema.is_object() || depth > kMaxDepth) return true;
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
  const auto only = [&](const char* name) { return !type || *type == name; };
  const Json *required = of("required"), *properties = of("properties");
  if (required && required->is_array() && properties && properties->is_object() && only("object"))
    for (const Json& name : *required)
      if (name.is_string() && properties->contains(name.get<std::string>()) &&
          !finite((*properties)[name.get<std::string>()], depth + 1))
        return false;
  const Json *items = of("items"), *least = of("minItems");
  return !(items && least && least->is_number() && *least > 0 && only("array") && !finite(*items, depth + 1));
}

// Any JSON value, array or object.
std::string Writer::any(const std::string& name) {
  const std::string object = "any-object", array = "any-array", all = "any-value";
  if (rules_.has(all)) return "any-" + name;
  const std::string s = space(), text = any_string();
  const std::string number = digits(*number_regex({}), "number");
  rules_.define(
      all, fmt::format("{} | {} | \"true\" | \"false\" | \"null\" | {} | {}", text, number, object, array));
  rules_.define(object, fmt::format("\"{{\" {} (\"}}\" | any-pair)", s));
  rules_.define("any-pair",
                fmt::format("{0} {1} \":\" {1} {2} {1} (\"}}\" | \",\" {1} any-pair)", text, s, all));
  rules_.define(array, fmt::format("\"[\" {} (\"]\" | any-item)", s));
  rules_.define("any-item", fmt::format("{0} {1} (\"]\" | \",\" {1} any-item)", all, s));
  return "any-" + name;
}

Result<std::string> Writer::value(const Json& schema, const std::string& where) {
  const Deeper deeper(depth_);
  if (depth_ > kMaxDepth || ++nodes_ > kMaxNodes || rules_.count() > kMaxRules ||
      rules_.bytes() > kMaxGrammarBytes)
    return make_error(ErrorKind::exhausted, "the schema is too large or too deep at {}", where);
  if (schema.is_boolean()) return schema == true ? any("value") : std::string();
  if (!finite(schema)) return std::string();
  if (schema.is_object() && only_refers(schema)) return reference(schema["$ref"], where);
  TRY(const Json flat, flatten(schema, where));
  if (flat.is_boolean()) return flat == true ? any("value") : std::string();
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, false, {});
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null()) return constants(flat, values, where, false);
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
    TRY(const std::string element, of_type(static_cast<Type>(type), flat, where));
    if (element.empty()) continue;
    out += (count++ == 0 ? "" : " | ") + element;
  }
  return count > 1 ? rules_.add("value", out) : out;
}

Result<std::string> Writer::reference(const Json& ref, const std::string& where) {
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

// anyOf and oneOf, with what stands beside them.
Result<std::string> Writer::options(Json flat, const char* keyword, const std::string& where, bool is_bare,
                                    const TypeSet& named) {
  const Json list = flat[keyword];
  if (!list.is_array() || list.empty()) return invalid(where, keyword, "is no array with schemas");
  flat.erase(keyword);
  bool alone = enumerated(flat).is_null() && !flat.contains("type") && !flat.contains("anyOf") &&
               !flat.contains("oneOf");
  for (const KeywordOf& known : kKeywords) alone = alone && !flat.contains(known.keyword);
  TRY_VOID(check_keywords(flat, where));
  std::vector<Json> whole;
  std::vector<std::string> elements;
  for (size_t i = 0; i < list.size(); i++) {
    const std::string place = step_of(where, keyword, i);
    Json one = alone ? list[i] : Json{{"allOf", Json::array({flat, list[i]})}};
    TRY(Json flat_one, flatten(one, place));
    if (std::string_view(keyword) == "oneOf")
      for (size_t other = 0; other < whole.size(); other++)
        if (whole[other] != false && flat_one != false &&
            !(apart(whole[other], flat_one) && apart(flat_one, whole[other])))
          return unsupported(
              where, "oneOf",
              fmt::format("is not supported where its schemas {} and {} may both hold: let them differ "
                          "in type, in a constant, or in required properties, or use anyOf",
                          other, i));
    std::string element;
    if (is_bare && flat_one.is_object()) {
      TRY(element, bare_flat(flat_one, place, named));
    } else {
      TRY(element, value(one, place));
    }
    whole.push_back(std::move(flat_one));
    if (!element.empty() && std::find(elements.begin(), elements.end(), element) == elements.end())
      elements.push_back(element);
  }
  if (elements.size() <= 1) return elements.empty() ? "" : elements[0];
  return rules_.add("option", fmt::format("{}", fmt::join(elements, " | ")));
}

// Whether a constant satisfies what stands beside it.
Result<bool> Writer::admits(const Json& flat, const Json& value, const std::string& where) const {
  TRY(const TypeSet wanted, types(flat, where));
  const bool whole =
      value.is_number_integer() || (value.is_number() && value == std::floor(value.get<double>()));
  const Type type = value.is_null()      ? kNull
                    : value.is_boolean() ? kBoolean
                    : whole              ? kInteger
                    : value.is_number()  ? kNumber
                    : value.is_string()  ? kString
                    : value.is_array()   ? kArray
                                         : kObject;
  const Type wide = type == kInteger ? kNumber : type;
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

Result<std::string> Writer::constants(const Json& flat, const Json& values, const std::string& where,
                                      bool is_bare) {
  if (!values.is_array()) return invalid(where, "enum", "is no array");
  if (values.size() > kMaxEnum)
    return unsupported(where, "enum", fmt::format("has more than {} values", kMaxEnum));
  std::string out;
  for (const Json& one : values) {
    TRY(const bool good, admits(flat, one, where));
    if (!good) continue;
    std::string text = dump_json(one);
    if (is_bare && one.is_string()) {
      text = one.get<std::string>();
      if (text.find("</parameter") != text.npos || text != trimmed(text))
        return unsupported(where, "enum", "has a value that cannot be written between tags");
    }
    out += (out.empty() ? "" : " | ") + literal(text);
  }
  return out.empty() ? out : rules_.add("constant", out);
}

// All of them where the schema does not say, or those that its keywords speak of.
Result<TypeSet> Writer::types(const Json& flat, const std::string& where) const {
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

Result<void> Writer::check_keywords(const Json& flat, const std::string& where) const {
  for (const Refused& known : refused_keywords())
    if (const auto it = flat.find(known.keyword);
        it != flat.end() && (known.harmless.is_null() || *it != known.harmless))
      return unsupported(where, known.keyword, "is not supported: a grammar cannot keep it");
  return {};
}

Result<std::string> Writer::of_type(Type type, const Json& flat, const std::string& where) {
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

Result<std::optional<double>> Writer::bound(const Json& flat, const char* keyword,
                                            const std::string& where) const {
  const auto it = flat.find(keyword);
  if (it == flat.end()) return std::optional<double>();
  if (!it->is_number()) return invalid(where, keyword, "must be a number");
  return std::optional(it->get<double>());
}

Result<std::optional<int64_t>> Writer::count(const Json& flat, const char* keyword, const std::string& where,
                                             int64_t most) const {
  TRY(const auto n, bound(flat, keyword, where));
  if (!n) return std::optional<int64_t>();
  if (*n < 0 || *n != std::floor(*n)) return invalid(where, keyword, "must be a whole number from 0 on");
  if (*n > static_cast<double>(most) && std::string_view(keyword).substr(0, 3) == "min")
    return unsupported(where, keyword, fmt::format("is above {}, which is not supported", most));
  return std::optional(static_cast<int64_t>(std::min(*n, 1e15)));
}

Result<std::string> Writer::integer(const Json& flat, const std::string& where) {
  constexpr double kFar = 1e18;
  TRY(const auto minimum, bound(flat, "minimum", where));
  TRY(const auto above, bound(flat, "exclusiveMinimum", where));
  TRY(const auto maximum, bound(flat, "maximum", where));
  TRY(const auto below, bound(flat, "exclusiveMaximum", where));
  IntegerBounds bounds;
  const auto raise = [&](double n) {
    const auto whole = static_cast<int64_t>(std::clamp(n, -kFar, kFar));
    bounds.least = std::max(bounds.least.value_or(whole), whole);
  };
  const auto lower = [&](double n) {
    const auto whole = static_cast<int64_t>(std::clamp(n, -kFar, kFar));
    bounds.most = std::min(bounds.most.value_or(whole), whole);
  };
  if (minimum) raise(std::ceil(*minimum));
  if (above) raise(std::floor(*above) + 1);
  if (maximum) lower(std::floor(*maximum));
  if (below) lower(std::ceil(*below) - 1);
  TRY(const auto step, bound(flat, "multipleOf", where));
  if (step && *step != 1) {
    constexpr int64_t kMostMultiples = 2000;
    if (!(*step >= 1) || *step != std::floor(*step) || *step > 1e15)
      return unsupported(where, "multipleOf", "is supported for whole numbers only");
    const auto n = static_cast<int64_t>(*step);
    if (bounds.least && bounds.most && (*bounds.most - *bounds.least) / n <= kMostMultiples) {
      std::string out;
      int64_t at = *bounds.least / n * n;
      if (at < *bounds.least) at += n;
      for (; at <= *bounds.most; at += n) out += (out.empty() ? "" : "|") + fmt::format("{}", at);
      return out.empty() ? out : digits("(" + out + ")", "integer");
    }
    if (bounds.least || bounds.most || (n != 2 && n != 5 && n != 10 && n != 100 && n != 1000))
      return unsupported(where, "multipleOf",
                         fmt::format("is supported for 2, 5, 10, 100, 1000, or with 'minimum' "
                                     "and 'maximum' at most {} multiples apart",
                                     kMostMultiples));
    const std::string ending = n == 2 ? "[02468]" : n == 5 ? "[05]" : fmt::format("{}", n).substr(1);
    return digits(fmt::format("0|-?({}[1-9][0-9]{{0,14}}{})",
                              n == 2   ? "[2468]|"
                              : n == 5 ? "5|"
                                       : "",
                              ending),
                  "integer");
  }
  const std::string regex = integer_regex(bounds);
  return regex.empty() ? regex : digits(regex, "integer");
}

Result<std::string> Writer::number(const Json& flat, const std::string& where) {
  if (const auto it = flat.find("multipleOf"); it != flat.end()) {
    if (*it == 1) return integer(flat, where);
    return unsupported(where, "multipleOf", "is supported for type integer only");
  }
  TRY(const auto minimum, bound(flat, "minimum", where));
  TRY(const auto above, bound(flat, "exclusiveMinimum", where));
  TRY(const auto maximum, bound(flat, "maximum", where));
  TRY(const auto below, bound(flat, "exclusiveMaximum", where));
  NumberBounds bounds{minimum, maximum};
  if (above && (!minimum || *above >= *minimum)) bounds.least = above, bounds.above = true;
  if (below && (!maximum || *below <= *maximum)) bounds.most = below, bounds.below = true;
  const auto regex = number_regex(bounds);
  if (!regex.ok()) return unsupported(where, "minimum", "or its like: " + regex.error().message);
  return digits(*regex, "number");
}

// plain: what a string without limits is.
Result<std::string> Writer::string(const Json& flat, const std::string& where, StringForm form,
                                   const std::string& plain) {
  TRY(const auto shortest, count(flat, "minLength", where, kMaxLeast));
  TRY(const auto longest, count(flat, "maxLength", where, kMaxRepeat));
  const int64_t least = shortest.value_or(0);
  if (longest && *longest < least) return std::string();
  const auto format = flat.find("format"), pattern = flat.find("pattern");
  const char* kept =
      format != flat.end() && format->is_string() ? format_pattern(format->get<std::string>()) : nullptr;
  if (pattern != flat.end() && kept)
    return unsupported(where, "pattern",
                       fmt::format("beside format {} is not supported", dump_json(*format)));
  if (pattern != flat.end() && !pattern->is_string()) return invalid(where, "pattern", "is no string");
  const bool free = pattern == flat.end() && !kept;
  if (free && least == 0 && !longest) return plain;
  Automaton automaton = any_text();
  if (!free) {
    auto compiled = compile_regex(kept ? kept : pattern->get_ref<const std::string&>());
    if (!compiled.ok())
      return make_error(compiled.error().kind, "'pattern' at {}: {}", where, compiled.error().message);
    automaton = std::move(*compiled);
  }
  const auto low = static_cast<size_t>(least);
  if (!free || !longest || *longest <= kCounted) {
    auto counted =
        least == 0 && !longest
            ? Result(automaton)
            : with_length(automaton, low, longest ? std::optional<size_t>(*longest) : std::nullopt);
    if (!counted.ok())
      return make_error(counted.error().kind, "'maxLength' at {}: {}", where, counted.error().message);
    return add_automaton(*counted, form, "string", rules_);
  }
  // A budget counts characters as they are written: an escape is never less than what it stands for.
  TRY(const Automaton begin, with_length(any_text(), low, low));
  const std::string quote = form == StringForm::quoted ? "\"\\\"\"" : "\"\"";
  const StringForm part = form == StringForm::quoted ? StringForm::inside : form;
  const std::string some = least == 0 ? "\"\"" : add_automaton(begin, part, "begin", rules_);
  const std::string rest = rules_.add("rest", add_automaton(any_text(), part, "any_text", rules_),
                                      fmt::format("max_chars={}", *longest - least));
  return rules_.add("string", fmt::format("{0} {1} {2} {0}", quote, some, rest));
}

Result<std::string> Writer::array(const Json& flat, const std::string& where) {
  const Deeper inside(level_);
  TRY(const auto fewest, count(flat, "minItems", where, kMaxLeast));
  TRY(auto most, count(flat, "maxItems", where, kMaxRepeat));
  const int64_t least = fewest.value_or(0);
  if (flat.contains("uniqueItems") && flat["uniqueItems"] == true && most.value_or(2) > 1)
    return unsupported(where, "uniqueItems", "is not supported: a grammar cannot keep it");
  std::vector<std::string> first;
  bool first_end = false;  // an item that cannot be: the array ends before it
  const auto prefix = flat.find("prefixItems"), items = flat.find("items");
  const bool listed = items != flat.end() && items->is_array();  // drafts before 2020
  if (prefix != flat.end() || listed) {
    const Json& list = listed ? *items : *prefix;
    if (!list.is_array()) return invalid(where, "prefixItems", "is no array");
    for (size_t i = 0; i < list.size() && !first_end; i++) {
      TRY(const std::string element, value(list[i], step_of(where, listed ? "items" : "prefixItems", i)));
      first_end = element.empty();
      if (!first_end) first.push_back(element);
    }
  }
  std::string item;
  const Json rest = listed                ? flat.value("additionalItems", Json(true))
                    : items != flat.end() ? *items
                                          : Json(true);
  // Behind listed items others come only if they are spoken of, or needed.
  const bool spoken = items != flat.end() && (!listed || flat.contains("additionalItems"));
  if (!first_end && (first.empty() || spoken || least > static_cast<int64_t>(first.size()))) {
    TRY(item, value(rest, where + "/items"));
  }
  if (item.empty()) most = std::min(most.value_or(INT64_MAX), static_cast<int64_t>(first.size()));
  if (most && *most < least) return std::string();
  const std::string s = space(), comma = fmt::format("{0} \",\" {0} ", s), close = fmt::format("{} \"]\"", s);
  // From the back: what may follow the first i items.
  const auto count_of = static_cast<int64_t>(first.size());
  std::string tail = close;
  if (!item.empty() && most.value_or(INT64_MAX) > count_of) {
    const int64_t low = std::max<int64_t>(least - count_of, 0);
    const std::string next = count_of > 0 ? comma : "";
    std::string more;  // items behind the first of the rest
    if (!most) {
      more =
          low > 1 ? fmt::format("({}{}){{{},}}", comma, item, low - 1) : fmt::format("({}{})*", comma, item);
    } else {
      const int64_t high = *most - count_of;
      more = high > 1 ? fmt::format("({}{}){{{},{}}}", comma, item, std::max<int64_t>(low - 1, 0), high - 1)
                      : "";
    }
    const std::string some = fmt::format("{}{} {} {}", next, item, more, close);
    tail = low > 0 ? some : rules_.add("items", fmt::format("{} | {}", some, count_of > 0 ? close : "\"]\""));
  }
  for (int64_t i = count_of; i-- > 0;) {
    const std::string here = fmt::format("{}{} {}", i > 0 ? comma : "", first[static_cast<size_t>(i)], tail);
    const bool may_end = i >= least, must_end = most && *most <= i;
    const std::string end = i > 0 ? close : "\"]\"";
    tail = must_end ? end : may_end ? rules_.add("items", fmt::format("{} | {}", end, here)) : here;
  }
  return rules_.add("array", fmt::format("\"[\" {} {}", s, tail));
}

// What a schema says of an object's members.
struct Writer::Members {
  std::vector<Member> named;
  std::string other;  // a pair with any other name; "": there are none
  int64_t least = 0;
  std::optional<int64_t> most;
};

// "" for "none can be": then the object cannot be either, if the member must.
Result<std::string> Writer::other_members(const Json& flat, const std::vector<std::string>& names,
                                          const std::string& where) {
  const auto additional = flat.find("additionalProperties"), patterns = flat.find("patternProperties");
  const auto key_schema = flat.find("propertyNames");
  const bool has_patterns = patterns != flat.end() && !patterns->empty();
  if (has_patterns && (!names.empty() || patterns->size() > 1 || key_schema != flat.end() ||
                       (additional != flat.end() && *additional != false)))
    return unsupported(where, "patternProperties",
                       "is supported with one pattern only, and without properties, propertyNames and "
                       "additionalProperties beside it");
  if (key_schema != flat.end() && *key_schema != true && !names.empty())
    return unsupported(where, "propertyNames", "is not supported beside 'properties' or 'required'");
  std::string key, element;
  if (has_patterns) {
    const auto automaton = compile_regex(patterns->begin().key());
    if (!automaton.ok())
      return make_error(automaton.error().kind, "'patternProperties' at {}: {}", where,
                        automaton.error().message);
    key = add_automaton(*automaton, StringForm::quoted, "key", rules_);
    TRY(element, value(patterns->front(), step_of(where, "patternProperties")));
  } else {
    const bool open =
        additional == flat.end() ? !flat.contains("properties") && names.empty() : *additional != false;
    if (!open) return std::string();
    TRY(element,
        value(additional == flat.end() ? Json(true) : *additional, step_of(where, "additionalProperties")));
    if (key_schema != flat.end() && *key_schema != true) {
      TRY(Json keys, flatten(*key_schema, step_of(where, "propertyNames")));
      if (keys == false) return std::string();
      keys["type"] = "string";
      TRY(key, value(keys, step_of(where, "propertyNames")));
    } else {
      key =
          names.empty() ? any_string() : add_automaton(text_except(names), StringForm::quoted, "key", rules_);
    }
  }
  if (element.empty() || key.empty()) return std::string();
  const std::string s = space();
  return rules_.add("member", fmt::format("{} {} \":\" {} {}", key, s, s, element));
}

// How each named member is written: a function, since calls write them differently.
template <class Write>
Result<bool> Writer::named_members(const Json& flat, const std::string& where, const Write& write,
                                   std::vector<Member>& out, std::vector<std::string>& names) {
  static const Json none = Json::object(), nobody = Json::array(), anything = true;
  const auto properties = flat.find("properties"), required = flat.find("required");
  const Json& list = properties == flat.end() ? none : *properties;
  const Json& wanted = required == flat.end() ? nobody : *required;
  if (!list.is_object()) return invalid(where, "properties", "is no object");
  if (!wanted.is_array()) return invalid(where, "required", "is no array");
  std::set<std::string> needed;
  for (const Json& name : wanted) {
    if (!name.is_string()) return invalid(where, "required", "has a name that is no string");
    needed.insert(name.get<std::string>());
  }
  const auto add = [&](const std::string& name, const Json& schema) -> Result<bool> {
    const bool must = needed.count(name) > 0;
    TRY(const std::string text, write(name, schema, step_of(where + "/properties", name)));
    names.push_back(name);
    if (text.empty()) return !must;
    out.push_back({text, must});
    return true;
  };
  for (const auto& [name, schema] : list.items()) {
    TRY(const bool possible, add(name, schema));
    if (!possible) return false;
  }
  const auto additional = flat.find("additionalProperties");
  for (const std::string& name : needed) {
    if (list.contains(name)) continue;
    TRY(const bool possible, add(name, additional == flat.end() ? anything : *additional));
    if (!possible) return false;
  }
  return true;
}

Result<std::string> Writer::object(const Json& flat, const std::string& where) {
  const Deeper inside(level_);
  Members members;
  std::vector<std::string> names;
  const std::string s = space();
  const auto write = [&](const std::string& name, const Json& schema, const std::string& place) -> Element {
    TRY(const std::string element, value(schema, place));
    return element.empty() ? element
                           : fmt::format("{} {} \":\" {} {}", literal(dump_json(Json(name))), s, s, element);
  };
  TRY(const bool possible, named_members(flat, where, write, members.named, names));
  if (!possible) return std::string();
  TRY(members.other, other_members(flat, names, where));
  TRY(const auto least, count(flat, "minProperties", where, kMaxProperties));
  TRY(members.most, count(flat, "maxProperties", where, kMaxRepeat));
  const auto must =
      std::count_if(members.named.begin(), members.named.end(), [](const auto& m) { return m.required; });
  const auto known = static_cast<int64_t>(members.named.size());
  members.least = least.value_or(0) > must ? *least : 0;
  if (members.most && members.other.empty() && *members.most >= known) members.most.reset();
  if (members.most && *members.most > kMaxProperties)
    return unsupported(where, "maxProperties",
                       fmt::format("is above {}, which is not supported", kMaxProperties));
  // Other names may come twice, and then count once.
  if (members.least > 1 && !members.other.empty())
    return unsupported(where, "minProperties",
                       "above 1 is not supported where further properties are allowed");
  if ((members.most && *members.most < must) || (members.other.empty() && members.least > known))
    return std::string();
  const std::string rest = members_from(members, 0, 0, {});
  return rest.empty() ? rest : rules_.add("object", fmt::format("\"{{\" {} {}", s, rest));
}

// The rest of an object, of whose named members the first i are written or passed over, `count` in all
// written (counted as far as it matters).
std::string Writer::members_from(const Members& members, size_t i, int64_t count, MemberRules known) {
  if (!known) known = std::make_shared<std::map<std::pair<size_t, int64_t>, std::string>>();
  if (const auto it = known->find({i, count}); it != known->end()) return it->second;
  const std::string name = rules_.reserve("members"), s = space();
  known->emplace(std::pair(i, count), name);
  const int64_t cap = std::max<int64_t>({1, members.least, members.most.value_or(0)});
  const std::string before = count > 0 ? fmt::format("{0} \",\" {0} ", s) : "";
  const bool more = !members.most || count < *members.most;
  const int64_t next = std::min(count + 1, cap);
  std::vector<std::string> out;
  const auto follow = [&](const std::string& text, size_t to, int64_t written) {
    if (const auto rest = members_from(members, to, written, known); !rest.empty())
      out.push_back(fmt::format("{}{} {}", before, text, rest));
  };
  if (i < members.named.size()) {
    const auto& [text, required] = members.named[i];
    if (more) follow(text, i + 1, next);
    if (!required)
      if (const auto rest = members_from(members, i + 1, count, known); !rest.empty()) out.push_back(rest);
  } else {
    if (count >= members.least) out.push_back(count > 0 ? s + " \"}\"" : "\"}\"");
    if (more && !members.other.empty()) follow(members.other, i, next);
  }
  if (out.empty()) {  // too few members, or too many
    known->at({i, count}) = "";
    return "";
  }
  rules_.define(name, fmt::format("{}", fmt::join(out, " | ")));
  return name;
}

// The types that values of a schema may have, as far as it says.
Result<TypeSet> Writer::all_types(const Json& flat, const std::string& where, int depth) {
  TypeSet out{};
  if (!flat.is_object() || depth > kMaxFlattening) return out;
  bool any = false;
  for (const char* keyword : {"anyOf", "oneOf"})
    if (const auto it = flat.find(keyword); it != flat.end() && it->is_array())
      for (const Json& one : *it) {
        TRY(const Json inner, flatten(one, where));
        TRY(const TypeSet more, all_types(inner, where, depth + 1));
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
  return types(flat, where);
}

// A value between tags. A reader takes it for a string where only strings may stand (tool_schema.h).
Result<std::string> Writer::bare(const Json& schema, const std::string& where) {
  if (!finite(schema)) return std::string();
  TRY(const Json flat, flatten(schema, where));
  if (flat == false) return std::string();
  TRY(const TypeSet named, all_types(flat == true ? Json::object() : flat, where));
  return bare_flat(flat == true ? Json::object() : flat, where, named);
}

Result<std::string> Writer::bare_flat(const Json& flat, const std::string& where, const TypeSet& named) {
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, true, named);
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null()) return constants(flat, values, where, true);
  TRY(const TypeSet wanted, types(flat, where));
  const bool anything = std::all_of(wanted.begin(), wanted.end(), [](bool b) { return b; });
  if (!wanted[kString]) return value(flat, where);
  // What begins as another of the named types does would be read as one.
  std::string others;
  if (!anything) {
    if (named[kNumber] || named[kInteger]) others += "0-9\\-";
    if (named[kArray]) others += "\\[";
    if (named[kObject]) others += "{";
    if (!others.empty()) others += " \\n\\t\"";
  }
  const std::string free = add_automaton(text_without("</parameter"), StringForm::plain, "text", rules_);
  const std::string plain =
      others.empty() ? free : rules_.add("text", fmt::format("\"\" | [^<{}] {}", others, free));
  if (!others.empty())
    for (const KeywordOf& known : kKeywords)
      if (known.type == kString && flat.contains(known.keyword))
        return unsupported(where, known.keyword,
                           "is not supported where a bare value may be of another type, too");
  TRY(const std::string text, string(flat, where, StringForm::bare, plain));
  Json rest = flat;
  Json types = Json::array();
  for (int type = 0; type < kTypes; type++)
    if (wanted[type] && type != kString) types.push_back(kTypeNames[type]);
  if (types.empty() || anything) return text;
  rest["type"] = types;
  TRY(const std::string element, value(rest, where));
  if (text.empty() || element.empty()) return text + element;
  return rules_.add("value", fmt::format("{} | {}", text, element));
}

Result<std::string> Writer::parameters() {
  TRY_VOID(find_finite());
  TRY(const Json flat, flatten(root_, where_));
  if (flat == false) return nothing();
  const Json schema = flat == true ? Json::object() : flat;
  TRY_VOID(check_keywords(schema, where_));
  TRY(const TypeSet wanted, types(schema, where_));
  if (!wanted[kObject]) return invalid(where_, "type", "must be object: these are a function's parameters");
  for (const char* keyword :
       {"anyOf", "oneOf", "enum", "const", "patternProperties", "propertyNames", "minProperties"})
    if (schema.contains(keyword))
      return unsupported(where_, keyword,
                         "is not supported for the parameters of a call as this model writes it");
  std::vector<Member> members;
  std::vector<std::string> names;
  const auto write = [&](const std::string& name, const Json& one, const std::string& place) -> Element {
    if (name.find_first_of("<>\n") != name.npos)
      return unsupported(place, "properties", "has a name with <, > or a line end");
    TRY(const std::string element, bare(one, place));
    if (element.empty()) return element;
    return fmt::format("{} {} \"\\n</parameter>\\n\"", literal(fmt::format("<parameter={}>\n", name)),
                       element);
  };
  TRY(const bool possible, named_members(schema, where_, write, members, names));
  if (!possible) return nothing();
  std::string out = "\"\"";
  for (const Member& member : members)
    out += member.required ? " " + member.text : fmt::format(" ({})?", member.text);
  return rules_.add("parameters", out);
}

}  // namespace

Result<std::string> add_schema(const Json& schema, GrammarRules& rules, const std::string& where) {
  return Writer(schema, rules, where).whole();
}

std::string add_any_object(GrammarRules& rules) {
  return Writer(Json(true), rules, "#").any_object();
}

Result<std::string> add_parameters(const Json& schema, GrammarRules& rules, const std::string& where) {
  return Writer(schema, rules, where).parameters();
}

}  // namespace anabranch::text
