// The methods of str.
#include <algorithm>

#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

const Text& text_argument(const Value& v) {
  if (v.is(Kind::undefined)) fail("{}", v.why());
  if (!v.is(Kind::text)) fail("a string is needed, not a {}", type_name(v));
  return v.text();
}

template <Side side>
Value do_strip(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("strip", arguments, {"chars"});
  std::optional<std::string> chars;
  if (p.has(0) && !p[0].is(Kind::none)) chars = text_argument(p[0]).bytes();
  run.budget.spend_text(self.size() * (1 + (chars ? chars->size() : 0) / 16));
  return strip(self, chars, side);
}

template <bool from_right>
Value do_split(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("split", arguments, {"sep", "maxsplit"});
  bool separator = p.has(0) && !p[0].is(Kind::none);
  return make_list(
      split(self, separator ? &text_argument(p[0]) : nullptr, p.integer(1, -1), from_right, run.budget));
}

Value do_split_lines(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("splitlines", arguments, {"keepends"});
  std::vector<Value> lines;
  for (Text& line : split_lines(self, p.flag(0, false), run.budget)) lines.emplace_back(std::move(line));
  return make_list(std::move(lines));
}

// The range of bytes that the arguments `start` and `end` of a method select.
std::pair<size_t, size_t> byte_range(const Text& self, const Parameters& p, size_t first) {
  Int size = static_cast<Int>(count_code_points(self.bytes()));
  auto bound = [&](Int i) { return std::clamp<Int>(i < 0 ? i + size : i, 0, size); };
  Int big = Int{1} << 62;
  Int start = bound(std::clamp(p.integer(first, 0), -big, big));
  Int end = bound(std::clamp(p.integer(first + 1, size), -big, big));
  return {byte_offset(self.bytes(), static_cast<size_t>(start)),
          byte_offset(self.bytes(), static_cast<size_t>(end))};
}

