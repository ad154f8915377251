#include "output/lenient_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/white_space.h"
#include "output/tool_call.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

const int kMaxDepth = JsonLimits().depth;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_number_byte(char c) {
  return (c >= '0' && c <= '9') || std::string_view("+-.eE").find(c) != std::string_view::npos;
}

// The JSON of a string: text is what stands between its quotes.
std::string string_json(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\\') {
      const size_t size = escape_size(text.substr(i));
      if (size > 0) {
        out += text.substr(i, size);
      } else if (escaped_unit(text.substr(i))) {  // half of a pair, as parse_json() reads it
        out += "\\ufffd";
        i += kEscapeBytes;
        continue;
      } else if (text.substr(i, 2) == "\\'") {
        out += '\'';
        ++i;
      } else {
        out += "\\\\";
      }
      i += std::max<size_t>(size, 1);
      continue;
    }
    if (c == '"')
      out += "\\\"";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
    ++i;
  }
  return out + '"';
}

class Reader {
 public:
  Reader(std::string_view text, const MarkedNotation* notation) : text_(text), notation_(notation) {}

  std::optional<std::string> whole() {
    std::string out;
    const char first = peek();
    if ((first != '{' && first != '[') || !value(out, 0, "")) return std::nullopt;
    if (peek() != '\0' || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  // The next byte that is no white space; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  // Reads a string between marks or quotes. False: there is none, or it has no end.
  bool string(std::string& json) {
    const char quote = peek();
    if (notation_ && text_.substr(at_, notation_->mark.size()) == notation_->mark) {
      const size_t begin = at_ + notation_->mark.size(), end = text_.find(notation_->mark, begin);
      if (end == std::string_view::npos) return false;
      json = json_string(text_.substr(begin, end - begin));
      at_ = end + notation_->mark.size();
      return true;
    }
    if (quote != '"' && quote != '\'') return false;
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    const auto text = text_.substr(begin, end - begin);
    // Otherwise an apostrophe is text.
    if (notation_ && quote == '\'' && (!ends_part(end + 1) || text.find(notation_->mark) != text.npos))
      return false;
    json = string_json(text);
    at_ = end + 1;
    return true;
  }

  // Whether a value or key may end before the byte `at`.
  bool ends_part(size_t at) const {
    at = text_.find_first_not_of(kSpace, at);
    return at != std::string_view::npos && std::string_view(",:]}").find(text_[at]) != std::string_view::npos;
  }

  std::string_view bare(const char* stops) {
    const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
    const auto text = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    return text;
  }

  bool key(std::string& json) {
    if (string(json)) return true;
    if (!notation_) return false;
    const auto name = bare(":,{}[]");
    json = json_string(name);
    return !name.empty();
  }

  bool list(std::string& out, int depth) {
    ++at_;
    out += '[';
    for (bool first = true; !take(']'); first = false) {
      if (!first) out += ',';
      if (!value(out, depth + 1, "")) return false;
      if (!take(',') && peek() != ']') return false;
    }
    out += ']';
    return true;
  }

  bool object(std::string& out, int depth) {
    ++at_;
    out += '{';
    const size_t begin = out.size();
    while (!take('}')) {
      std::string name, member;
      if (!key(name) || !take(':') || !value(member, depth + 1, depth == 0 ? name : "")) return false;
      if (!take(',') && peek() != '}') return false;
      if (member.empty()) continue;
      if (out.size() > begin) out += ',';
      out += name + ':' + member;
    }
    out += '}';
    return true;
  }

  // member: the key as JSON if this is a member of the whole object, otherwise "".
  bool value(std::string& out, int depth, const std::string& member) {
    if (depth > kMaxDepth) return false;
    if (peek() == '{') return object(out, depth);
    if (peek() == '[') return list(out, depth);
    std::string json;
    if (string(json)) {
      out += member.empty() || !notation_ ? json : typed(member, text_of(json), true);
      return true;
    }
    if (!notation_) return constant(out);
    const auto text = bare(",]}");
    if (text.empty()) return false;
    out += member.empty() ? literal_json(text).value_or(json_string(text)) : typed(member, text, false);
    return true;
  }

  // Reads a number, or a constant of JSON or Python.
  bool constant(std::string& out) {
    if (at_ == text_.size()) return false;
    const size_t begin = at_;
    const bool number = is_number_byte(text_[at_]);
    if (!number) ++at_;  // a constant may begin with a capital
    while (at_ < text_.size() && (number ? is_number_byte(text_[at_]) : is_lower(text_[at_]))) ++at_;
    const auto json = literal_json(text_.substr(begin, at_ - begin));
    out += json.value_or("");
    return json.has_value();
  }

  std::string typed(const std::string& member, std::string_view text, bool quoted) const {
    return notation_->typed(text_of(member), text, quoted).value_or("");
  }
  static std::string text_of(const std::string& json) { return parse_json(json)->get<std::string>(); }

  std::string_view text_;
  const MarkedNotation* notation_;
  size_t at_ = 0;
};

std::optional<std::string> read(std::string_view text, const MarkedNotation* notation) {
  if (text.size() > kMaxCallBytes || !is_valid_utf8(text)) return std::nullopt;
  auto json = Reader(text, notation).whole();
  // parse_json() rejects objects with too many keys.
  if (!json || !parse_json(*json).ok()) return std::nullopt;
  return json;
}

}  // namespace

Scan LenientScan::advance(std::string_view text, size_t& at) {
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (string_.is_open()) {
      string_.take(c);
      continue;
    }
    if (open_.empty() && c != '{' && c != '[') return Scan::broken;
    if (c == '\'' || c == 'T' || c == 'F' || c == 'N') odd_at_ = std::min(odd_at_, at);
    if (c == '"' || c == '\'') {
      string_.open(c);
    } else if (c == '{' || c == '[') {
      open_ += c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      if (open_.back() != c) return Scan::broken;
      open_.pop_back();
      if (!open_.empty()) continue;
      ++at;
      return Scan::complete;
    } else if (!is_number_byte(c) && !is_lower(c) && !is_space(c) &&
               std::string_view(",:TFN").find(c) == std::string_view::npos) {
      return Scan::broken;
    }
  }
  return Scan::more;
}

size_t escape_size(std::string_view text) {
  if (text.size() > 1 && std::string_view("\"\\/bfnrt").find(text[1]) != std::string_view::npos) return 2;
  const auto unit = escaped_unit(text);
  if (!unit || is_second_surrogate(*unit)) return 0;
  if (!is_first_surrogate(*unit)) return kEscapeBytes;
  const auto second = escaped_unit(text.substr(kEscapeBytes));
  return second && is_second_surrogate(*second) ? 2 * kEscapeBytes : 0;
}

std::optional<std::string> lenient_json(std::string_view text) {
  return read(text, nullptr);
}

std::optional<std::string> lenient_json(std::string_view text, const MarkedNotation& notation) {
  return read(text, &notation);
}

}  // namespace anabranch
