#include "output/tool_gemma.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/tool_schema.h"

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
        cross_mark(at);
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
      take(c, at);
    }
    ++at;
  }
  return Scan::more;
}

void GemmaScan::cross_mark(size_t at) {
  auto& text = members_.back().text;
  if (in_quote_ && text && !text->end) text->end = at;
  if (!in_quote_ && open_.size() == 1 && fresh_ && colons_ == 1) text = {at + marks_.quote.size(), {}};
  in_quote_ = !in_quote_;
  fresh_ = false;
}

void GemmaScan::take(char c, size_t at) {
  if (is_space(c)) return;
  fresh_ = c == '{' || c == '[' || c == ',' || c == ':';
  if (open_.size() != 1) return;
  if (c == ':') ++colons_;
  if (c != ',') return;
  members_.back().end = at;
  members_.emplace_back();
  colons_ = 0;
}

void GemmaArguments::send(std::string_view text, size_t at, std::string& sent) {
  while (!stopped_) {
    const GemmaScan::Member& member = scan_.members()[member_];
    if (member.text && is_text_) send_text(text, *member.text, at, sent);
    if (!member.end) return;
    stopped_ = !send_member(text.substr(begin_, *member.end - begin_), sent);
    ++member_;
    begin_ = *member.end + 1;
    ahead_ = text_at_ = 0;
    is_text_ = true;
  }
}

bool GemmaArguments::send_member(std::string_view member, std::string& sent) {
  const auto object = json('{' + std::string(member) + '}');
  if (!object) return false;
  if (*object == "{}") return true;
  sent += ((first_ ? "{" : ",") + object->substr(1, object->size() - 2)).substr(ahead_);
  first_ = false;
  return true;
}

void GemmaArguments::send_text(std::string_view text, const GemmaScan::Text& value, size_t at,
                               std::string& sent) {
  if (text_at_ == 0) {
    const std::string head = text_head(text.substr(begin_, value.begin - begin_));
    is_text_ = !head.empty();
    if (!is_text_) return;
    sent += (first_ ? "{" : ",") + head;
    ahead_ = 1 + head.size();
    text_at_ = value.begin;
  }
  const size_t end = value.end.value_or(at);
  const std::string quoted = json_string(text.substr(text_at_, end - text_at_));
  sent += std::string_view(quoted).substr(1, quoted.size() - 2);
  ahead_ += quoted.size() - 2;
  text_at_ = end;
}

std::string GemmaArguments::text_head(std::string_view member) const {
  const auto object = json('{' + std::string(member) + std::string(marks_.quote) + '}');
  if (!object || !object->ends_with("\"\"}")) return "";
  const Json read = *parse_json(*object);
  if (!must_be_text(*tools_, tool_, read.begin().key(), true)) return "";
  return object->substr(1, object->size() - 3);
}

std::optional<std::string> GemmaArguments::json(std::string_view object) const {
  const auto typed = [&](const std::string& key, std::string_view text, bool quoted) {
    return typed_argument(*tools_, tool_, key, text, quoted);
  };
  return lenient_json(object, {marks_.quote, typed});
}

}  // namespace anabranch
