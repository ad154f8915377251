// The machinery of schema_grammar.h, in three files: schema_grammar.cc (references, alternatives, constants),
// schema_values.cc (numbers, strings, arrays) and schema_members.cc (objects, and parameters of calls).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar_rules.h"
#include "grammar/number_grammar.h"

namespace anabranch {

constexpr int64_t kMaxRepeat = 100000, kMaxLeast = 1000;  // counts in schemas
constexpr int kMaxFlattening = 16;                        // references and allOf in one another

enum SchemaType { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject, kTypes };
inline constexpr const char* kTypeNames[] = {"null",   "boolean", "integer", "number",
                                             "string", "array",   "object"};
using TypeSet = std::array<bool, kTypes>;

struct KeywordOf {
  const char* keyword;
  SchemaType type;
};
// What says something about values of one type.
inline constexpr KeywordOf kKeywords[] = {{"minimum", kNumber},
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

inline std::string step_of(const std::string& where, std::string_view key) {
  std::string out = where + "/";
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}
inline std::string step_of(const std::string& where, const char* key, size_t index) {
  return fmt::format("{}/{}/{}", where, key, index);
}

// One schema on its way into rules.
class SchemaWriter {
 public:
  SchemaWriter(const Json& root, GrammarRules& rules, const std::string& where)
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
  Error too_large(const std::string& where) const {
    return make_error(ErrorKind::exhausted, "the schema is too large or too deep at {}", where);
  }
  Error invalid(const std::string& where, const char* keyword, std::string_view what) const {
    return make_error(ErrorKind::invalid, "'{}' at {} {}", keyword, where, what);
  }
  Error unsupported(const std::string& where, const char* keyword, std::string_view what) const {
    return make_error(ErrorKind::unsupported, "'{}' at {} {}", keyword, where, what);
  }

  // Says where an automaton was asked for, if it could not be made.
  static Result<Automaton> placed(Result<Automaton> made, const char* keyword, const std::string& where) {
    if (made.ok()) return made;
    return make_error(made.error().kind, "'{}' at {}: {}", keyword, where, made.error().message);
  }

  Result<const Json*> target(const Json& ref, const std::string& where) const;
  Result<Json> flatten(const Json& schema, const std::string& where, int depth = 0);
  Result<void> find_finite();
  bool finite(const Json& schema, int depth = 0) const;
  bool members_finite(const Json& schema, int depth) const;
  bool items_finite(const Json& schema, int depth) const;

  Element value(const Json& schema, const std::string& where);
  Element reference(const Json& ref, const std::string& where);
  Result<void> check_apart(const std::vector<Json>& others, const Json& schema, const std::string& where);
  Element options(Json flat, const char* keyword, const std::string& where, bool bare, const TypeSet& named);
  static bool misread(std::string_view text, const TypeSet& types);
  Element constants(const Json& flat, const Json& values, const std::string& where, const TypeSet* bare);
  Result<bool> admits(const Json& flat, const Json& value, const std::string& where) const;
  Result<TypeSet> types(const Json& flat, const std::string& where) const;
  Result<void> check_keywords(const Json& flat, const std::string& where) const;
  Element of_type(SchemaType type, const Json& flat, const std::string& where);
  Element integer(const Json& flat, const std::string& where);
  Element number(const Json& flat, const std::string& where);
  Element string(const Json& flat, const std::string& where, StringForm form, const std::string& plain);
  Element long_string(int64_t least, int64_t most, const std::string& where, StringForm form);
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
  Element digits(const std::string& regex, const char* hint, const std::string& where);

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

}  // namespace anabranch
