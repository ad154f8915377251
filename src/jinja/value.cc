#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

constexpr size_t kLinearSearch = 8;  // dicts up to this size are searched without an index

int depth_of(const Value& v) {
  if (v.is(Kind::list)) return v.list().depth;
  if (v.is(Kind::dict)) return v.dict().depth;
  return 0;
}

int checked_depth(int inner) {
  if (inner >= kMaxValueDepth) fail_limit("values nested deeper than {} levels", kMaxValueDepth);
  return inner + 1;
}

// A string that is equal for equal keys: True, 1 and 1.0 are the same key in Python.
std::string hash_key(const Value& v) {
  switch (v.kind()) {
    case Kind::none:
      return "N";
    case Kind::boolean:
    case Kind::integer:
      return "n" + format_integer(v.integer());
    case Kind::real: {
      double d = v.real();
      if (d == std::floor(d) && std::abs(d) < 1e18) return "n" + format_integer(static_cast<Int>(d));
      return "f" + format_real(d);
    }
    case Kind::text:
      return "s" + v.text().bytes();
    default:
      fail("a {} cannot be the key of a dict", type_name(v));
  }
}

void append_string_repr(Text& out, const Text& text) {
  const std::string& s = text.bytes();
  bool has_single = s.find('\'') != std::string::npos;
  char quote = has_single && s.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), false);
  for (size_t at = 0; at < s.size();) {
    size_t begin = at;
    char32_t c = next_code_point(s, at);
    std::string escape;
    if (c == static_cast<char32_t>(quote) || c == '\\')
      escape = std::string("\\") + static_cast<char>(c);
    else if (c == '\n')
      escape = "\\n";
    else if (c == '\r')
      escape = "\\r";
    else if (c == '\t')
      escape = "\\t";
    else if (!is_printable(c))
      escape = c < 0x100     ? fmt::format("\\x{:02x}", static_cast<uint32_t>(c))
               : c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                             : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    if (escape.empty())
      out.append_slice(text, begin, at);
    else
      out.append(escape, text.trusted_at(begin));
  }
  out.append(std::string_view(&quote, 1), false);
}

void append_repr(Text& out, const Value& v, Budget& budget) {
  budget.spend_text(out.size() > kMaxTextBytes ? out.size() : 0);
  switch (v.kind()) {
    case Kind::text:
      budget.spend_text(v.text().size());
      append_string_repr(out, v.text());
      return;
    case Kind::list: {
      const List& list = v.list();
      out.append(list.tuple ? "(" : "[", false);
      for (size_t i = 0; i < list.items.size(); ++i) {
        if (i) out.append(", ", false);
        append_repr(out, list.items[i], budget);
      }
      out.append(!list.tuple ? "]" : list.items.size() == 1 ? ",)" : ")", false);
      return;
    }
    case Kind::dict: {
      out.append("{", false);
      bool first = true;
      for (const auto& [key, value] : v.dict().items) {
        if (!first) out.append(", ", false);
        first = false;
        append_repr(out, key, budget);
        out.append(": ", false);
        append_repr(out, value, budget);
      }
      out.append("}", false);
      return;
    }
    case Kind::undefined:
      out.append("Undefined", false);
      return;
    default:
      out.append(to_text(v, budget));
      return;
  }
}

bool less_lists(const List& a, const List& b, Budget& budget) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i)
    if (!equal(a.items[i], b.items[i], budget)) return less(a.items[i], b.items[i], budget);
  return a.items.size() < b.items.size();
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const Value* other = b.find(item.first);
    return other != nullptr && equal(item.second, *other, budget);
  });
}

}  // namespace

std::string Value::why() const {
  const auto& why = std::get<Undefined>(v_).why;
  return why ? *why : "the value is undefined";
}

const Value* Dict::find(std::string_view key) const {
  if (!index.empty()) {
    auto it = index.find("s" + std::string(key));
    return it == index.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [k, v] : items)
    if (k.is(Kind::text) && k.text().bytes() == key) return &v;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::text)) return find(key.text().bytes());
  std::string wanted = hash_key(key);
  if (!index.empty()) {
    auto it = index.find(wanted);
    return it == index.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [k, v] : items)
    if (!k.is(Kind::text) && hash_key(k) == wanted) return &v;
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (const Value* old = find(name))
    *const_cast<Value*>(old) = std::move(value);
  else
    attributes.emplace_back(std::string(name), std::move(value));
}

Value make_list(std::vector<Value> items, bool tuple) {
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, depth_of(item));
  return std::make_shared<const List>(List{std::move(items), tuple, checked_depth(inner)});
}

