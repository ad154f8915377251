#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_merge.h"
#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

constexpr int64_t kMaxProperties = 64;  // that are counted
// Of one object, since their rules are written by recursion; and of all their copies.
constexpr size_t kMaxMembers = 500, kMaxMemberBytes = 4u << 20;

}  // namespace

// What a schema says of an object's members.
struct SchemaWriter::Members {
  std::vector<Member> named;
  std::string other;  // a pair with any other name; "": there are none
  int64_t least = 0;
  std::optional<int64_t> most;
};

// "" for "none can be": then the object cannot be either, if the member must.
Result<std::string> SchemaWriter::other_members(const Json& flat, const std::vector<std::string>& names,
                                                const std::string& where) {
  const auto additional = flat.find("additionalProperties"), patterns = flat.find("patternProperties");
  const auto key_schema = flat.find("propertyNames");
  if (patterns != flat.end() && !patterns->is_object())
    return invalid(where, "patternProperties", "is no object");
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
    TRY(const Automaton automaton,
        placed(compile_regex(patterns->begin().key(), rules_.work()), "patternProperties", where));
    key = add_automaton(automaton, StringForm::quoted, "key", rules_);
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
      if (keys == true) keys = Json::object();
      const std::string place = step_of(where, "propertyNames");
      TRY(keys, merge_schemas(std::move(keys), {{"type", "string"}}, place, rules_.work()));
      if (keys == false) return std::string();
      TRY(key, value(keys, place));
    } else {
      TRY(const Automaton others, placed(text_except(names, rules_.work()), "additionalProperties", where));
      key = add_automaton(others, StringForm::quoted, "key", rules_);
    }
  }
  if (element.empty() || key.empty()) return std::string();
  const std::string s = space();
  return rules_.add("member", fmt::format("{} {} \":\" {} {}", key, s, s, element));
}

// How each named member is written: a function, since calls write them differently.
template <class Write>
Result<bool> SchemaWriter::named_members(const Json& flat, const std::string& where, const Write& write,
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
  const std::set<std::string> known(names.begin(), names.end());
  for (const std::string& name : needed) {
    if (known.count(name) > 0) continue;
    TRY(const bool possible, add(name, additional == flat.end() ? anything : *additional));
    if (!possible) return false;
  }
  return true;
}

Result<std::string> SchemaWriter::object(const Json& flat, const std::string& where) {
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
  if (names.size() > kMaxMembers) return too_large(where);
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
  size_t bytes = 0;
  for (const Member& member : members.named) bytes += member.text.size();
  const auto copies =
      static_cast<size_t>(std::max<int64_t>({1, members.least, members.most.value_or(0)}) + 1);
  if (bytes > kMaxMemberBytes / copies) return too_large(where);
  const std::string rest = members_from(members, 0, 0, {});
  return rest.empty() ? rest : rules_.add("object", fmt::format("\"{{\" {} {}", s, rest));
}

// The rest of an object, of whose named members the first i are written or passed over, `count` in all
// written (counted as far as it matters).
std::string SchemaWriter::members_from(const Members& members, size_t i, int64_t count, MemberRules known) {
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
Result<TypeSet> SchemaWriter::all_types(const Json& flat, const std::string& where, int depth) {
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

Result<std::string> text_to_tag(GrammarRules& rules) {
  const std::string key = "text to </parameter";
  if (const std::string* known = rules.find(key)) return *known;
  TRY(const Automaton text, text_without("</parameter", rules.work()));
  const std::string element = add_automaton(text, StringForm::plain, "text", rules);
  rules.remember(key, element);
  return element;
}

// A value between tags. A reader takes it for a string where only strings may stand (tool_schema.h).
Result<std::string> SchemaWriter::bare(const Json& schema, const std::string& where) {
  if (!finite(schema)) return std::string();
  TRY(const Json flat, flatten(schema, where));
  if (flat == false) return std::string();
  TRY(const TypeSet named, all_types(flat == true ? Json::object() : flat, where));
  return bare_flat(flat == true ? Json::object() : flat, where, named);
}

Result<std::string> SchemaWriter::bare_flat(const Json& flat, const std::string& where,
                                            const TypeSet& named) {
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, true, named);
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null()) return constants(flat, values, where, &named);
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
  TRY(const std::string free, text_to_tag(rules_));
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

Result<std::string> SchemaWriter::parameters() {
  TRY_VOID(find_finite());
  TRY(const Json flat, flatten(root_, where_));
  if (flat == false) return nothing();
  const Json schema = flat == true ? Json::object() : flat;
  TRY_VOID(check_keywords(schema, where_));
  TRY(const TypeSet wanted, types(schema, where_));
  if (!wanted[kObject]) return invalid(where_, "type", "must be object: these are a function's parameters");
  for (const char* keyword : {"anyOf", "oneOf", "enum", "const", "patternProperties", "propertyNames",
                              "minProperties", "maxProperties"})
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

}  // namespace anabranch