template <bool at_end>
Value do_affix(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p(at_end ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  run.budget.spend_text(p.has(1) ? self.size() : 0);
  std::string_view s = self.bytes();
  if (p.has(1)) {
    auto [begin, end] = byte_range(self, p, 1);
    s = s.substr(begin, end < begin ? 0 : end - begin);
  }
  auto matches = [&](const Value& v) {
    const std::string& affix = text_argument(v).bytes();
    run.budget.spend_text(affix.size());
    return at_end ? s.ends_with(affix) : s.starts_with(affix);
  };
  if (!p[0].is(Kind::list)) return matches(p[0]);
  const auto& affixes = p[0].list().items;
  return std::any_of(affixes.begin(), affixes.end(), matches);
}

template <bool at_end>
Value do_remove_affix(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("removeprefix", arguments, {"affix"}, 1);
  const std::string& affix = text_argument(p[0]).bytes();
  run.budget.spend_text(self.size());
  bool has = at_end ? self.bytes().ends_with(affix) : self.bytes().starts_with(affix);
  if (!has) return self;
  return at_end ? self.slice(0, self.size() - affix.size()) : self.slice(affix.size(), self.size());
}

Value do_replace(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("replace", arguments, {"old", "new", "count"}, 2);
  return replace(self, text_argument(p[0]), text_argument(p[1]), p.integer(2, -1), run.budget);
}

template <Casing casing>
Value do_case(Run& run, const Text& self, const Arguments&) {
  return change_case(self, casing, run.budget);
}

// find, rfind, index and rindex return the index of a code point; without a match, -1 or (if `must`) an
// error.
template <bool from_right, bool must>
Value do_find(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = text_argument(p[0]).bytes();
  run.budget.spend_text(self.size() * (from_right ? 1 + wanted.size() / 16 : 1));
  auto [begin, end] = byte_range(self, p, 1);
  std::string_view s = std::string_view(self.bytes()).substr(0, std::max(begin, end));
  size_t found = from_right ? s.rfind(wanted) : find_bytes(s, wanted, begin);
  if (begin > end || (found != kNone && found < begin)) found = kNone;
  if (found != kNone) return Value::of_size(count_code_points(s.substr(0, found)));
  if (must) fail("substring not found");
  return Int{-1};
}

Value do_count(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("count", arguments, {"sub"}, 1);
  const std::string& wanted = text_argument(p[0]).bytes();
  run.budget.spend_text(self.size());
  if (wanted.empty()) return Value::of_size(count_code_points(self.bytes()) + 1);
  Int count = 0;
  for (size_t at = 0; (at = find_bytes(self.bytes(), wanted, at)) != kNone; at += wanted.size()) ++count;
  return count;
}

Value do_join(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("join", arguments, {"iterable"}, 1);
  std::shared_ptr<const List> items = iterate(p[0], run.budget);
  for (size_t i = 0; i < items->items.size(); ++i)
    if (!items->items[i].is(Kind::text))
      fail("sequence item {}: expected str instance, {} found", i, type_name(items->items[i]));
  return join(self, items->items, run.budget);
}

template <bool from_right>
Value do_partition(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("partition", arguments, {"sep"}, 1);
  const Text& separator = text_argument(p[0]);
  if (separator.empty()) fail("empty separator");
  std::vector<Value> parts = split(self, &separator, 1, from_right, run.budget);
  if (parts.size() == 2) return make_list({parts[0], separator, parts[1]}, true);
  if (from_right) return make_list({Text(), Text(), self}, true);
  return make_list({self, Text(), Text()}, true);
}

// True if the text is not empty and `accepts` every code point.
template <bool (*accepts)(char32_t)>
Value do_all(Run& run, const Text& self, const Arguments&) {
  run.budget.spend_text(4 * self.size());
  for (size_t at = 0; at < self.size();)
    if (!accepts(next_code_point(self.bytes(), at))) return false;
  return !self.empty();
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value do_cased(Run& run, const Text& self, const Arguments&) {
  run.budget.spend_text(4 * self.size());
  bool any = false;
  for (size_t at = 0; at < self.size();) {
    char32_t c = next_code_point(self.bytes(), at);
    if (other(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

template <int left_share>  // how many halves of the padding come first: 0 ljust, 1 center, 2 rjust
Value do_justify(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("center", arguments, {"width", "fillchar"}, 1);
  Text fill = p.text(1, " ", run.budget);
  if (count_code_points(fill.bytes()) != 1) fail("the fill character must be exactly one character long");
  Int width = p.integer(0, 0), size = static_cast<Int>(count_code_points(self.bytes()));
  Int missing = std::max<Int>(width - size, 0);
  // If the padding cannot be halved, Python's str.center puts the extra character left if the width is odd.
  Int left = left_share == 1 ? missing / 2 + (missing & width & 1) : left_share == 0 ? 0 : missing;
  Text out;
  bool trusted = fill.trusted_at(0);
  out.append(padding(left, fill.bytes()).bytes(), trusted);
  out.append(self);
  out.append(padding(missing - left, fill.bytes()).bytes(), trusted);
  return text_value(std::move(out), run.budget);
}

Value do_zfill(Run& run, const Text& self, const Arguments& arguments) {
  Parameters p("zfill", arguments, {"width"}, 1);
  Int missing = std::max<Int>(p.integer(0, 0) - static_cast<Int>(count_code_points(self.bytes())), 0);
  size_t sign = !self.empty() && (self.bytes()[0] == '-' || self.bytes()[0] == '+') ? 1 : 0;
  Text out = self.slice(0, sign);
  out.append(padding(missing, "0"));
  out.append_slice(self, sign, self.size());
  return text_value(std::move(out), run.budget);
}

// str.format with {}, {0} and {name}. Conversions, attributes and format specifications are not supported.
Value do_format(Run& run, const Text& self, const Arguments& arguments) {
  const std::string& s = self.bytes();
  Text out;
  size_t next = 0;
  for (size_t at = 0; at < s.size();) {
    size_t brace = std::min(s.find_first_of("{}", at), s.size());
    out.append_slice(self, at, brace);
    if (brace == s.size()) break;
    at = brace + 1;
    if (at < s.size() && s[at] == s[brace]) {  // a doubled brace is written as a single one
      out.append_slice(self, at, at + 1);
      ++at;
      continue;
    }
    size_t close = s[brace] == '{' ? s.find('}', at) : kNone;
    if (close == kNone) fail("single '{}' encountered in format string", s[brace]);
    std::string field = s.substr(at, close - at);
    at = close + 1;
    const Value* value = nullptr;
    if (field.find_first_not_of("0123456789") == std::string::npos && field.size() < 9) {
      size_t index = field.empty() ? next++ : std::stoul(field);
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    }
    for (const auto& [name, argument] : arguments.named)
      if (name == field) value = &argument;
    if (value == nullptr) fail("the format field '{{{}}}' has no argument or is not supported", field);
    out.append(to_text(*value, run.budget));
    if (out.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
  }
  return text_value(std::move(out), run.budget);
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_digit(c);
}

using Method = Value (*)(Run&, const Text& self, const Arguments&);
constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"strip", do_strip<Side::both>},
    {"lstrip", do_strip<Side::left>},
    {"rstrip", do_strip<Side::right>},
    {"split", do_split<false>},
    {"rsplit", do_split<true>},
    {"splitlines", do_split_lines},
    {"startswith", do_affix<false>},
    {"endswith", do_affix<true>},
    {"removeprefix", do_remove_affix<false>},
    {"removesuffix", do_remove_affix<true>},
    {"replace", do_replace},
    {"upper", do_case<Casing::upper>},
    {"lower", do_case<Casing::lower>},
    {"casefold", do_case<Casing::lower>},
    {"title", do_case<Casing::title>},
    {"capitalize", do_case<Casing::capitalize>},
    {"swapcase", do_case<Casing::swap>},
    {"find", do_find<false, false>},
    {"rfind", do_find<true, false>},
    {"index", do_find<false, true>},
    {"rindex", do_find<true, true>},
    {"count", do_count},
    {"join", do_join},
    {"partition", do_partition<false>},
    {"rpartition", do_partition<true>},
    {"isdigit", do_all<is_digit>},
    {"isdecimal", do_all<is_digit>},
    {"isnumeric", do_all<is_digit>},
    {"isalpha", do_all<is_alpha>},
    {"isalnum", do_all<is_alnum>},
    {"isspace", do_all<is_space>},
    {"isupper", do_cased<is_upper, is_lower>},
    {"islower", do_cased<is_lower, is_upper>},
    {"ljust", do_justify<0>},
    {"center", do_justify<1>},
    {"rjust", do_justify<2>},
    {"zfill", do_zfill},
    {"format", do_format},
};

}  // namespace

std::optional<Value> find_text_method(const Value& object, std::string_view name) {
  for (const auto& [key, method] : kMethods) {
    if (key != name) continue;
    return Value(std::make_shared<const Function>(
        Function{std::string(name), [method = method, object](Run& run, const Arguments& arguments) {
                   return method(run, object.text(), arguments);
                 }}));
  }
  return std::nullopt;
}

}  // namespace anabranch::jinja
