#include "jinja/ops.h"

#include <algorithm>
#include <cmath>

#include "jinja/library.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

void check_defined(const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is(Kind::undefined)) fail("{}", v->why());
}

const char* symbol_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::floor_div:
      return "//";
    case Op::mod:
      return "%";
    case Op::pow:
      return "**";
    default:
      return "?";
  }
}

Int floor_divide(Int a, Int b) {
  Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_power(Int base, Int exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  Int result = 1;
  if (base == 1 || base == 0) return exponent == 0 ? Int{1} : base;
  if (base == -1) return exponent % 2 == 0 ? Int{1} : Int{-1};
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) fail("the number is too large");
  return result;
}

Value integer_binary(Op op, Int a, Int b) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::sub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::mul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::pow:
      return integer_power(a, b);
    default:
      if (b == 0) fail("division by zero");
      if (op == Op::div) return static_cast<double>(a) / static_cast<double>(b);
      // A division by -1 could overflow.
      if (b == -1) return op == Op::mod ? Value(Int{0}) : integer_binary(Op::sub, 0, a);
      result = floor_divide(a, b);
      if (op == Op::mod) result = a - result * b;
  }
  if (overflow) fail("the number is too large");
  return result;
}

Value real_binary(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::pow:
      return std::pow(a, b);
    default:
      break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::div) return a / b;
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  return op == Op::mod ? remainder : std::floor((a - remainder) / b + 0.5);
}

size_t repetitions(const Value& count) {
  Int n = std::max<Int>(count.integer(), 0);
  if (n > static_cast<Int>(kMaxTextBytes)) fail_limit("repeated more than {} times", kMaxTextBytes);
  return static_cast<size_t>(n);
}

Value repeat(const Value& what, const Value& count, Budget& budget) {
  size_t n = repetitions(count);
  if (what.is(Kind::text)) {
    const Text& text = what.text();
    if (n == 0 || text.empty()) return Text();
    if (n > kMaxTextBytes / text.size()) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    budget.spend(n);
    budget.spend_text(n * text.size());
    Text out;
    for (size_t i = 0; i < n; ++i) out.append(text);
    return out;
  }
  const List& list = what.list();
  budget.spend(n);
  budget.spend(n * list.items.size());
  std::vector<Value> items;
  for (size_t i = 0; i < n; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  return make_list(std::move(items), list.tuple);
}

Value join_lists(const List& a, const List& b, Budget& budget) {
  budget.spend(a.items.size() + b.items.size());
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return make_list(std::move(items), a.tuple);
}

// The bounds of a slice over `size` items, as computed by Python's slice.indices().
struct Slice {
  Int start, stop, step;
};

Slice slice_indices(const Value& start, const Value& stop, const Value& step, Int size) {
  auto open = [](const Value& v) { return v.is(Kind::none) || v.is(Kind::undefined); };
  for (const Value* v : {&start, &stop, &step})
    if (!open(*v) && !v->integral()) fail("slice indices must be integers, not {}", type_name(*v));
  Slice s{};
  s.step = open(step) ? 1 : step.integer();
  if (s.step == 0) fail("slice step cannot be zero");
  s.step = std::clamp<Int>(s.step, -(Int{1} << 62), Int{1} << 62);
  Int low = s.step > 0 ? 0 : -1, high = s.step > 0 ? size : size - 1;
  auto bound = [&](const Value& v, Int otherwise) {
    if (open(v)) return otherwise;
    Int i = v.integer();
    if (i < 0) i = std::max<Int>(i, -(Int{1} << 62)) + size;
    return std::clamp(i, low, high);
  };
  s.start = bound(start, s.step > 0 ? low : high);
  s.stop = bound(stop, s.step > 0 ? high : low);
  return s;
}

Value slice_text(const Text& text, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  const std::string& bytes = text.bytes();
  size_t count = count_code_points(bytes);
  budget.spend_text(bytes.size());
  Slice s = slice_indices(start, stop, step, static_cast<Int>(count));
  if (s.step == 1) {
    if (s.start >= s.stop) return Text();
    return text.slice(byte_offset(bytes, static_cast<size_t>(s.start)),
                      byte_offset(bytes, static_cast<size_t>(s.stop)));
  }
  std::vector<size_t> offsets;
  budget.spend(count);
  for (size_t at = 0; at < bytes.size(); next_code_point(bytes, at)) offsets.push_back(at);
  offsets.push_back(bytes.size());
  Text out;
  for (Int i = s.start; s.step > 0 ? i < s.stop : i > s.stop; i += s.step)
    out.append_slice(text, offsets[static_cast<size_t>(i)], offsets[static_cast<size_t>(i) + 1]);
  return out;
}

std::string attribute_error(const Value& object, std::string_view name) {
  if (object.is(Kind::none)) return fmt::format("'None' has no attribute '{}'", name);
  return fmt::format("'{} object' has no attribute '{}'", type_name(object), name);
}

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const std::vector<Value>& items = loop.items->items;
  if (name == "index") return Value::of_size(loop.index + 1);
  if (name == "index0") return Value::of_size(loop.index);
  if (name == "revindex") return Value::of_size(items.size() - loop.index);
  if (name == "revindex0") return Value::of_size(items.size() - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == items.size());
  if (name == "length") return Value::of_size(items.size());
  // Only recursive loops, which are not supported, have other depths.
  if (name == "depth") return Value(Int{1});
  if (name == "depth0") return Value(Int{0});
  if (name == "previtem")
    return loop.index > 0 ? items[loop.index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return loop.index + 1 < items.size() ? items[loop.index + 1] : Value::undefined("there is no next item");
  if (name != "cycle") return std::nullopt;
  size_t index = loop.index;
  return Value(std::make_shared<const Function>(
      Function{"cycle", [index](Run&, const Arguments& arguments) {
                 if (arguments.positional.empty()) fail("no items for cycling given");
                 return arguments.positional[index % arguments.positional.size()];
               }}));
}

const Value* find_own(const Value& object, std::string_view name) {
  if (object.is(Kind::dict)) return object.dict().find(name);
  if (object.is(Kind::name_space)) return object.name_space().find(name);
  return nullptr;
}

}  // namespace

