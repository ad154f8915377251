#include "jinja/strings.h"

#include <algorithm>

#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool is_stripped(std::string_view one, const std::optional<std::string>& chars) {
  size_t at = 0;
  if (!chars) return is_space(next_code_point(one, at));
  return chars->find(one) != kNone;  // compares whole code points, since UTF-8 matches only at their borders
}

std::vector<Value> split_at_spaces(const Text& text, Int limit, Budget& budget) {
  const std::string& s = text.bytes();
  std::vector<Value> parts;
  size_t begin = kNone;
  for (size_t at = 0; at < s.size();) {
    size_t here = at;
    bool space = is_space(next_code_point(s, at));
    if (!space && begin == kNone) {
      begin = here;
      if (limit >= 0 && static_cast<Int>(parts.size()) == limit) {
        parts.push_back(text.slice(begin, s.size()));
        return parts;
      }
    } else if (space && begin != kNone) {
      budget.spend(2);
      parts.push_back(text.slice(begin, here));
      begin = kNone;
    }
  }
  if (begin != kNone) parts.push_back(text.slice(begin, s.size()));
  return parts;
}

std::vector<Value> rsplit_at_spaces(const Text& text, Int limit, Budget& budget) {
  std::vector<Value> parts;
  Text rest = strip(text, std::nullopt, Side::right);
  size_t end = rest.size();
  const std::string& s = rest.bytes();
  while (end > 0 && (limit < 0 || static_cast<Int>(parts.size()) < limit)) {
    budget.spend(2);
    size_t begin = end;
    while (begin > 0 && !is_stripped(std::string_view(s).substr(previous_code_point(s, begin), begin), {}))
      begin = previous_code_point(s, begin);
    parts.push_back(rest.slice(begin, end));
    while (begin > 0 && is_stripped(std::string_view(s).substr(previous_code_point(s, begin), begin), {}))
      begin = previous_code_point(s, begin);
    end = begin;
  }
  if (end > 0) parts.push_back(rest.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text strip(const Text& text, const std::optional<std::string>& chars, Side side) {
  std::string_view s = text.bytes();
  size_t begin = 0, end = s.size();
  while (side != Side::right && begin < end) {
    size_t next = begin;
    next_code_point(s, next);
    if (!is_stripped(s.substr(begin, next - begin), chars)) break;
    begin = next;
  }
  while (side != Side::left && end > begin) {
    size_t last = previous_code_point(s, end);
    if (!is_stripped(s.substr(last, end - last), chars)) break;
    end = last;
  }
  return text.slice(begin, end);
}

Text change_case(const Text& text, Casing casing, Budget& budget) {
  const std::string& s = text.bytes();
  budget.spend_text(4 * s.size());
  Text out;
  bool inside = false;  // whether a letter precedes (title), or any character does (capitalize)
  for (size_t at = 0; at < s.size();) {
    size_t begin = at;
    char32_t c = next_code_point(s, at);
    std::string changed;
    bool upper = casing == Casing::upper || (casing == Casing::swap && is_lower(c));
    bool start = (casing == Casing::title || casing == Casing::capitalize) && !inside;
    if (start)
      append_title(changed, c);
    else if (upper)
      append_upper(changed, c);
    else
      append_lower(changed, c);
    inside = casing == Casing::capitalize || is_alpha(c);
    out.append(changed, text.trusted_at(begin));
  }
  return out;
}

Text replace(const Text& text, const Text& from, const Text& to, Int limit, Budget& budget) {
  const std::string& s = text.bytes();
  budget.spend_text(s.size());
  Text out;
  size_t at = 0;
  for (Int count = 0; limit < 0 || count < limit; ++count) {
    size_t found = find_bytes(s, from.bytes(), at);
    if (found == kNone) break;
    budget.spend(1);
    out.append_slice(text, at, found);
    budget.spend_text(to.size());
    if (out.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    out.append(to);
    at = found + from.size();
    if (!from.empty()) continue;
    // An empty `from` is found before every character and at the end.
    if (at >= s.size()) return out;
    next_code_point(s, at);
    out.append_slice(text, found, at);
  }
  out.append_slice(text, at, s.size());
  return out;
}

std::vector<Value> split(const Text& text, const Text* separator, Int limit, bool from_right,
                         Budget& budget) {
  const std::string& s = text.bytes();
  budget.spend_text(s.size());
  if (separator == nullptr)
    return from_right ? rsplit_at_spaces(text, limit, budget) : split_at_spaces(text, limit, budget);
  if (separator->empty()) fail("empty separator");
  size_t width = separator->size();
  std::vector<Value> parts;
  auto room = [&] { return limit < 0 || static_cast<Int>(parts.size()) < limit; };
  if (!from_right || limit < 0) {
    size_t at = 0;
    for (size_t found; room() && (found = find_bytes(s, separator->bytes(), at)) != kNone;
         at = found + width) {
      budget.spend(2);
      parts.push_back(text.slice(at, found));
    }
    parts.push_back(text.slice(at, s.size()));
    return parts;
  }
  size_t end = s.size();
  while (room() && end >= width) {
    budget.spend(2 + s.size() / 64 * width / 16);  // rfind compares up to `width` bytes at each place
    size_t found = s.rfind(separator->bytes(), end - width);
    if (found == kNone) break;
    parts.push_back(text.slice(found + width, end));
    end = found;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  const std::string& s = text.bytes();
  budget.spend_text(s.size());
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < s.size();) {
    size_t end = at;
    char32_t c = next_code_point(s, at);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at < s.size() && s[at] == '\n') ++at;
    budget.spend(2);
    lines.push_back(text.slice(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < s.size()) lines.push_back(text.slice(begin, s.size()));
  return lines;
}

Text join(const Text& separator, const std::vector<Value>& values, Budget& budget) {
  Text out;
  for (size_t i = 0; i < values.size(); ++i) {
    budget.spend_text(separator.size());
    if (i) out.append(separator);
    out.append(to_text(values[i], budget));
    if (out.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
  }
  return out;
}

Text padding(Int count, std::string_view fill) {
  if (count > static_cast<Int>(kMaxTextBytes / 4))
    fail_limit("a padding of more than {} bytes", kMaxTextBytes / 4);
  std::string out;
  for (Int i = 0; i < count; ++i) out += fill;
  return Text(std::move(out), true);
}

}  // namespace anabranch::jinja
