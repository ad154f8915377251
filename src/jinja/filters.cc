// Filters on texts and numbers, and the table of all filters.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "jinja/json.h"
#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"
#include "jinja/sequence_filters.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

Value do_trim(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("trim", arguments, {"chars"});
  std::optional<std::string> chars;
  if (p.has(0) && !p[0].is(Kind::none)) chars = p.text(0, "", run.budget).bytes();
  Text text = to_text(v, run.budget);
  run.budget.spend_text(text.size() * (1 + (chars ? chars->size() : 0) / 16));
  return strip(text, chars, Side::both);
}

template <Casing casing>
Value do_case(Run& run, const Value& v, const Arguments&) {
  return change_case(to_text(v, run.budget), casing, run.budget);
}

// The filter `title` differs from str.title(): a word begins after white space, a hyphen or an opening
// bracket, but not after an apostrophe.
Value do_title(Run& run, const Value& v, const Arguments&) {
  Text text = to_text(v, run.budget), out;
  run.budget.spend_text(4 * text.size());
  bool start = true;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    char32_t c = next_code_point(text.bytes(), at);
    bool separator = is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                                     std::string_view::npos);
    std::string changed;
    if (start && !separator)
      append_upper(changed, c);
    else
      append_lower(changed, c);
    start = separator;
    out.append(changed, text.trusted_at(begin));
  }
  return out;
}

Value do_replace(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("replace", arguments, {"old", "new", "count"}, 2);
  return replace(to_text(v, run.budget), p.text(0, "", run.budget), p.text(1, "", run.budget),
                 p.integer(2, -1), run.budget);
}

Value do_string(Run& run, const Value& v, const Arguments&) {
  return to_text(v, run.budget);
}

Value do_safe(Run&, const Value& v, const Arguments&) {
  return v;
}

Value do_escape(Run& run, const Value& v, const Arguments&) {
  Text text = to_text(v, run.budget), out;
  run.budget.spend_text(4 * text.size());
  size_t plain = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string_view entity;
    switch (text.bytes()[at]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '"':
        entity = "&#34;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      default:
        continue;
    }
    out.append_slice(text, plain, at);
    out.append(entity, text.trusted_at(at));
    plain = at + 1;
  }
  out.append_slice(text, plain, text.size());
  return out;
}

Value do_indent(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("indent", arguments, {"width", "first", "blank"});
  Text indent = p.has(0) && p[0].is(Kind::text) ? p[0].text() : padding(p.integer(0, 4));
  Text text = to_text(v, run.budget);
  text.append("\n", true);  // a last line without a newline counts as a line
  Text out;
  if (p.flag(1, false)) out.append(indent);
  std::vector<Text> lines = split_lines(text, false, run.budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    run.budget.spend_text(indent.size());
    if (out.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    if (i) out.append("\n", true);
    if (i && (p.flag(2, false) || !lines[i].empty())) out.append(indent);
    out.append(lines[i]);
  }
  return text_value(std::move(out), run.budget);
}

Value do_truncate(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Text text = to_text(v, run.budget), end = p.text(2, "...", run.budget);
  Int length = p.integer(0, 255), end_size = static_cast<Int>(count_code_points(end.bytes()));
  if (length < end_size) fail("truncate: the length {} is less than that of the end", format_integer(length));
  if (static_cast<Int>(count_code_points(text.bytes())) <= length + std::max<Int>(p.integer(3, 5), 0))
    return text;
  size_t keep = byte_offset(text.bytes(), static_cast<size_t>(length - end_size));
  if (!p.flag(1, false)) {
    size_t space = text.bytes().substr(0, keep).rfind(' ');
    if (space != std::string::npos) keep = space;
  }
  Text out = text.slice(0, keep);
  out.append(end);
  return out;
}

Value do_format(Run& run, const Value& v, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("format takes no keyword arguments");
  return format_percent(to_text(v, run.budget), arguments.positional, run.budget);
}

Value do_word_count(Run& run, const Value& v, const Arguments&) {
  Text text = to_text(v, run.budget);
  run.budget.spend_text(4 * text.size());
  Int words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = next_code_point(text.bytes(), at);
    bool word = c == '_' || is_alpha(c) || is_digit(c);
    words += word && !inside;
    inside = word;
  }
  return words;
}

Value do_to_json(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (p.has(1) && !p[1].is(Kind::none)) {
    style.pretty = true;
    style.indent =
        p[1].is(Kind::text) ? p[1].text().bytes() : padding(std::min<Int>(p.integer(1, 0), 1000)).bytes();
    style.item_separator = ",";
  }
  if (p.has(2) && !p[2].is(Kind::none)) {
    std::shared_ptr<const List> separators = iterate(p[2], run.budget);
    if (separators->items.size() != 2) fail("tojson: separators must be a pair");
    style.item_separator = to_text(separators->items[0], run.budget).bytes();
    style.key_separator = to_text(separators->items[1], run.budget).bytes();
  }
  return untrusted(to_json(v, style, run.budget));
}