Value binary(Op op, const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  check_defined(a, b);
  if (a.integral() && b.integral()) return integer_binary(op, a.integer(), b.integer());
  if (a.numeric() && b.numeric()) return real_binary(op, a.real(), b.real());
  if (op == Op::add && a.is(Kind::text) && b.is(Kind::text)) {
    budget.spend_text(a.text().size() + b.text().size());
    Text out = a.text();
    out.append(b.text());
    return out;
  }
  if (op == Op::add && a.is(Kind::list) && b.is(Kind::list) && a.list().tuple == b.list().tuple)
    return join_lists(a.list(), b.list(), budget);
  if (op == Op::mul && (a.is(Kind::text) || a.is(Kind::list)) && b.integral()) return repeat(a, b, budget);
  if (op == Op::mul && (b.is(Kind::text) || b.is(Kind::list)) && a.integral()) return repeat(b, a, budget);
  if (op == Op::mod && a.is(Kind::text)) {
    bool many = b.is(Kind::list) && b.list().tuple;
    return format_percent(a.text(), many ? b.list().items : std::vector<Value>{b}, budget);
  }
  if (op == Op::add && a.is(Kind::text)) fail("can only concatenate str (not \"{}\") to str", type_name(b));
  if (op == Op::add && a.is(Kind::list))
    fail("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(op), type_name(a), type_name(b));
}

bool compare(Op op, const Value& a, const Value& b, Budget& budget) {
  switch (op) {
    case Op::eq:
      return equal(a, b, budget);
    case Op::ne:
      return !equal(a, b, budget);
    case Op::lt:
      return less(a, b, budget);
    case Op::gt:
      return less(b, a, budget);
    case Op::le:
      return less(a, b, budget) || equal(a, b, budget);
    case Op::ge:
      return less(b, a, budget) || equal(a, b, budget);
    case Op::in:
      return contains(b, a, budget);
    case Op::not_in:
      return !contains(b, a, budget);
    default:
      return false;
  }
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::text:
      if (item.is(Kind::undefined)) fail("{}", item.why());
      if (!item.is(Kind::text))
        fail("'in <string>' requires string as left operand, not {}", type_name(item));
      budget.spend_text(container.text().size());
      return find_bytes(container.text().bytes(), item.text().bytes()) != std::string::npos;
    case Kind::dict:
      budget.spend(2);
      return container.dict().find(item) != nullptr;
    case Kind::list:
      for (const Value& element : container.list().items)
        if (equal(element, item, budget)) return true;
      return false;
    default:
      fail("argument of type '{}' is not iterable", type_name(container));
  }
}

