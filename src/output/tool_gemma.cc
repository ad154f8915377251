#include "output/tool_gemma.h"

namespace anabranch {
namespace {

constexpr int kMaxDepth = 64;

class Reader {
 public:
  Reader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  std::optional<std::string> whole() {
    std::string out;
    if (peek() != '{' || !value(out, 0)) return std::nullopt;
    skip();
    if (at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  // Reads a string between marks, or a JSON string. False: there is neither, or it has no end.
  bool string(std::string& out) {
    const char first = peek();
    if (text_.substr(at_, quote_.size()) == quote_) {
      const size_t begin = at_ + quote_.size(), end = text_.find(quote_, begin);
      if (end == std::string_view::npos) return false;
      out += json_string(text_.substr(begin, end - begin));
      at_ = end + quote_.size();
      return true;
    }
    if (first != '"') return false;
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    const auto literal = text_.substr(at_, end + 1 - at_);
    if (!parse_json(literal).ok()) return false;
    out += literal;
    at_ = end + 1;
    return true;
  }

  std::string_view bare(const char* stops) {
    const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
    const auto text = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    return text;
  }

  bool key(std::string& out) {
    if (string(out)) return true;
    const auto name = bare(":,{}[]");
    if (name.empty()) return false;
    out += json_string(name);
    return true;
  }

  bool list(std::string& out, int depth) {
    out += '[';
    ++at_;
    for (bool first = true; !take(']'); first = false) {
      if (!first && !take(',')) return false;
      if (!first) out += ',';
      if (!value(out, depth + 1)) return false;
    }
    out += ']';
    return true;
  }

  bool object(std::string& out, int depth) {
    out += '{';
    ++at_;
    for (bool first = true; !take('}'); first = false) {
      if (!first && !take(',')) return false;
      if (!first) out += ',';
      if (!key(out) || !take(':')) return false;
      out += ':';
      if (!value(out, depth + 1)) return false;
    }
    out += '}';
    return true;
  }

  bool value(std::string& out, int depth) {
    if (depth > kMaxDepth) return false;
    if (peek() == '{') return object(out, depth);
    if (peek() == '[') return list(out, depth);
    if (string(out)) return true;
    const auto text = bare(",]}");
    if (text.empty()) return false;
    out += literal_json(text).value_or(json_string(text));
    return true;
  }

  std::string_view text_, quote_;
  size_t at_ = 0;
};

}  // namespace

Scan GemmaScan::advance(std::string_view text, size_t& at) {
  while (at < text.size()) {
    const char c = text[at];
    if (string_.is_open()) {
      string_.take(c);
      ++at;
      continue;
    }
    if (c == quote_[0]) {
      const auto here = text.substr(at, quote_.size());
      if (here == quote_) {
        in_quote_ = !in_quote_;
        fresh_ = false;
        at += quote_.size();
        continue;
      }
      if (quote_.substr(0, here.size()) == here) return Scan::more;
      if (!in_quote_) return Scan::broken;
    }
    if (!in_quote_) {
      if (open_.empty() && c != '{') return Scan::broken;
      if (c == '"' && fresh_) string_.open();
      if (c == '{' || c == '[') {
        open_ += c == '{' ? '}' : ']';
      } else if (c == '}' || c == ']') {
        if (open_.back() != c) return Scan::broken;
        open_.pop_back();
        if (open_.empty()) {
          ++at;
          return Scan::complete;
        }
      }
      if (!is_space(c)) fresh_ = c == '{' || c == '[' || c == ',' || c == ':';
    }
    ++at;
  }
  return Scan::more;
}

std::optional<std::string> gemma_to_json(std::string_view text, std::string_view quote) {
  auto json = Reader(text, quote).whole();
  // parse_json() rejects objects with too many keys.
  if (!json || !parse_json(*json).ok()) return std::nullopt;
  return json;
}

}  // namespace anabranch
