#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "grammar/counted_group.h"
#include "grammar/json_rules.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

// Of a set: values that an enum lists, and those of them that may come in any order.
constexpr size_t kMaxListed = 500, kMaxAnyOrder = 6;

struct Items {
  std::vector<std::string> first;  // the elements of the items that the schema lists one by one
  std::string further;             // the element of each item after these; "": there are none
  int64_t least = 0;
  std::optional<int64_t> most;
};

// What follows the first of several items: up to `high` - 1 more of them, at least `low` - 1, and the end.
std::string add_more(const std::string& item, const std::string& close, int64_t low,
                     std::optional<int64_t> high, GrammarRules& rules) {
  if (!high && low <= 1) return fmt::format("({})* {}", item, close);
  if (high == 1) return close;
  const std::string key = fmt::format("more {} {} {}", low, high.value_or(0), item);
  if (const std::string* known = rules.find(key)) return *known;
  const std::string name = rules.reserve("more");
  CountedGroup group(rules);
  const auto most = high ? std::optional<size_t>(*high - 1) : std::nullopt;
  group.least = static_cast<size_t>(std::max<int64_t>(low - 1, 0));
  group.near = most;
  rules.define(name, fmt::format("{} | {} {}", close, item, name), group.option(most));
  rules.remember(key, name);
  return name;
}

// Adds rules for an array with these items; returns the grammar element that matches it.
std::string add_array(const Items& items, GrammarRules& rules) {
  const std::string s = add_space(rules), comma = fmt::format("{0} \",\" {0} ", s),
                    close = fmt::format("{} \"]\"", s);
  // `tail` is what may follow the first i items; it is built from the last item to the first.
  const auto count_of = static_cast<int64_t>(items.first.size());
  std::string tail = close;
  if (!items.further.empty() && items.most.value_or(INT64_MAX) > count_of) {
    const int64_t low = std::max<int64_t>(items.least - count_of, 0);
    const auto high = items.most ? std::optional(*items.most - count_of) : std::nullopt;
    const std::string next = count_of > 0 ? comma : "";
    const std::string some =
        fmt::format("{}{} {}", next, items.further, add_more(comma + items.further, close, low, high, rules));
    tail = low > 0 ? some : rules.add("items", fmt::format("{} | {}", some, count_of > 0 ? close : "\"]\""));
  }
  for (int64_t i = count_of; i-- > 0;) {
    const std::string here =
        fmt::format("{}{} {}", i > 0 ? comma : "", items.first[static_cast<size_t>(i)], tail);
    const bool may_end = i >= items.least, must_end = items.most && *items.most <= i;
    const std::string end = i > 0 ? close : "\"]\"";
    tail = must_end ? end : may_end ? rules.add("items", fmt::format("{} | {}", end, here)) : here;
  }
  return rules.add("array", fmt::format("\"[\" {} {}", s, tail));
}

// Rules for what follows the opening bracket of a set; returns the first.
std::string add_any_order(const std::vector<std::string>& values, int64_t least, int64_t most,
                          GrammarRules& rules) {
  const std::string s = add_space(rules);
  std::vector<std::string> names;  // by the values that are written, one bit for each
  for (size_t written = 0; written < size_t{1} << values.size(); written++)
    names.push_back(rules.reserve("items"));
  for (size_t written = 0; written < names.size(); written++) {
    const auto count = static_cast<int64_t>(std::popcount(written));
    std::vector<std::string> out;
    if (count >= least) out.push_back(count > 0 ? s + " \"]\"" : "\"]\"");
    const std::string before = count > 0 ? fmt::format("{0} \",\" {0} ", s) : "";
    for (size_t i = 0; i < values.size() && count < most; i++)
      if (!(written >> i & 1))
        out.push_back(fmt::format("{}{} {}", before, values[i], names[written | size_t{1} << i]));
    if (out.empty()) out.push_back(literal(std::string(1, '\0')));  // more values than may be: never reached
    rules.define(names[written], fmt::format("{}", fmt::join(out, " | ")));
  }
  return names[0];
}

}  // namespace

