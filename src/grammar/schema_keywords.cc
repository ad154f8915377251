#include "grammar/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace anabranch {
namespace {

// Keywords that no grammar can enforce. A keyword with its harmless value constrains nothing, and is
// accepted; null: there is no such value.
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
                                            {"dependencies", Json::object()}};
  return list;
}

}  // namespace

bool constrains_values(const std::string& key) {
  static const std::unordered_set<std::string> all = [] {
    std::unordered_set<std::string> out = {"type",
                                           "enum",
                                           "const",
                                           "anyOf",
                                           "oneOf",
                                           "allOf",
                                           "$ref",
                                           "additionalItems",
                                           "unevaluatedItems",
                                           "unevaluatedProperties"};
    for (const KeywordOf& known : kKeywords) out.insert(known.keyword);
    for (const Refused& known : refused_keywords()) out.insert(known.keyword);
    return out;
  }();
  return all.count(key) > 0;
}

Result<void> check_keywords(const Json& flat, const std::string& where) {
  for (const Refused& known : refused_keywords())
    if (const auto it = flat.find(known.keyword);
        it != flat.end() && (known.harmless.is_null() || *it != known.harmless) &&
        !(known.keyword == std::string_view("not") && leaves_out_integers(flat)))
      return unsupported_keyword(where, known.keyword, "is not supported: a grammar cannot keep it");
  return {};
}

bool leaves_out_integers(const Json& flat) {
  const auto it = flat.find("not");
  return it != flat.end() && *it == Json{{"type", "integer"}} && flat.contains("type") &&
         flat["type"] == "number" && !flat.contains("multipleOf");
}

Result<TypeSet> types_of(const Json& flat, const std::string& where) {
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
      return invalid_keyword(where, "type", fmt::format("is {}, which is no type", dump_json(name)));
    out[at - std::begin(kTypeNames)] = true;
  }
  return out;
}

Result<std::optional<double>> number_keyword(const Json& flat, const char* keyword,
                                             const std::string& where) {
  const auto it = flat.find(keyword);
  if (it == flat.end()) return std::optional<double>();
  if (!it->is_number()) return invalid_keyword(where, keyword, "must be a number");
  return std::optional(it->get<double>());
}

Result<std::optional<int64_t>> count_keyword(const Json& flat, const char* keyword, const std::string& where,
                                             int64_t most) {
  TRY(const auto n, number_keyword(flat, keyword, where));
  if (!n) return std::optional<int64_t>();
  if (*n < 0 || *n != std::floor(*n))
    return invalid_keyword(where, keyword, "must be a whole number from 0 on");
  if (*n > static_cast<double>(most) && std::string_view(keyword).substr(0, 3) == "min")
    return unsupported_keyword(where, keyword, fmt::format("is above {}, which is not supported", most));
  return std::optional(static_cast<int64_t>(std::min(*n, 1e15)));
}

std::string step_of(const std::string& where, std::string_view key) {
  std::string out = where + "/";
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string step_of(const std::string& where, const char* key, size_t index) {
  return fmt::format("{}/{}/{}", where, key, index);
}

Error unsatisfiable(const std::string& where) {
  return make_error(ErrorKind::invalid, "no value satisfies the schema at {}", where);
}

Error schema_too_large(const std::string& where) {
  return make_error(ErrorKind::exhausted, "the schema is too large or too deep at {}", where);
}

Error invalid_keyword(const std::string& where, const char* keyword, std::string_view what) {
  return {ErrorKind::invalid, fmt::format("'{}' at {} {}", keyword, where, what), keyword};
}

Error unsupported_keyword(const std::string& where, const char* keyword, std::string_view what) {
  return {ErrorKind::unsupported, fmt::format("'{}' at {} {}", keyword, where, what), keyword};
}

Error unsupported_together(const std::string& where, const std::string& keyword, std::string_view what) {
  return {ErrorKind::unsupported, fmt::format("{}: {} not supported", where, what), keyword};
}

bool is_of_keyword(const Error& error) {
  return !error.field.empty();
}

Error error_at(const Error& error, const char* keyword, const std::string& where) {
  return Error{error.kind, fmt::format("'{}' at {}: {}", keyword, where, error.message), keyword};
}

Result<Automaton> placed(Result<Automaton> made, const char* keyword, const std::string& where) {
  if (made.ok()) return made;
  return error_at(made.error(), keyword, where);
}

}  // namespace anabranch
