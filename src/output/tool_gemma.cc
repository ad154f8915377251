#include "output/tool_gemma.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"

namespace anabranch {

// Models fall back to Python's quotes. A string in them ends before a separator or bracket, and holds no
// marks: text with an apostrophe does not.
Scan GemmaScan::apostrophe(std::string_view text, size_t at, bool end) {
  const Scan unsettled = end ? Scan::broken : Scan::more;
  look_ = std::max(look_, at + 1);
  while (look_ < text.size() && text[look_] != '\'') {
    for (const std::string_view mark : {marks_.quote, marks_.call_end})
      if (const Scan found = begins_with(text.substr(look_), mark); found != Scan::broken)
        return found == Scan::complete ? Scan::broken : unsettled;
    const size_t step = text[look_] == '\\' ? 2 : 1;
    if (look_ + step > text.size()) return unsettled;
    look_ += step;
  }
  const size_t behind = text.find_first_not_of(kSpace, std::min(look_ + 1, text.size()));
  if (behind == std::string_view::npos) return unsettled;
  if (std::string_view(",:]}").find(text[behind]) == std::string_view::npos) return Scan::broken;
  ++look_;
  return Scan::complete;
}

Scan GemmaScan::advance(std::string_view text, size_t& at, bool end) {
  const std::string_view quote = marks_.quote;
  while (at < text.size()) {
    const char c = text[at];
    if (string_.is_open()) {
      string_.take(c);
      ++at;
      continue;
    }
    if (c == quote[0]) {
      const Scan found = begins_with(text.substr(at), quote);
      if (found == Scan::complete) {
        in_quote_ = !in_quote_;
        fresh_ = false;
        at += quote.size();
        continue;
      }
      if (found == Scan::more) return Scan::more;
      if (!in_quote_) return Scan::broken;
    }
    if (!in_quote_ && !open_.empty() && fresh_ && c == '\'') {
      const Scan found = apostrophe(text, at, end);
      if (found == Scan::more) return Scan::more;
      fresh_ = false;
      at = found == Scan::complete ? look_ : at + 1;
      continue;
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

}  // namespace anabranch
