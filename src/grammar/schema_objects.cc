#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "grammar/json_rules.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

constexpr int64_t kMaxProperties = 64;  // of minProperties and maxProperties
// Rules of members are written by recursion, so their number is limited, as is the text of all their copies.
constexpr size_t kMaxMembers = 500, kMaxMemberBytes = 4u << 20;

}  // namespace

// The properties of an object whose names an enum lists, as in a record of an enum: each name is a property.
Result<Json> SchemaWriter::with_listed_names(const Json& flat, const std::string& where) {
  const auto names = flat.find("propertyNames");
  if (names == flat.end()) return flat;
  TRY(const Json keys, document_.flatten(*names, step_of(where, "propertyNames")));
  Json out = flat;
  if (keys == true || keys == Json::object() || keys == Json{{"type", "string"}}) out.erase("propertyNames");
  const Json values = keys.is_object() ? enumerated(keys) : Json();
  if (!values.is_array() || flat.contains("patternProperties")) return out;
  const Json rest = flat.value("additionalProperties", Json(true)), &known = part_of(flat, "properties");
  if (!rules_.work().spend(values.size() * (copying_steps(rest) + known.size())))
    return schema_too_large(where);
  Json properties = Json::object();
  for (const Json& value : values) {
    if (!value.is_string()) continue;
    const auto& name = value.get_ref<const std::string&>();
    const auto it = known.find(name);
    properties[name] = it == known.end() ? rest : *it;
  }
  out["properties"] = std::move(properties);
  out["additionalProperties"] = false;
  out.erase("propertyNames");
  return out;
}

Result<std::string> SchemaWriter::other_member(const Json& flat, const std::vector<std::string>& names,
                                               const std::string& where) {
  const auto additional = flat.find("additionalProperties"), patterns = flat.find("patternProperties");
  const auto key_schema = flat.find("propertyNames");
  if (patterns != flat.end() && !patterns->is_object())
    return invalid_keyword(where, "patternProperties", "is no object");
  const bool has_patterns = patterns != flat.end() && !patterns->empty();
  if (has_patterns && (patterns->size() > 1 || key_schema != flat.end() ||
                       (additional != flat.end() && *additional != false)))
    return unsupported_keyword(
        where, "patternProperties",
        "is supported with one pattern only, and without propertyNames and additionalProperties beside it");
  if (key_schema != flat.end() && *key_schema != true && !names.empty())
    return unsupported_keyword(where, "propertyNames", "is not supported beside 'properties' or 'required'");
  std::string key, element;
  if (has_patterns) {
    TRY(Automaton automaton,
        placed(compile_regex(patterns->begin().key(), rules_.work()), "patternProperties", where));
    TRY(const Automaton others, placed(text_except(names, rules_.work()), "patternProperties", where));
    TRY(automaton, placed(intersection(automaton, others, rules_.work()), "patternProperties", where));
    key = add_automaton(automaton, StringSyntax::quoted, "key", rules_);
    TRY(element, value(patterns->front(), step_of(where, "patternProperties")));
  } else {
    const bool open =
        additional == flat.end() ? !flat.contains("properties") && names.empty() : *additional != false;
    if (!open) return std::string();
    TRY(element,
        value(additional == flat.end() ? Json(true) : *additional, step_of(where, "additionalProperties")));
    if (key_schema != flat.end() && *key_schema != true) {
      TRY(Json keys, document_.flatten(*key_schema, step_of(where, "propertyNames")));
      if (keys == false) return std::string();
      if (keys == true) keys = Json::object();
      const std::string place = step_of(where, "propertyNames");
      TRY(keys, merge_schemas(std::move(keys), {{"type", "string"}}, place, rules_.work()));
      if (keys == false) return std::string();
      TRY(key, value(keys, place));
    } else {
      TRY(const Automaton others, placed(text_except(names, rules_.work()), "additionalProperties", where));
      key = add_automaton(others, StringSyntax::quoted, "key", rules_);
    }
  }
  if (element.empty() || key.empty()) return std::string();
  const std::string s = add_space(rules_);
  return rules_.add("member", fmt::format("{} {} \":\" {} {}", key, s, s, element));
}

