#include "jinja/sequence_filters.h"

#include <algorithm>

#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

// The value at `path` within `item`: a key or an index, or several in a string, such as "a.b.0". Unless
// `otherwise` is null, it replaces every step that is undefined.
Value attribute_of(const Value& item, const Value& path, Budget& budget, const Value* otherwise = nullptr) {
  auto step = [&](const Value& from, const Value& key) {
    Value next = get_item(from, key, budget);
    return otherwise != nullptr && next.is(Kind::undefined) ? *otherwise : next;
  };
  if (!path.is(Kind::text)) return step(item, path);
  Value value = item;
  const std::string& names = path.text().bytes();
  for (size_t begin = 0; begin <= names.size();) {
    size_t dot = std::min(names.find('.', begin), names.size());
    std::string name = names.substr(begin, dot - begin);
    budget.spend(1);
    bool number =
        !name.empty() && name.size() < 9 && name.find_first_not_of("0123456789") == std::string::npos;
    value = number ? step(value, Int{std::stol(name)}) : step(value, Text(name, true));
    begin = dot + 1;
  }
  return value;
}

// The value by which an item is sorted or compared.
Value sort_key(const Value& item, const Value* attribute, bool case_sensitive, Budget& budget) {
  Value key = attribute != nullptr ? attribute_of(item, *attribute, budget) : item;
  if (case_sensitive || !key.is(Kind::text)) return key;
  return change_case(key.text(), Casing::lower, budget);
}

const Value* given(const Parameters& p, size_t i) {
  return p.has(i) && !p[i].is(Kind::none) ? &p[i] : nullptr;
}

// The items, sorted by their keys. The sort is stable.
std::vector<Value> sorted(const std::vector<std::pair<Value, Value>>& keyed, bool reverse, Budget& budget) {
  std::vector<const std::pair<Value, Value>*> order;
  for (const auto& item : keyed) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return reverse ? less(b->first, a->first, budget) : less(a->first, b->first, budget);
  });
  std::vector<Value> items;
  for (const auto* item : order) items.push_back(item->second);
  return items;
}

Value do_length(Run& run, const Value& v, const Arguments&) {
  switch (v.kind()) {
    case Kind::undefined:
      return Int{0};
    case Kind::text:
      run.budget.spend_text(v.text().size());
      return Value::of_size(count_code_points(v.text().bytes()));
    case Kind::list:
      return Value::of_size(v.list().items.size());
    case Kind::dict:
      return Value::of_size(v.dict().items.size());
    default:
      fail("object of type '{}' has no len()", type_name(v));
  }
}

Value do_first(Run& run, const Value& v, const Arguments&) {
  std::shared_ptr<const List> items = iterate(v, run.budget);
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.") : items->items.front();
}

Value do_last(Run& run, const Value& v, const Arguments&) {
  std::shared_ptr<const List> items = iterate(v, run.budget);
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.") : items->items.back();
}

Value do_list(Run& run, const Value& v, const Arguments&) {
  std::vector<Value> items = iterate(v, run.budget)->items;
  run.budget.spend(items.size());
  return make_list(std::move(items));
}

Value do_reverse(Run& run, const Value& v, const Arguments&) {
  if (v.is(Kind::text)) return get_slice(v, None{}, None{}, Int{-1}, run.budget);
  std::vector<Value> items = iterate(v, run.budget)->items;
  run.budget.spend(items.size());
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items));
}

Value do_join(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("join", arguments, {"d", "attribute"});
  std::vector<Value> items = iterate(v, run.budget)->items;
  run.budget.spend(items.size());
  if (const Value* attribute = given(p, 1))
    for (Value& item : items) item = attribute_of(item, *attribute, run.budget);
  return join(p.text(0, "", run.budget), items, run.budget);
}

Value do_items(Run& run, const Value& v, const Arguments&) {
  if (v.is(Kind::undefined)) return make_list({});
  if (!v.is(Kind::dict)) fail("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  run.budget.spend(2 * v.dict().items.size());
  for (const auto& [key, value] : v.dict().items) items.push_back(make_list({key, value}, true));
  return make_list(std::move(items));
}

Value do_dict_sort(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  std::string by = p.text(1, "key", run.budget).bytes();
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  Value pairs = do_items(run, v, {});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& pair : pairs.list().items)
    keyed.emplace_back(
        sort_key(pair.list().items[by == "key" ? 0 : 1], nullptr, p.flag(0, false), run.budget), pair);
  return make_list(sorted(keyed, p.flag(2, false), run.budget));
}

Value do_sort(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto list = iterate(v, run.budget); const Value& item : list->items)
    keyed.emplace_back(sort_key(item, given(p, 2), p.flag(1, false), run.budget), item);
  return make_list(sorted(keyed, p.flag(0, false), run.budget));
}

Value do_unique(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> kept, keys;
  for (const auto list = iterate(v, run.budget); const Value& item : list->items) {
    Value key = sort_key(item, given(p, 1), p.flag(0, false), run.budget);
    bool seen =
        std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, run.budget); });
    if (seen) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return make_list(std::move(kept));
}

