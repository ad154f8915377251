#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

constexpr int64_t kCounted = 24;  // the longest string that states count; a budget counts longer ones

// Formats of strings that are kept; others are notes to the reader, as JSON Schema has it.
struct Format {
  const char *name, *pattern;
};
#define DATE                                                                                        \
  "[1-2][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(" \
  "0[1-9]|1[0-9]|2[0-8]))"
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

}  // namespace

Result<std::optional<double>> SchemaWriter::bound(const Json& flat, const char* keyword,
                                                  const std::string& where) const {
  const auto it = flat.find(keyword);
  if (it == flat.end()) return std::optional<double>();
  if (!it->is_number()) return invalid(where, keyword, "must be a number");
  return std::optional(it->get<double>());
}

Result<std::optional<int64_t>> SchemaWriter::count(const Json& flat, const char* keyword,
                                                   const std::string& where, int64_t most) const {
  TRY(const auto n, bound(flat, keyword, where));
  if (!n) return std::optional<int64_t>();
  if (*n < 0 || *n != std::floor(*n)) return invalid(where, keyword, "must be a whole number from 0 on");
  if (*n > static_cast<double>(most) && std::string_view(keyword).substr(0, 3) == "min")
    return unsupported(where, keyword, fmt::format("is above {}, which is not supported", most));
  return std::optional(static_cast<int64_t>(std::min(*n, 1e15)));
}

// Numbers, by a regular expression that is ours.
Result<std::string> SchemaWriter::digits(const std::string& regex, const char* hint,
                                         const std::string& where) {
  const std::string key = "digits " + regex;
  if (const std::string* known = rules_.find(key)) return *known;
  TRY(const Automaton automaton, placed(compile_regex(regex, rules_.work(), true), hint, where));
  const std::string element = add_automaton(automaton, StringForm::bare, hint, rules_);
  rules_.remember(key, element);
  return element;
}

Result<std::string> SchemaWriter::integer(const Json& flat, const std::string& where) {
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
      constexpr size_t kWriting = 50;  // steps for a number
      if (*bounds.most < *bounds.least) return std::string();
      if (!rules_.work().spend(kWriting * static_cast<size_t>((*bounds.most - *bounds.least) / n + 1)))
        return too_large(where);
      std::string out;
      int64_t at = *bounds.least / n * n;
      if (at < *bounds.least) at += n;
      for (; at <= *bounds.most; at += n) out += (out.empty() ? "" : " | ") + literal(fmt::format("{}", at));
      return out.empty() ? out : rules_.add("integer", out);
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
                  "integer", where);
  }
  const std::string regex = integer_regex(bounds);
  return regex.empty() ? regex : digits(regex, "integer", where);
}

Result<std::string> SchemaWriter::number(const Json& flat, const std::string& where) {
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
  return digits(*regex, "number", where);
}

// plain: what a string without limits is.
Result<std::string> SchemaWriter::string(const Json& flat, const std::string& where, StringForm form,
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
  const std::string regex = free ? "" : kept ? kept : pattern->get<std::string>();
  const std::string key =
      fmt::format("string {} {} {} {} {}", static_cast<int>(form), least, longest.value_or(-1), free, regex);
  if (const std::string* known = rules_.find(key)) return *known;
  std::string element;
  if (free && longest && *longest > kCounted) {
    TRY(element, long_string(least, *longest, where, form));
  } else {
    Automaton automaton = any_text();
    if (!free) {
      TRY(automaton, placed(compile_regex(regex, rules_.work()), "pattern", where));
    }
    if (least > 0 || longest) {
      const auto most = longest ? std::optional<size_t>(*longest) : std::nullopt;
      TRY(automaton, placed(with_length(automaton, static_cast<size_t>(least), most, rules_.work()),
                            longest ? "maxLength" : "minLength", where));
    }
    element = add_automaton(automaton, form, "string", rules_);
  }
  rules_.remember(key, element);
  return element;
}

// Without a pattern. A budget counts characters as they are written: an escape is never less than what it
// stands for.
Result<std::string> SchemaWriter::long_string(int64_t least, int64_t most, const std::string& where,
                                              StringForm form) {
  const auto low = static_cast<size_t>(least);
  TRY(const Automaton begin, placed(with_length(any_text(), low, low, rules_.work()), "minLength", where));
  const std::string quote = form == StringForm::quoted ? "\"\\\"\"" : "\"\"";
  const StringForm part = form == StringForm::quoted ? StringForm::inside : form;
  const std::string some = least == 0 ? "\"\"" : add_automaton(begin, part, "begin", rules_);
  const std::string rest = rules_.add("rest", add_automaton(any_text(), part, "any_text", rules_),
                                      fmt::format("max_chars={}", most - least));
  return rules_.add("string", fmt::format("{0} {1} {2} {0}", quote, some, rest));
}

Result<std::string> SchemaWriter::array(const Json& flat, const std::string& where) {
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
  if (prefix != flat.end() && listed)
    return unsupported(where, "prefixItems", "is not supported beside a list of 'items'");
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

}  // namespace anabranch
