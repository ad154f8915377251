#include "output/tool_python.h"

#include <cctype>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/lenient_json.h"
#include "output/tool_schema.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// Reads up to `most` digits of the base; `least` must be there.
std::optional<char32_t> number_in(std::string_view text, size_t& at, int base, size_t least, size_t most) {
  char32_t value = 0;
  size_t count = 0;
  for (; count < most && at < text.size() && digit_value(text[at]) < base; ++at, ++count)
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(text[at]));
  return count < least ? std::nullopt : std::optional(value);
}

// The character of an escape with a number, of which `at` is behind the backslash. JSON's pairs of surrogates
// count as one character.
std::optional<char32_t> numbered(std::string_view text, size_t& at) {
  const char kind = text[at];
  if (digit_value(kind) < 8) return number_in(text, at, 8, 1, 3);
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) return std::nullopt;
  size_t end = at + 1;
  auto value = number_in(text, end, 16, digits, digits);
  if (value && *value >= 0xD800 && *value < 0xDC00 && text.substr(end, 2) == "\\u") {
    size_t low_end = end + 2;
    const auto low = number_in(text, low_end, 16, 4, 4);
    if (low && *low >= 0xDC00 && *low < 0xE000) {
      value = 0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00);
      end = low_end;
    }
  }
  if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value < 0xE000)) return std::nullopt;
  at = end;
  return value;
}

// Reads an escape, of which `at` is behind the backslash. One that Python does not know stays as it is.
void unescape(std::string_view text, size_t& at, std::string& out) {
  constexpr std::string_view kNames = "\\'\"nrtbfav", kCharacters = "\\'\"\n\r\t\b\f\a\v";
  if (const size_t known = kNames.find(text[at]); known != kNames.npos) {
    out += kCharacters[known];
    ++at;
  } else if (text[at] == '\n') {
    ++at;
  } else if (const auto value = numbered(text, at)) {
    append_utf8(out, *value);
  } else {
    out += '\\';
  }
}

std::string quotes_at(std::string_view text) {
  const std::string three(3, text[0]);
  return text.starts_with(three) ? three : three.substr(0, 1);
}

// Whether a string ends with the quote before this text. Models write quotes in it without a backslash: a
// word goes on behind those, but never behind a string.
Scan ends_string(std::string_view behind) {
  const size_t at = behind.find_first_not_of(kSpace);
  if (at == behind.npos) return Scan::more;
  const auto c = static_cast<unsigned char>(behind[at]);
  return std::isalnum(c) || c == '_' || c >= 0x80 ? Scan::broken : Scan::complete;
}

// The text of a string literal; nullopt if this is not exactly one.
std::optional<std::string> string_literal(std::string_view text) {
  const std::string quotes = quotes_at(text);
  std::string out;
  for (size_t at = quotes.size(); at < text.size();) {
    const bool quoted = text.substr(at).starts_with(quotes);
    if (quoted && at + quotes.size() == text.size()) return out;
    if (quoted && (quotes.size() > 1 || ends_string(text.substr(at + 1)) != Scan::broken))
      return std::nullopt;
    const char c = text[at++];
    if (c == '\\' && at < text.size())
      unescape(text, at, out);
    else
      out += c;
  }
  return std::nullopt;
}

}  // namespace

Scan PythonScan::advance(std::string_view text, size_t& at) {
  while (at < text.size()) {
    const char c = text[at];
    if (escaped_ || (!quote_.empty() && c == '\\')) {
      escaped_ = !escaped_;
    } else if (!quote_.empty()) {
      Scan end = begins_with(text.substr(at), quote_);
      if (end == Scan::complete && quote_.size() == 1) end = ends_string(text.substr(at + 1));
      if (end == Scan::more) return end;
      if (end == Scan::complete) {
        at += quote_.size();
        quote_.clear();
        continue;
      }
    } else if (c == '"' || c == '\'') {
      if (begins_with(text.substr(at), std::string(3, c)) == Scan::more) return Scan::more;
      quote_ = quotes_at(text.substr(at));
      at += quote_.size();
      continue;
    } else if (c == '(' || c == '[' || c == '{') {
      open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) return Scan::broken;
      open_.pop_back();
      if (open_.empty()) {
        ++at;
        return Scan::complete;
      }
    } else if (c == ',' && open_.size() == 1) {
      commas_.push_back(at);
    }
    ++at;
  }
  return Scan::more;
}

PythonValue python_value(const Json& tools, std::string_view tool, const std::string& key,
                         std::string_view text) {
  if (text.empty() || text[0] == '(') return {{}, true};
  if (text[0] == '"' || text[0] == '\'') {
    const auto literal = string_literal(text);
    if (!literal || !is_valid_utf8(*literal)) return {{}, true};
    return {typed_argument(tools, tool, key, *literal, true)};
  }
  const bool is_text = must_be_text(tools, tool, key);
  if (text == "None" && is_text) return {};
  if (is_text) return {json_string(text)};
  if (text[0] == '[' || text[0] == '{') {
    auto json = lenient_json(text);
    const bool error = !json;
    return {std::move(json), error};
  }
  if (text == "True" || text == "False") return {text == "True" ? "true" : "false"};
  if (text == "None") return {"null"};
  return {typed_argument(tools, tool, key, text)};
}

}  // namespace anabranch