// The patterns of names with their schemas.
Result<std::vector<std::pair<Automaton, const Json*>>> SchemaWriter::patterns_of(const Json& flat,
                                                                                 const std::string& where) {
  std::vector<std::pair<Automaton, const Json*>> out;
  const Json& patterns = part_of(flat, "patternProperties");
  if (!patterns.is_object()) return out;
  for (const auto& [pattern, schema] : patterns.items()) {
    TRY(Automaton automaton, placed(compile_regex(pattern, rules_.work()), "patternProperties", where));
    out.emplace_back(std::move(automaton), &schema);
  }
  return out;
}

Result<bool> SchemaWriter::named_members(const Json& flat, const std::string& where, const WriteMember& write,
                                         std::vector<Member>& out, std::vector<std::string>& names) {
  static const Json none = Json::object(), nobody = Json::array(), anything = true;
  const auto properties = flat.find("properties"), required = flat.find("required");
  const Json& list = properties == flat.end() ? none : *properties;
  const Json& wanted = required == flat.end() ? nobody : *required;
  if (!list.is_object()) return invalid_keyword(where, "properties", "is no object");
  if (!wanted.is_array()) return invalid_keyword(where, "required", "is no array");
  std::set<std::string> needed;
  for (const Json& name : wanted) {
    if (!name.is_string()) return invalid_keyword(where, "required", "has a name that is no string");
    needed.insert(name.get<std::string>());
  }
  TRY(const auto patterns, patterns_of(flat, where));
  const auto add = [&](const std::string& name, const Json& schema) -> Result<bool> {
    const bool must = needed.count(name) > 0;
    Json all = Json::array({schema});  // what holds for this property
    for (const auto& [automaton, other] : patterns)
      if (accepts_text(automaton, name)) all.push_back(*other);
    const Json both = all.size() > 1 ? Json{{"allOf", all}} : Json();
    TRY(const std::string text,
        write(name, both.is_null() ? schema : both, step_of(where + "/properties", name)));
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
  const std::set<std::string> known(names.begin(), names.end());
  for (const std::string& name : needed) {
    if (known.count(name) > 0) continue;
    const bool matched = std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
      return accepts_text(pattern.first, name);
    });  // then additionalProperties does not apply
    TRY(const bool possible, add(name, additional == flat.end() || matched ? anything : *additional));
    if (!possible) return false;
  }
  return true;
}

Result<std::string> SchemaWriter::object(const Json& given, const std::string& where) {
  const Deeper inside(level_);
  TRY(const Json flat, with_listed_names(given, where));
  Members members;
  std::vector<std::string> names;
  const std::string s = add_space(rules_);
  const auto write = [&](const std::string& name, const Json& schema, const std::string& place) -> Element {
    TRY(const std::string element, value(schema, place));
    return element.empty() ? element
                           : fmt::format("{} {} \":\" {} {}", literal(dump_json(Json(name))), s, s, element);
  };
  TRY(const bool possible, named_members(flat, where, write, members.named, names));
  if (!possible) return std::string();
  if (names.size() > kMaxMembers) return schema_too_large(where);
  TRY(members.other, other_member(flat, names, where));
  TRY(const auto least, count_keyword(flat, "minProperties", where, kMaxProperties));
  TRY(members.most, count_keyword(flat, "maxProperties", where, kMaxRepeat));
  const auto must =
      std::count_if(members.named.begin(), members.named.end(), [](const auto& m) { return m.required; });
  const auto known = static_cast<int64_t>(members.named.size());
  members.least = least.value_or(0) > must ? *least : 0;
  if (members.most && members.other.empty() && *members.most >= known) members.most.reset();
  if (members.most && *members.most > kMaxProperties)
    return unsupported_keyword(where, "maxProperties",
                               fmt::format("is above {}, which is not supported", kMaxProperties));
  // The model may write another name twice; such members would count as one.
  if (members.least > 1 && !members.other.empty())
    return unsupported_keyword(where, "minProperties",
                               "above 1 is not supported where further properties are allowed");
  if ((members.most && *members.most < must) || (members.other.empty() && members.least > known))
    return std::string();
  size_t bytes = 0;
  for (const Member& member : members.named) bytes += member.text.size();
  const auto copies =
      static_cast<size_t>(std::max<int64_t>({1, members.least, members.most.value_or(0)}) + 1);
  if (bytes > kMaxMemberBytes / copies) return schema_too_large(where);
  const std::string rest = MembersWriter(members, rules_).add();
  return rest.empty() ? rest : rules_.add("object", fmt::format("\"{{\" {} {}", s, rest));
}

}  // namespace anabranch