template <bool largest>
Value do_extreme(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  std::shared_ptr<const List> items = iterate(v, run.budget);
  if (items->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = sort_key(items->items[0], given(p, 1), p.flag(0, false), run.budget);
  for (size_t i = 1; i < items->items.size(); ++i) {
    Value key = sort_key(items->items[i], given(p, 1), p.flag(0, false), run.budget);
    if (!(largest ? less(best_key, key, run.budget) : less(key, best_key, run.budget))) continue;
    best = i;
    best_key = std::move(key);
  }
  return items->items[best];
}

Value do_sum(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("sum", arguments, {"attribute", "start"});
  Value total = p.has(1) ? p[1] : Value(Int{0});
  if (total.is(Kind::text)) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const auto list = iterate(v, run.budget); const Value& item : list->items)
    total = binary(Op::add, total, p.has(0) ? attribute_of(item, p[0], run.budget) : item, run.budget);
  return total;
}

Value do_batch(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("batch", arguments, {"linecount", "fill_with"}, 1);
  Int size = p.integer(0, 1);
  if (size < 1 || size > static_cast<Int>(kMaxRange)) fail("batch: the size must be from 1 to {}", kMaxRange);
  std::vector<Value> batches, batch;
  auto flush = [&] { batches.push_back(make_list(std::exchange(batch, {}))); };
  for (const auto list = iterate(v, run.budget); const Value& item : list->items) {
    run.budget.spend(1);
    batch.push_back(item);
    if (static_cast<Int>(batch.size()) == size) flush();
  }
  if (batch.empty()) return make_list(std::move(batches));
  if (const Value* filler = given(p, 1)) batch.resize(static_cast<size_t>(size), *filler);
  run.budget.spend(batch.size());
  flush();
  return make_list(std::move(batches));
}

std::string name_argument(const Arguments& arguments, size_t i, std::string_view function, Budget& budget) {
  if (arguments.positional.size() <= i) fail("{} needs a name", function);
  return to_text(arguments.positional[i], budget).bytes();
}

Arguments rest_of(const Arguments& arguments, size_t first) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(first));
  return rest;
}

// map(attribute="name", default=x) or map("filter", arguments of the filter...). As in Jinja, this and select
// return an empty list for every false value, such as none.
Value do_map(Run& run, const Value& v, const Arguments& arguments) {
  if (!truthy(v)) return make_list({});
  std::shared_ptr<const List> items = iterate(v, run.budget);
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    Parameters p("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : items->items)
      out.push_back(attribute_of(item, p[0], run.budget, p.has(1) ? &p[1] : nullptr));
    return make_list(std::move(out));
  }
  Run::Level level(run);  // map("map", "map", ...) recurses
  run.budget.spend(arguments.positional.size());
  std::string name = name_argument(arguments, 0, "map", run.budget);
  Filter filter = find_filter(name);
  if (filter == nullptr) fail("there is no filter named '{}'", name);
  Arguments rest = rest_of(arguments, 1);
  for (const Value& item : items->items) {
    run.budget.spend(1);
    out.push_back(filter(run, item, rest));
  }
  return make_list(std::move(out));
}

// select, reject, selectattr and rejectattr. Without the name of a test, items are selected by their truth.
template <bool by_attribute, bool keep>
Value do_select(Run& run, const Value& v, const Arguments& arguments) {
  if (!truthy(v)) return make_list({});
  size_t first = by_attribute ? 1 : 0;
  Value attribute;
  if (by_attribute) attribute = Text(name_argument(arguments, 0, "selectattr", run.budget), true);
  Test test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > first) {
    std::string name = name_argument(arguments, first, "select", run.budget);
    test = find_test(name);
    if (test == nullptr) fail("there is no test named '{}'", name);
    rest = rest_of(arguments, first + 1);
  }
  std::vector<Value> out;
  for (const auto list = iterate(v, run.budget); const Value& item : list->items) {
    run.budget.spend(1);
    Value subject = by_attribute ? attribute_of(item, attribute, run.budget) : item;
    bool passes = test != nullptr ? test(run, subject, rest) : truthy(subject);
    if (passes == keep) out.push_back(item);
  }
  return make_list(std::move(out));
}

Value do_attr(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("attr", arguments, {"name"}, 1);
  return get_attribute(v, to_text(p[0], run.budget).bytes(), run.budget);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"length", do_length},
    {"count", do_length},
    {"first", do_first},
    {"last", do_last},
    {"list", do_list},
    {"reverse", do_reverse},
    {"join", do_join},
    {"items", do_items},
    {"dictsort", do_dict_sort},
    {"sort", do_sort},
    {"unique", do_unique},
    {"min", do_extreme<false>},
    {"max", do_extreme<true>},
    {"sum", do_sum},
    {"batch", do_batch},
    {"map", do_map},
    {"select", do_select<false, true>},
    {"reject", do_select<false, false>},
    {"selectattr", do_select<true, true>},
    {"rejectattr", do_select<true, false>},
    {"attr", do_attr},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const auto& [key, filter] : kFilters)
    if (key == name) return filter;
  return nullptr;
}

}  // namespace anabranch::jinja
