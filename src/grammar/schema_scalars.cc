#include "grammar/schema_scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/white_space.h"
#include "grammar/number_grammar.h"
#include "grammar/schema_merge.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr size_t kMaxEnum = 5000;

// The formats that are enforced. All others are annotations, as in JSON Schema.
struct Format {
  const char *name, *pattern;
};
// The last alternative: the 29th of February.
#define DATE                                                                                         \
  "([1-2][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(" \
  "0[1-9]|1[0-9]|2[0-8]))|([12][0-9](0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,14}[A-Za-z0-9])?"
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
    {"email", "^[A-Za-z0-9_+-]{1,16}(\\.[A-Za-z0-9_+-]{1,16})?@" LABEL "(\\." LABEL "){1,2}$"},
    {"hostname", "^" LABEL "(\\." LABEL "){0,2}$"},
    {"ipv4", "^(" BYTE "\\.){3}" BYTE "$"},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
    {"uri", "^[a-z][a-z0-9+.-]{0,15}://" LABEL "(\\." LABEL "){0,2}(:[1-9][0-9]{0,3})?(/" URI_CHAR
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

size_t length_of(std::string_view text) {  // in code points
  size_t count = 0;
  for (size_t i = 0; i < text.size(); count++) i += static_cast<size_t>(decode_utf8(text, i).length);
  return count;
}

// Numbers that match `regex`, one of our own expressions, and are multiples of `step` if there is one.
Result<std::string> digits(const std::string& regex, std::optional<double> step, const char* hint,
                           const std::string& where, GrammarRules& rules) {
  const std::string key = fmt::format("digits {} {}", step.value_or(0), regex);
  if (const std::string* known = rules.find(key)) return *known;
  TRY(Automaton automaton, placed(compile_regex(regex, rules.work(), true), hint, where));
  if (step) {
    TRY(const Automaton multiples, placed(multiples_of(*step, rules.work()), "multipleOf", where));
    if (multiples.states.empty())
      return unsupported_keyword(where, "multipleOf", "is supported for numbers with at most three digits");
    TRY(automaton, placed(intersection(automaton, multiples, rules.work()), "multipleOf", where));
  }
  const std::string element = add_automaton(automaton, StringSyntax::bare, hint, rules);
  rules.remember(key, element);
  return element;
}

// nullopt: there is none, or it is `none`.
Result<std::optional<double>> step_keyword(const Json& flat, double none, const std::string& where) {
  TRY(const auto step, number_keyword(flat, "multipleOf", where));
  if (step && !(*step > 0)) return invalid_keyword(where, "multipleOf", "must be above 0");
  return step == none ? std::nullopt : step;
}

// What the keywords say of a string, but for its length.
struct StringLimits {
  Json patterns = Json::array();
  const char* format = nullptr;  // the pattern of the format; null: there is none that is enforced
};

Result<StringLimits> limits_of(const Json& flat, const std::string& where) {
  StringLimits out;
  if (const auto format = flat.find("format"); format != flat.end() && format->is_string())
    out.format = format_pattern(format->get<std::string>());
  if (const auto pattern = flat.find("pattern"); pattern != flat.end())
    out.patterns = pattern->is_array() ? *pattern : Json::array({*pattern});
  for (const Json& pattern : out.patterns)
    if (!pattern.is_string()) return invalid_keyword(where, "pattern", "is no string");
  return out;
}

// The texts of all patterns, of those that `within` accepts (null: of all).
Result<Automaton> matching_all(const Json& patterns, const Automaton* within, const std::string& where,
                               WorkBudget& work) {
  Automaton out = within ? *within : any_text();
  for (const Json& pattern : patterns) {
    const bool first = !within && &pattern == &patterns.front();
    const auto& text = pattern.get_ref<const std::string&>();
    TRY(out, placed(compile_regex(text, work, false, first ? nullptr : &out), "pattern", where));
  }
  return out;
}

// A format is only a note beside a pattern or a length if no text of those has the syntax in which we write
// it.
Result<std::string> add_limited(const StringLimits& limits, const LengthBounds& bounds,
                                const std::string& where, StringSyntax syntax, GrammarRules& rules) {
  if (limits.format) {
    const auto with_format = [&]() -> Result<std::string> {
      TRY(const Automaton format, compile_regex(limits.format, rules.work()));
      TRY(const Automaton both, matching_all(limits.patterns, &format, where, rules.work()));
      return add_bounded(both, bounds, syntax, "string", rules);
    };
    auto both = with_format();
    const bool alone = limits.patterns.empty() && bounds.least == 0 && !bounds.most;
    if (alone || (both.ok() && !both->empty())) return both;
  }
  auto out = Result<std::string>(std::string());
  if (limits.patterns.size() == 1) {
    const auto& pattern = limits.patterns[0].get_ref<const std::string&>();
    out = add_regex(pattern, false, bounds, syntax, "string", rules);
    if (!out.ok() && out.error().kind != ErrorKind::exhausted) return error_at(out.error(), "pattern", where);
  } else {
    TRY(const Automaton matching, matching_all(limits.patterns, nullptr, where, rules.work()));
    out = add_bounded(matching, bounds, syntax, "string", rules);
  }
  const char* keyword = bounds.most ? "maxLength" : bounds.least > 0 ? "minLength" : "pattern";
  return out.ok() ? out : error_at(out.error(), keyword, where);
}

// Whether a constant satisfies the other keywords of its schema. matching: the texts of its patterns. A
// format is only a note here.
Result<bool> admits(const Json& flat, const Json& value, const Automaton& matching,
                    const std::string& where) {
  TRY(const TypeSet wanted, types_of(flat, where));
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
    if (keyword == "format") continue;
    if (keyword == "pattern") {
      if (!accepts_text(matching, value.get_ref<const std::string&>())) return false;
      continue;
    }
    const Json& limit = flat[known.keyword];
    if (!limit.is_number() || wide > kString || keyword == "multipleOf")
      return unsupported_keyword(where, known.keyword, "is not supported beside 'enum' or 'const'");
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

// Whether a reader would interpret the text of a string as a value of another type, one of `types`.
bool misread(std::string_view text, const TypeSet& types) {
  const auto spelled = literal_json(text);
  // Readers are lenient with objects and lists.
  if (!spelled) return (types[kArray] && text.starts_with('[')) || (types[kObject] && text.starts_with('{'));
  const Json value = parse_json(*spelled).value();
  return value.is_number()    ? types[kNumber] || types[kInteger]
         : value.is_boolean() ? types[kBoolean]
         : value.is_null()    ? types[kNull]
         : value.is_array()   ? types[kArray]
                              : value.is_object() && types[kObject];
}

}  // namespace

Result<std::string> add_integer(const Json& flat, const std::string& where, GrammarRules& rules) {
  constexpr double kFar = 1e18;
  TRY(const auto minimum, number_keyword(flat, "minimum", where));
  TRY(const auto above, number_keyword(flat, "exclusiveMinimum", where));
  TRY(const auto maximum, number_keyword(flat, "maximum", where));
  TRY(const auto below, number_keyword(flat, "exclusiveMaximum", where));
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
  TRY(const auto step, step_keyword(flat, 1, where));
  constexpr int64_t kMostMultiples = 2000;
  const bool listed = step && *step > 1 && *step == std::floor(*step) && *step <= 1e15 && bounds.least &&
                      bounds.most && (*bounds.most - *bounds.least) / *step <= kMostMultiples;
  if (!listed) {
    const std::string regex = integer_regex(bounds);
    return regex.empty() ? regex : digits(regex, step, "integer", where, rules);
  }
  constexpr size_t kWriting = 50;  // steps of work for each number
  const auto n = static_cast<int64_t>(*step);
  if (*bounds.most < *bounds.least) return std::string();
  if (!rules.work().spend(kWriting * static_cast<size_t>((*bounds.most - *bounds.least) / n + 1)))
    return schema_too_large(where);
  std::string out;
  int64_t at = *bounds.least / n * n;
  if (at < *bounds.least) at += n;
  for (; at <= *bounds.most; at += n) out += (out.empty() ? "" : " | ") + literal(fmt::format("{}", at));
  return out.empty() ? out : rules.add("integer", out);
}

Result<std::string> add_number(const Json& flat, const std::string& where, GrammarRules& rules) {
  TRY(const auto step, step_keyword(flat, 0, where));
  if (step && *step == std::floor(*step)) return add_integer(flat, where, rules);
  TRY(const auto minimum, number_keyword(flat, "minimum", where));
  TRY(const auto above, number_keyword(flat, "exclusiveMinimum", where));
  TRY(const auto maximum, number_keyword(flat, "maximum", where));
  TRY(const auto below, number_keyword(flat, "exclusiveMaximum", where));
  NumberBounds bounds{minimum, maximum};
  if (above && (!minimum || *above >= *minimum)) bounds.least = above, bounds.above = true;
  if (below && (!maximum || *below <= *maximum)) bounds.most = below, bounds.below = true;
  const auto regex = number_regex(bounds);
  if (!regex.ok()) return unsupported_keyword(where, "minimum", "or its like: " + regex.error().message);
  if (!leaves_out_integers(flat)) return digits(*regex, step, "number", where, rules);
  WorkBudget own;  // the same work for every grammar, so it is not charged
  const Automaton fractions = *compile_regex("-?[0-9]+\\.[0-9]*[1-9]", own, true);
  TRY(const Automaton numbers, placed(compile_regex(*regex, rules.work(), true), "minimum", where));
  TRY(const Automaton rest, placed(intersection(numbers, fractions, rules.work()), "not", where));
  return add_automaton(rest, StringSyntax::bare, "number", rules);
}

Result<std::string> add_string(const Json& flat, const std::string& where, StringSyntax syntax,
                               const std::string& plain, GrammarRules& rules) {
  TRY(const auto shortest, count_keyword(flat, "minLength", where, kMaxLeast));
  TRY(const auto longest, count_keyword(flat, "maxLength", where, kMaxRepeat));
  const int64_t least = shortest.value_or(0);
  if (longest && *longest < least) return std::string();
  TRY(const StringLimits limits, limits_of(flat, where));
  const bool free = limits.patterns.empty() && !limits.format;
  if (free && least == 0 && !longest) return plain;
  const std::string key =
      fmt::format("string {} {} {} {} {}", static_cast<int>(syntax), least, longest.value_or(-1),
                  limits.format ? limits.format : "", dump_json(limits.patterns));
  if (const std::string* known = rules.find(key)) return *known;
  const LengthBounds bounds{static_cast<size_t>(least),
                            longest ? std::optional<size_t>(*longest) : std::nullopt};
  TRY(const std::string element, add_limited(limits, bounds, where, syntax, rules));
  rules.remember(key, element);
  return element;
}

Result<std::string> add_constants(const Json& flat, const Json& values, const std::string& where,
                                  const BareText* bare, GrammarRules& rules) {
  if (!values.is_array()) return invalid_keyword(where, "enum", "is no array");
  if (values.size() > kMaxEnum)
    return unsupported_keyword(where, "enum", fmt::format("has more than {} values", kMaxEnum));
  TRY(const StringLimits limits, limits_of(flat, where));
  TRY(const Automaton matching, matching_all(limits.patterns, nullptr, where, rules.work()));
  std::string out;
  for (const Json& one : values) {
    TRY(const bool good, admits(flat, one, matching, where));
    if (!good) continue;
    std::string text = dump_json(one);
    if (bare && one.is_string()) {
      text = one.get<std::string>();
      if (text.find(bare->tag) != text.npos || text != trimmed(text) || misread(text, bare->types))
        return unsupported_keyword(where, "enum", "has a value that cannot be written between tags");
    }
    out += (out.empty() ? "" : " | ") + literal(text);
  }
  return out.empty() ? out : rules.add("constant", out);
}

}  // namespace anabranch
