#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_grammar.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_scalars.h"
#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

bool is_name_of_parameter(std::string_view name) {
  return name.find_first_of("<>\n") == name.npos;
}

bool is_keyword(std::string_view name) {
  return !name.empty() && name.find_first_of(kEndsPythonName) == name.npos;
}

// Leaves out the parameters with names that cannot be written.
void leave_out_names(Json& schema, bool (*may_name)(std::string_view)) {
  const auto bad = [&](const std::string& name) { return !may_name(name); };
  std::vector<std::string> names;
  for (const auto& [name, value] : part_of(schema, "properties").items())
    if (bad(name)) names.push_back(name);
  for (const std::string& name : names) schema["properties"].erase(name);
  if (!part_of(schema, "required").is_array()) return;
  Json required = Json::array();
  for (const Json& name : schema["required"])
    if (!name.is_string() || !bad(name.get<std::string>())) required.push_back(name);
  schema["required"] = std::move(required);
}

}  // namespace

// Readers treat the text of a parameter as a string if the schema allows only strings (tool_schema.h). So
// bare_flat() needs all types that the whole schema names.
Result<std::string> SchemaWriter::bare(const Json& schema, const std::string& where) {
  if (!finite_.has_finite_value(schema)) return std::string();
  TRY(Json flat, document_.flatten(schema, where));
  if (flat == false) return std::string();
  if (flat == true) flat = Json::object();
  return kept(std::move(flat), [&](const Json& rest) -> Element {
    TRY(const TypeSet named, document_.named_types(rest, where));
    return bare_flat(rest, where, named);
  });
}

Result<std::string> SchemaWriter::bare_flat(const Json& flat, const std::string& where,
                                            const TypeSet& named) {
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return options(flat, keyword, where, true, named);
  TRY_VOID(check_keywords(flat, where));
  if (const Json values = enumerated(flat); !values.is_null()) {
    const BareText bare{named, tags_->tag};
    return add_constants(flat, values, where, &bare, rules_);
  }
  TRY(const TypeSet wanted, types_of(flat, where));
  const bool anything = std::all_of(wanted.begin(), wanted.end(), [](bool b) { return b; });
  if (!wanted[kString]) return value(flat, where);
  // A string must not begin like a value of another named type, because a reader would treat it as that type.
  std::string others;
  if (!anything) {
    if (named[kNumber] || named[kInteger]) others += "0-9\\-";
    if (named[kArray]) others += "\\[";
    if (named[kObject]) others += "{";
    if (!others.empty()) others += " \\n\\t\"";
  }
  TRY(const std::string free, text_to_tag(*tags_, rules_));
  const std::string plain =
      others.empty() ? free : rules_.add("text", fmt::format("\"\" | [^<{}] {}", others, free));
  if (!others.empty())
    for (const KeywordOf& known : kKeywords)
      if (known.type == kString && flat.contains(known.keyword))
        return unsupported_keyword(where, known.keyword,
                                   "is not supported where a bare value may be of another type, too");
  TRY(const std::string text, add_string(flat, where, StringSyntax::bare, plain, rules_));
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

Result<std::string> SchemaWriter::written_parameters(const std::function<Element(const Json&)>& write) {
  TRY_VOID(finite_.find(where_));
  TRY(Json flat, document_.flatten(document_.root(), where_));
  if (flat == false) return unsatisfiable(where_);
  if (flat == true) flat = Json::object();
  return concluded(kept(std::move(flat), write));
}

Result<std::string> SchemaWriter::parameters(const ParameterTags& tags) {
  tags_ = &tags;
  return written_parameters([&](const Json& rest) { return flat_parameters(rest); });
}

Result<std::string> SchemaWriter::keyword_arguments() {
  return written_parameters([&](const Json& rest) { return flat_keywords(rest); });
}

Result<std::vector<Member>> SchemaWriter::parameter_members(const Json& flat,
                                                            bool (*may_name)(std::string_view),
                                                            const WriteMember& write) {
  TRY(Json schema, with_listed_names(flat, where_));
  if (keep_ == Keep::possible) leave_out_names(schema, may_name);
  TRY_VOID(check_keywords(schema, where_));
  TRY(const TypeSet wanted, types_of(schema, where_));
  if (!wanted[kObject])
    return invalid_keyword(where_, "type", "must be object: these are a function's parameters");
  for (const char* keyword : {"anyOf", "oneOf", "enum", "const", "patternProperties", "propertyNames",
                              "minProperties", "maxProperties"})
    if (schema.contains(keyword))
      return unsupported_keyword(where_, keyword,
                                 "is not supported for the parameters of a call as this model writes it");
  std::vector<Member> members;
  std::vector<std::string> names;
  const auto named = [&](const std::string& name, const Json& one, const std::string& place) -> Element {
    if (!may_name(name))
      return unsupported_keyword(place, "properties", "has a name with a character that ends it in a call");
    return write(name, one, place);
  };
  TRY(const bool possible, named_members(schema, where_, named, members, names));
  if (!possible) return unsatisfiable(where_);
  return members;
}

// Whether the value can only be a string.
bool SchemaWriter::is_text(const Json& schema, const std::string& where) {
  const auto flat = document_.flatten(schema, where);
  if (!flat.ok() || !flat->is_object()) return false;
  const auto named = document_.named_types(*flat, where);
  if (!named.ok() || !(*named)[kString]) return false;
  return std::ranges::count(*named, true) == 1;
}

Result<std::string> SchemaWriter::flat_parameters(const Json& flat) {
  const auto write = [&](const std::string& name, const Json& one, const std::string& place) -> Element {
    TRY(const std::string element, bare(one, place));
    if (element.empty()) return element;
    const bool text = !tags_->text_end.empty() && is_text(one, place);
    return fmt::format("{} {} {} {} {}", tags_->open, literal(name), text ? tags_->text_end : tags_->name_end,
                       element, tags_->close);
  };
  TRY(const auto members, parameter_members(flat, is_name_of_parameter, write));
  std::string out = "\"\"";
  for (const Member& member : members)
    out += member.required ? " " + member.text : fmt::format(" ({})?", member.text);
  return rules_.add("parameters", out);
}

Result<std::string> SchemaWriter::flat_keywords(const Json& flat) {
  const auto write = [&](const std::string& name, const Json& one, const std::string& place) -> Element {
    TRY(const std::string element, value(one, place));
    return element.empty() ? element : fmt::format("{} {}", literal(name + "="), element);
  };
  Members members;
  TRY(members.named, parameter_members(flat, is_keyword, write));
  members.close = ")";
  return rules_.add("arguments", fmt::format("\"(\" {}", MembersWriter(members, rules_).add()));
}

}  // namespace anabranch