// The elements of the values that an item may have, each of them once; empty if they are not listed.
Result<std::vector<std::string>> SchemaWriter::listed_values(const Json& items, const std::string& where) {
  std::vector<std::string> out;
  TRY(Json flat, document_.flatten(items, where));
  if (!flat.is_object() || flat.contains("anyOf") || flat.contains("oneOf")) return out;
  Json values = enumerated(flat);
  if (values.is_null() && string_at(flat, "type") == "boolean") values = {true, false};
  if (!values.is_array() || values.size() > kMaxListed) return out;
  flat.erase("const");
  for (const Json& one : values) {
    flat["enum"] = Json::array({one});
    TRY(const std::string element, value(flat, where));
    if (!element.empty() && std::find(out.begin(), out.end(), element) == out.end()) out.push_back(element);
  }
  return out;
}

// A set of listed values: a few in any order, many in the order in which they are listed.
Result<std::string> SchemaWriter::set(const Json& flat, const std::string& where, int64_t least,
                                      std::optional<int64_t> most) {
  const char* refused = "is supported for one item, and for items that an enum lists";
  const auto items = flat.find("items");
  if (items == flat.end() || flat.contains("prefixItems") || items->is_array())
    return unsupported_keyword(where, "uniqueItems", refused);
  TRY(const auto values, listed_values(*items, where + "/items"));
  if (values.empty()) return unsupported_keyword(where, "uniqueItems", refused);
  const auto count = static_cast<int64_t>(values.size());
  if (least > std::min(count, most.value_or(count))) return std::string();
  const std::string s = add_space(rules_);
  std::string rest;
  if (values.size() <= kMaxAnyOrder) {
    rest = add_any_order(values, least, most.value_or(count), rules_);
  } else {
    Members members{{}, "", least, most && *most < count ? most : std::nullopt, "]"};
    for (const std::string& one : values) members.named.push_back({one, false});
    rest = MembersWriter(members, rules_).add();
  }
  return rest.empty() ? rest : rules_.add("set", fmt::format("\"[\" {} {}", s, rest));
}

Result<std::string> SchemaWriter::array(const Json& flat, const std::string& where) {
  const Deeper inside(level_);
  TRY(const auto fewest, count_keyword(flat, "minItems", where, kMaxLeast));
  Items out;
  TRY(out.most, count_keyword(flat, "maxItems", where, kMaxRepeat));
  out.least = fewest.value_or(0);
  if (flat.contains("uniqueItems") && flat["uniqueItems"] == true && out.most.value_or(2) > 1)
    return set(flat, where, out.least, out.most);
  bool must_end = false;  // an item has no value, so the array ends before it
  const auto prefix = flat.find("prefixItems"), items = flat.find("items");
  const bool listed = items != flat.end() && items->is_array();  // as in drafts before 2020-12
  if (prefix != flat.end() && listed)
    return unsupported_keyword(where, "prefixItems", "is not supported beside a list of 'items'");
  if (prefix != flat.end() || listed) {
    const Json& list = listed ? *items : *prefix;
    if (!list.is_array()) return invalid_keyword(where, "prefixItems", "is no array");
    for (size_t i = 0; i < list.size() && !must_end; i++) {
      TRY(const std::string element, value(list[i], step_of(where, listed ? "items" : "prefixItems", i)));
      must_end = element.empty();
      if (!must_end) out.first.push_back(element);
    }
  }
  const Json rest = listed                ? flat.value("additionalItems", Json(true))
                    : items != flat.end() ? *items
                                          : Json(true);
  // Further items follow listed ones only if the schema mentions them, or if minItems requires them.
  const bool mentioned = items != flat.end() && (!listed || flat.contains("additionalItems"));
  const auto listed_count = [&] { return static_cast<int64_t>(out.first.size()); };
  if (!must_end && (out.first.empty() || mentioned || out.least > listed_count())) {
    TRY(out.further, value(rest, where + "/items"));
  }
  if (out.further.empty()) out.most = std::min(out.most.value_or(INT64_MAX), listed_count());
  if (out.most && *out.most < out.least) return std::string();
  return add_array(out, rules_);
}

}  // namespace anabranch