// --- numbers ---

// Python's int(s, base) with a sign, a prefix of the base and underscores between digits.
std::optional<Int> parse_integer(std::string_view s, Int base) {
  bool negative = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  static constexpr std::pair<std::string_view, Int> kPrefixes[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};
  for (const auto& [prefix, its_base] : kPrefixes)
    if (base == its_base && s.size() > 2 && s[0] == '0' && (s[1] | 0x20) == prefix[1]) s.remove_prefix(2);
  if (s.empty() || s.front() == '_' || s.back() == '_') return std::nullopt;
  Int value = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    char c = s[i];
    if (c == '_' && s[i - 1] != '_') continue;
    int digit = c >= '0' && c <= '9'                          ? c - '0'
                : std::isalpha(static_cast<unsigned char>(c)) ? (c | 0x20) - 'a' + 10
                                                              : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      fail("the number is too large");
  }
  return negative ? -value : value;
}

std::optional<double> parse_real(std::string s) {
  // strtod also takes hexadecimal and "nan(...)", which Python does not.
  if (s.empty() || s.find_first_of("xX(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  double d = std::strtod(s.c_str(), &end);
  if (end != s.c_str() + s.size()) return std::nullopt;
  return d;
}

std::optional<double> real_of(const Value& v) {
  if (v.numeric()) return v.real();
  if (v.is(Kind::text)) return parse_real(strip(v.text(), std::nullopt, Side::both).bytes());
  return std::nullopt;
}

Value do_int(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("int", arguments, {"default", "base"});
  run.budget.spend(1);
  Value otherwise = p.has(0) ? p[0] : Value(Int{0});
  if (v.integral()) return v.integer();
  if (v.is(Kind::text)) {
    std::string digits = strip(v.text(), std::nullopt, Side::both).bytes();
    if (auto value = parse_integer(digits, std::clamp<Int>(p.integer(1, 10), 2, 36))) return *value;
  }
  std::optional<double> real = real_of(v);
  if (!real || !(std::abs(*real) < 1e37)) return otherwise;
  return static_cast<Int>(*real);
}

Value do_float(Run&, const Value& v, const Arguments& arguments) {
  Parameters p("float", arguments, {"default"});
  if (std::optional<double> real = real_of(v)) return *real;
  return p.has(0) ? p[0] : Value(0.0);
}

Value do_abs(Run&, const Value& v, const Arguments&) {
  if (v.integral()) return v.integer() < 0 ? negate(v) : Value(v.integer());
  if (v.is(Kind::real)) return std::abs(v.real());
  if (v.is(Kind::undefined)) fail("{}", v.why());
  fail("bad operand type for abs(): '{}'", type_name(v));
}

Value do_round(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("round", arguments, {"precision", "method"});
  Int precision = std::clamp<Int>(p.integer(0, 0), -300, 300);
  std::string method = p.text(1, "common", run.budget).bytes();
  if (!v.numeric()) fail("round needs a number, not a {}", type_name(v));
  if (method == "common") {
    if (v.integral() && precision >= 0) return v.integer();
    if (precision >= 0)  // rounds the exact binary value in decimal, as Python does
      return std::strtod(fmt::format("{:.{}f}", v.real(), static_cast<int>(precision)).c_str(), nullptr);
  } else if (method != "ceil" && method != "floor") {
    fail("round: method must be common, ceil or floor");
  }
  double scale = std::pow(10.0, static_cast<double>(precision)), scaled = v.real() * scale;
  double whole = method == "ceil"    ? std::ceil(scaled)
                 : method == "floor" ? std::floor(scaled)
                                     : std::nearbyint(scaled);
  if (method == "common" && v.integral()) return do_int(run, whole / scale, {});
  return whole / scale;
}

Value do_default(Run&, const Value& v, const Arguments& arguments) {
  Parameters p("default", arguments, {"default_value", "boolean"});
  bool missing = v.is(Kind::undefined) || (p.flag(1, false) && !truthy(v));
  return !missing ? v : p.has(0) ? p[0] : Value(Text());
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"trim", do_trim},
    {"upper", do_case<Casing::upper>},
    {"lower", do_case<Casing::lower>},
    {"capitalize", do_case<Casing::capitalize>},
    {"title", do_title},
    {"replace", do_replace},
    {"string", do_string},
    {"safe", do_safe},
    {"escape", do_escape},
    {"e", do_escape},
    {"indent", do_indent},
    {"truncate", do_truncate},
    {"format", do_format},
    {"wordcount", do_word_count},
    {"tojson", do_to_json},
    {"int", do_int},
    {"float", do_float},
    {"abs", do_abs},
    {"round", do_round},
    {"default", do_default},
    {"d", do_default},
};

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto& [key, filter] : kFilters)
    if (key == name) return filter;
  return find_sequence_filter(name);
}

}  // namespace anabranch::jinja
