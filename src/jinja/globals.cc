// The functions that every template can call, and the methods of dicts and lists.
#include <ctime>

#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

Value make_range(Run& run, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) fail("range takes one to three numbers");
  for (const Value& v : given)
    if (!v.integral()) fail("range takes integers, not a {}", type_name(v));
  Int start = given.size() > 1 ? given[0].integer() : 0;
  Int stop = given.size() > 1 ? given[1].integer() : given[0].integer();
  Int step = given.size() > 2 ? given[2].integer() : 1;
  if (step == 0) fail("range: the step must not be zero");
  for (Int v : {start, stop, step})
    if (v > (Int{1} << 80) || v < -(Int{1} << 80)) fail("range: the number is too large");
  Int count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (count > static_cast<Int>(kMaxRange)) fail_limit("a range of more than {} numbers", kMaxRange);
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) items.emplace_back(start + i * step);
  run.budget.spend(items.size());
  return make_list(std::move(items));
}

// The pairs of key and value that dict(mapping, a=1) or namespace(mapping, a=1) has.
std::vector<std::pair<Value, Value>> pairs_of(Run& run, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail("at most one positional argument is expected");
  std::vector<std::pair<Value, Value>> pairs;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::dict)) {
      pairs = source.dict().items;
    } else {
      for (const auto list = iterate(source, run.budget); const Value& item : list->items) {
        std::shared_ptr<const List> pair = iterate(item, run.budget);
        if (pair->items.size() != 2) fail("expected pairs of key and value");
        pairs.emplace_back(pair->items[0], pair->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) pairs.emplace_back(Text(name, true), value);
  run.budget.spend(1 + pairs.size());
  return pairs;
}

Value make_namespace(Run& run, const Arguments& arguments) {
  Value unique = make_dict(pairs_of(run, arguments));
  auto space = std::make_unique<Namespace>();
  for (const auto& [key, value] : unique.dict().items) {
    std::string name = to_text(key, run.budget).bytes();
    if (name.substr(0, 1) == "_")
      fail("a namespace cannot hold '{}': its name begins with an underscore", name);
    space->attributes.emplace_back(name, value);
  }
  run.budget.spend(64);  // a namespace lives until the end of the run
  run.namespaces.push_back(std::move(space));
  return run.namespaces.back().get();
}

Value raise_exception(Run& run, const Arguments& arguments) {
  Parameters p("raise_exception", arguments, {"message"}, 1);
  throw Failure{{ErrorKind::invalid, to_text(p[0], run.budget).bytes()}, true};
}

// Calls strftime for one conversion at a time, without widths, so that the size of every result is limited.
Value strftime_now(Run& run, const Arguments& arguments) {
  Parameters p("strftime_now", arguments, {"format"}, 1);
  Text format = p.text(0, "", run.budget);
  std::time_t now = run.now ? static_cast<std::time_t>(*run.now) : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const std::string& bytes = format.bytes();
  Text out;
  for (size_t at = 0; at < bytes.size();) {
    size_t begin = at;
    bool conversion = bytes[at++] == '%' && at < bytes.size();
    if (conversion && bytes[at] == '-' && at + 1 < bytes.size()) ++at;
    static constexpr std::string_view kKnown = "aAbBcdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
    if (conversion && kKnown.find(bytes[at]) != std::string_view::npos) {
      std::string one = bytes.substr(begin, ++at - begin);
      char buffer[128];
      size_t n = std::strftime(buffer, sizeof(buffer), one.c_str(), &local);
      out.append(std::string_view(buffer, n), true);
    } else {
      out.append_slice(format, begin, at);
    }
  }
  return text_value(std::move(out), run.budget);
}

Value make_dict_of(Run& run, const Arguments& arguments) {
  return make_dict(pairs_of(run, arguments));
}

using Call = Value (*)(Run&, const Arguments&);
constexpr std::pair<std::string_view, Call> kFunctions[] = {
    {"range", make_range},          {"namespace", make_namespace},
    {"dict", make_dict_of},         {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

// --- methods of dicts and lists ---

using Method = Value (*)(Run&, const Value& self, const Arguments&);

Value dict_items(Run& run, const Value& self, const Arguments&) {
  std::vector<Value> items;
  run.budget.spend(2 * self.dict().items.size());
  for (const auto& [key, value] : self.dict().items) items.push_back(make_list({key, value}, true));
  return make_list(std::move(items));
}

Value dict_keys(Run& run, const Value& self, const Arguments&) {
  return iterate(self, run.budget);
}

Value dict_values(Run& run, const Value& self, const Arguments&) {
  std::vector<Value> items;
  run.budget.spend(self.dict().items.size());
  for (const auto& item : self.dict().items) items.push_back(item.second);
  return make_list(std::move(items));
}

Value dict_get(Run&, const Value& self, const Arguments& arguments) {
  Parameters p("get", arguments, {"key", "default"}, 1);
  const Value* found = p[0].is(Kind::undefined) ? nullptr : self.dict().find(p[0]);
  return found != nullptr ? *found : p.has(1) ? p[1] : Value(None{});
}

Value copy(Run&, const Value& self, const Arguments&) {
  return self;
}

Value list_index(Run& run, const Value& self, const Arguments& arguments) {
  Parameters p("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], p[0], run.budget)) return Value::of_size(i);
  fail("{} is not in the list", to_repr(p[0], run.budget).bytes());
}

Value list_count(Run& run, const Value& self, const Arguments& arguments) {
  Parameters p("count", arguments, {"value"}, 1);
  Int count = 0;
  for (const Value& item : self.list().items) count += equal(item, p[0], run.budget);
  return count;
}

struct Entry {
  std::string_view name;
  Method method;  // nullptr if it would change the object
};
constexpr Entry kDictMethods[] = {{"items", dict_items},  {"keys", dict_keys},  {"values", dict_values},
                                  {"get", dict_get},      {"copy", copy},       {"clear", nullptr},
                                  {"pop", nullptr},       {"popitem", nullptr}, {"update", nullptr},
                                  {"setdefault", nullptr}};
constexpr Entry kListMethods[] = {{"index", list_index}, {"count", list_count}, {"copy", copy},
                                  {"append", nullptr},   {"extend", nullptr},   {"insert", nullptr},
                                  {"pop", nullptr},      {"remove", nullptr},   {"clear", nullptr},
                                  {"sort", nullptr},     {"reverse", nullptr}};

template <size_t n>
std::optional<Value> bind(const Entry (&entries)[n], const Value& object, std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    if (entry.method == nullptr)
      return Value::undefined(
          fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
    return Value(std::make_shared<const Function>(
        Function{std::string(name), [method = entry.method, object](Run& run, const Arguments& arguments) {
                   return method(run, object, arguments);
                 }}));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_global(std::string_view name) {
  for (const auto& [key, call] : kFunctions)
    if (key == name) return Value(std::make_shared<const Function>(Function{std::string(name), call}));
  return std::nullopt;
}

std::optional<Value> find_method(const Value& object, std::string_view name) {
  if (object.is(Kind::text)) return find_text_method(object, name);
  if (object.is(Kind::dict)) return bind(kDictMethods, object, name);
  if (object.is(Kind::list)) return bind(kListMethods, object, name);
  return std::nullopt;
}

}  // namespace anabranch::jinja
