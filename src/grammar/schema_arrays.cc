#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "grammar/json_rules.h"
#include "grammar/schema_writer.h"

namespace anabranch {
namespace {

struct Items {
  std::vector<std::string> first;  // the elements of the items that the schema lists one by one
  std::string further;             // the element of each item after these; "": there are none
  int64_t least = 0;
  std::optional<int64_t> most;
};

// Adds rules for an array with these items; returns the grammar element that matches it.
std::string add_array(const Items& items, GrammarRules& rules) {
  const std::string s = add_space(rules), comma = fmt::format("{0} \",\" {0} ", s),
                    close = fmt::format("{} \"]\"", s);
  // `tail` is what may follow the first i items; it is built from the last item to the first.
  const auto count_of = static_cast<int64_t>(items.first.size());
  std::string tail = close;
  if (!items.further.empty() && items.most.value_or(INT64_MAX) > count_of) {
    const int64_t low = std::max<int64_t>(items.least - count_of, 0);
    const std::string next = count_of > 0 ? comma : "";
    std::string more;  // the further items after the first of them
    if (!items.most) {
      more = low > 1 ? fmt::format("({}{}){{{},}}", comma, items.further, low - 1)
                     : fmt::format("({}{})*", comma, items.further);
    } else {
      const int64_t high = *items.most - count_of;
      more = high > 1 ? fmt::format("({}{}){{{},{}}}", comma, items.further, std::max<int64_t>(low - 1, 0),
                                    high - 1)
                      : "";
    }
    const std::string some = fmt::format("{}{} {} {}", next, items.further, more, close);
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

}  // namespace

Result<std::string> SchemaWriter::array(const Json& flat, const std::string& where) {
  const Deeper inside(level_);
  TRY(const auto fewest, count_keyword(flat, "minItems", where, kMaxLeast));
  Items out;
  TRY(out.most, count_keyword(flat, "maxItems", where, kMaxRepeat));
  out.least = fewest.value_or(0);
  if (flat.contains("uniqueItems") && flat["uniqueItems"] == true && out.most.value_or(2) > 1)
    return unsupported_keyword(where, "uniqueItems", "is not supported: a grammar cannot keep it");
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