Value negate(const Value& v) {
  if (v.integral()) return integer_binary(Op::sub, 0, v.integer());
  if (v.is(Kind::real)) return -v.real();
  if (v.is(Kind::undefined)) fail("{}", v.why());
  fail("bad operand type for unary -: '{}'", type_name(v));
}

Value get_attribute(const Value& object, std::string_view name, Budget& budget) {
  if (object.is(Kind::undefined)) fail("{}", object.why());
  if (object.is(Kind::name_space)) budget.spend(object.name_space().attributes.size() / 8);
  if (auto method = find_method(object, name)) return *method;
  if (object.is(Kind::loop))
    if (auto value = loop_attribute(object.loop(), name)) return *value;
  if (const Value* own = find_own(object, name)) return *own;
  return Value::undefined(attribute_error(object, name));
}

Value get_item(const Value& object, const Value& key, Budget& budget) {
  if (object.is(Kind::undefined)) fail("{}", object.why());
  if (key.is(Kind::text)) {
    if (const Value* own = find_own(object, key.text().bytes())) return *own;
    return get_attribute(object, key.text().bytes(), budget);
  }
  if (object.is(Kind::dict) && !key.is(Kind::list) && !key.is(Kind::undefined) && !key.is(Kind::dict))
    if (const Value* found = object.dict().find(key)) return *found;
  if (key.integral() && object.is(Kind::list)) {
    const std::vector<Value>& items = object.list().items;
    Int i = key.integer(), size = static_cast<Int>(items.size());
    if (i < 0) i += size;
    if (i >= 0 && i < size) return items[static_cast<size_t>(i)];
  }
  if (key.integral() && object.is(Kind::text)) {
    Value next = key.integer() == -1 ? Value(None{}) : integer_binary(Op::add, key.integer(), 1);
    Value one = get_slice(object, key, next, None{}, budget);
    if (!one.text().empty()) return one;
  }
  if (key.is(Kind::undefined)) return Value::undefined(key.why());
  std::string object_name = object.is(Kind::none) ? "None" : type_name(object) + " object";
  return Value::undefined(fmt::format("{} has no element {}", object_name, to_repr(key, budget).bytes()));
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                Budget& budget) {
  if (object.is(Kind::undefined)) fail("{}", object.why());
  if (object.is(Kind::text)) return slice_text(object.text(), start, stop, step, budget);
  if (!object.is(Kind::list)) fail("a {} cannot be sliced", type_name(object));
  const List& list = object.list();
  Slice s = slice_indices(start, stop, step, static_cast<Int>(list.items.size()));
  std::vector<Value> items;
  for (Int i = s.start; s.step > 0 ? i < s.stop : i > s.stop; i += s.step)
    items.push_back(list.items[static_cast<size_t>(i)]);
  budget.spend(items.size());
  return make_list(std::move(items), list.tuple);
}

Value format_percent(const Text& format, const std::vector<Value>& values, Budget& budget) {
  const std::string& bytes = format.bytes();
  Text out;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    size_t percent = std::min(bytes.find('%', at), bytes.size());
    out.append_slice(format, at, percent);
    if (percent == bytes.size()) break;
    at = percent + 1;
    int precision = -1;
    if (at + 1 < bytes.size() && bytes[at] == '.' && bytes[at + 1] >= '0' && bytes[at + 1] <= '9') {
      precision = bytes[at + 1] - '0';
      at += 2;
    }
    char type = at < bytes.size() ? bytes[at++] : '\0';
    if (type == '%' && precision < 0) {
      out.append_slice(format, percent, percent + 1);
      continue;
    }
    if (next >= values.size()) fail("not enough arguments for format string");
    const Value& value = values[next++];
    if (type == 's' && precision < 0)
      out.append(to_text(value, budget));
    else if (type == 'r' && precision < 0)
      out.append(to_repr(value, budget));
    else if ((type == 'd' || type == 'i') && precision < 0 && value.numeric() &&
             std::abs(value.real()) < 1e37)
      out.append(format_integer(value.is(Kind::real) ? static_cast<Int>(value.real()) : value.integer()),
                 false);
    else if (type == 'f' && value.numeric())
      out.append(fmt::format("{:.{}f}", value.real(), precision < 0 ? 6 : precision), false);
    else
      fail("'%{}' in a format string is not supported for a {}", type, type_name(value));
    budget.spend_text(out.size() / 16);
    if (out.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
  }
  if (next < values.size()) fail("not all arguments converted during string formatting");
  return text_value(std::move(out), budget);
}

}  // namespace anabranch::jinja