Value make_dict(std::vector<std::pair<Value, Value>> items) {
  Dict dict;
  int inner = 0;
  bool indexed = items.size() > kLinearSearch;
  std::unordered_map<std::string, size_t> seen;
  for (auto& [key, value] : items) {
    inner = std::max(inner, depth_of(value));
    auto [it, added] = seen.emplace(hash_key(key), dict.items.size());
    if (added)
      dict.items.emplace_back(std::move(key), std::move(value));
    else
      dict.items[it->second].second = std::move(value);
  }
  if (indexed) dict.index = std::move(seen);
  dict.depth = checked_depth(inner);
  return std::make_shared<const Dict>(std::move(dict));
}

Value from_json(const Json& json, bool trusted, int depth) {
  checked_depth(depth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return Int{json.get<int64_t>()};
    case Json::value_t::number_unsigned:
      return Int{json.get<uint64_t>()};
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return Text(sanitize_utf8(json.get_ref<const std::string&>()), trusted);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item, trusted, depth + 1));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, item] : json.get_ref<const Json::object_t&>())
        items.emplace_back(Text(sanitize_utf8(key), trusted), from_json(item, trusted, depth + 1));
      return make_dict(std::move(items));
    }
    default:
      return None{};
  }
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.integer() != 0;
    case Kind::real:
      return v.real() != 0;
    case Kind::text:
      return !v.text().empty();
    case Kind::list:
      return !v.list().items.empty();
    case Kind::dict:
      return !v.dict().items.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.numeric() && b.numeric()) {
    if (a.integral() && b.integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      if (a.text().size() != b.text().size()) return false;
      budget.spend_text(a.text().size());
      return a.text().bytes() == b.text().bytes();
    case Kind::list: {
      const List &x = a.list(), &y = b.list();
      if (x.tuple != y.tuple || x.items.size() != y.items.size()) return false;
      for (size_t i = 0; i < x.items.size(); ++i)
        if (!equal(x.items[i], y.items[i], budget)) return false;
      return true;
    }
    case Kind::dict:
      return equal_dicts(a.dict(), b.dict(), budget);
    case Kind::name_space:
      return &a.name_space() == &b.name_space();
    case Kind::function:
      return &a.function() == &b.function();
    case Kind::loop:
      return &a.loop() == &b.loop();
    default:
      return false;
  }
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.integral() && b.integral()) return a.integer() < b.integer();
  if (a.numeric() && b.numeric()) return a.real() < b.real();
  if (a.is(Kind::text) && b.is(Kind::text)) return a.text().bytes() < b.text().bytes();
  if (a.is(Kind::list) && b.is(Kind::list) && a.list().tuple == b.list().tuple)
    return less_lists(a.list(), b.list(), budget);
  for (const Value* v : {&a, &b})
    if (v->is(Kind::undefined)) fail("{}", v->why());
  fail("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

std::string format_integer(Int v) {
  return fmt::format("{}", v);
}

std::string format_real(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", v);  // shortest that reads back; exponent outside [-4, 16), as in Python
  if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

Text to_text(const Value& v, Budget& budget) {
  switch (v.kind()) {
    case Kind::undefined:
      return {};
    case Kind::none:
      return Text("None", false);
    case Kind::boolean:
      return Text(v.boolean() ? "True" : "False", false);
    case Kind::integer:
      return Text(format_integer(v.integer()), false);
    case Kind::real:
      return Text(format_real(v.real()), false);
    case Kind::text:
      budget.spend_text(v.text().size());
      return v.text();
    case Kind::name_space:
      return Text("<Namespace>", false);
    case Kind::function:
      return Text("<function " + v.function().name + ">", false);
    case Kind::loop:
      return Text(fmt::format("<LoopContext {}/{}>", v.loop().index + 1, v.loop().items->items.size()),
                  false);
    default:
      return to_repr(v, budget);
  }
}

Text to_repr(const Value& v, Budget& budget) {
  Text out;
  append_repr(out, v, budget);
  budget.spend_text(out.size());
  return out;
}

std::string type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::list:
      return v.list().tuple ? "tuple" : "list";
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::function:
      return "function";
    case Kind::loop:
      return "LoopContext";
  }
  return "object";
}

std::shared_ptr<const List> iterate(const Value& v, Budget& budget) {
  std::vector<Value> items;
  switch (v.kind()) {
    case Kind::list:
      budget.spend(1 + v.list().items.size() / 16);
      return v.shared_list();
    case Kind::undefined:
      break;
    case Kind::dict:
      budget.spend(v.dict().items.size());
      for (const auto& item : v.dict().items) items.push_back(item.first);
      break;
    case Kind::text: {
      const std::string& s = v.text().bytes();
      budget.spend(2 * s.size());
      for (size_t at = 0; at < s.size();) {
        size_t begin = at;
        next_code_point(s, at);
        items.emplace_back(v.text().slice(begin, at));
      }
      break;
    }
    default:
      fail("'{}' object is not iterable", type_name(v));
  }
  return make_list(std::move(items)).shared_list();
}

Value text_value(Text text, Budget& budget) {
  budget.spend_text(text.size());
  return Value(std::move(text));
}

}  // namespace anabranch::jinja
