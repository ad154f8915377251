#include "output/parameter_value.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/output_format.h"
#include "output/tool_call.h"

namespace anabranch {
namespace {

constexpr std::string_view kClose = "</parameter>", kParameter = "<parameter=";
constexpr std::string_view kTags[] = {kClose, kFunctionClose, kCallClose, kFunctionOpen, kParameter};
constexpr std::string_view kFollowers[] = {kParameter, kFunctionClose, kCallClose};
constexpr size_t kMaxSpaces = 64;  // between <function=NAME> and its first parameter
constexpr size_t kMaxNearlyClose = 40;

// Whether this line is what models write for </parameter>: </parameters>, </parameter1>, </param>, ...
bool is_nearly_close(std::string_view line) {
  line = trimmed(line);
  if (line.empty() || line.size() > kMaxNearlyClose || line.front() != '<') return false;
  line.remove_prefix(1);
  const bool closes = line.substr(0, 1) == "/";
  line.remove_prefix(std::min(line.find_first_not_of("/ "), line.size()));
  if (line.substr(0, 5) != "param" || line.find_first_of(closes ? "<" : "<=") != std::string_view::npos)
    return false;
  const size_t word_end = std::min(line.find_first_of(" \t"), line.size());
  return line.substr(word_end).find_first_not_of("/> \t") == std::string_view::npos;
}

// Whether a line that begins like this may go on to be nearly </parameter>.
bool may_be_nearly_close(std::string_view line) {
  line = trimmed(line);
  if (line.empty()) return true;
  if (line.size() > kMaxNearlyClose || line.front() != '<') return false;
  line.remove_prefix(1);
  line.remove_prefix(std::min(line.find_first_not_of("/ "), line.size()));
  return begins_with(line, "param") != Scan::broken;
}

}  // namespace

Scan ValueScan::advance(std::string_view text, TextEnd end,
                        const std::function<bool(std::string_view)>& expected) {
  text_ = text;
  text_end_ = end;
  while ((at_ = std::min(text_.find('<', at_), text_.size())) < text_.size()) {
    const Scan scan = tag(expected);
    if (scan == Scan::complete || (scan == Scan::more && end == TextEnd::none)) return scan;
    if (scan == Scan::more) ++at_;
  }
  return end == TextEnd::none ? Scan::more : settle();
}

std::string_view ValueScan::certain(std::string_view text) const {
  size_t end = std::min(at_, text.size());
  for (const auto& other : {inner_, line_})  // the value may turn out to end there
    if (other) end = std::min(end, other->at);
  auto value = text.substr(begin_, end - begin_);
  if (!value.empty() && value.front() == '\n') value.remove_prefix(1);
  if (!value.empty() && value.back() == '\n') value.remove_suffix(1);
  // Only the end is looked at, because this runs for each token. Of a line that is longer and mostly blank,
  // nothing is certain.
  constexpr size_t kLooked = 1024;
  const auto tail = value.substr(value.size() - std::min(value.size(), kLooked));
  size_t line_end = tail.rfind('\n');
  if (line_end == std::string_view::npos && tail.size() < value.size())
    return trimmed(tail).size() > kMaxNearlyClose ? value : std::string_view();
  if (line_end != std::string_view::npos) line_end += value.size() - tail.size();
  const size_t last = line_end == std::string_view::npos ? 0 : line_end + 1;
  return may_be_nearly_close(value.substr(last)) ? value.substr(0, last > 0 ? line_end : 0) : value;
}

std::string_view ValueScan::value(std::string_view text) const {
  auto value = text.substr(begin_, end_.at - begin_);
  const bool closed = end_.next != end_.at;
  if (!value.empty() && value.front() == '\n') value.remove_prefix(1);
  if (!value.empty() && value.back() == '\n') value.remove_suffix(1);
  if (closed) return value;
  const size_t line_end = value.rfind('\n');
  const size_t last = line_end == std::string_view::npos ? 0 : line_end + 1;
  if (is_nearly_close(value.substr(last))) value = value.substr(0, last > 0 ? line_end : 0);
  return value;
}

Scan ValueScan::tag(const std::function<bool(std::string_view)>& expected) {
  bool may = false;
  for (const std::string_view tag : kTags) {
    const Scan found = begins_with(text_.substr(at_), tag);
    may = may || found == Scan::more;
    if (found != Scan::complete) continue;
    if (tag == kClose) return closer();
    if (exact_) return pass(tag.size());
    if (tag == kFunctionOpen) return function();
    if (tag == kParameter) return parameter(expected);
    if (depth_ == 0 && begins_line() && !line_) line_ = End{at_, at_};
    if (depth_ > 0 && tag == kFunctionClose) --depth_;
    return pass(tag.size());
  }
  return may ? Scan::more : pass(1);
}

// A grammar writes the closing tag on a line of its own, and no other line like it.
Scan ValueScan::own_line() {
  const size_t next = at_ + kClose.size();
  if (begins_line() && next == text_.size() && text_end_ == TextEnd::none) return Scan::more;
  if (!begins_line() || text_.substr(next, 1) != "\n") return pass(kClose.size());
  end_ = {at_, next};
  return Scan::complete;
}

Scan ValueScan::closer() {
  if (exact_) return own_line();
  const End here{at_, at_ + kClose.size()};
  look_ = std::min(text_.find_first_not_of(kSpace, std::max(look_, here.next)), text_.size());
  // The model ended its turn here: only marks are missing.
  bool ends = text_end_ == TextEnd::by_model && is_part_of_close(ToolFormat::tagged, text_.substr(look_)),
       may = false;
  for (const std::string_view follower : kFollowers) {
    const Scan found = begins_with(text_.substr(look_), follower);
    ends = ends || found == Scan::complete;
    may = may || found == Scan::more;
  }
  if (ends && depth_ == 0) {
    end_ = here;
    return Scan::complete;
  }
  if (!ends && may && text_end_ == TextEnd::none) return Scan::more;
  if (ends && !inner_) inner_ = here;
  return pass(kClose.size());
}

// <function=NAME> and a parameter: a call in the value.
Scan ValueScan::function() {
  const Scan named = name(at_ + kFunctionOpen.size());
  if (named != Scan::complete) return named == Scan::more ? named : pass(kFunctionOpen.size());
  const auto behind = text_.substr(name_end_ + 1, kMaxSpaces + kParameter.size());
  const size_t first = std::min(behind.find_first_not_of(kSpace), behind.size());
  const Scan found = begins_with(behind.substr(first), kParameter);
  if (found == Scan::more && first <= kMaxSpaces) return Scan::more;
  if (found == Scan::complete) ++depth_;
  return pass(kFunctionOpen.size());
}

Scan ValueScan::parameter(const std::function<bool(std::string_view)>& expected) {
  if (depth_ > 0 || !begins_line()) return pass(kParameter.size());
  const size_t begin = at_ + kParameter.size();
  const Scan named = name(begin);
  if (named != Scan::complete) return named == Scan::more ? named : pass(kParameter.size());
  if (!expected(trimmed(text_.substr(begin, name_end_ - begin)))) return pass(kParameter.size());
  end_ = {at_, at_};
  return Scan::complete;
}

Scan ValueScan::name(size_t at) {
  const auto text = text_.substr(at, kMaxNameBytes + 1);
  const size_t size = text.find_first_of("<>\n");
  if (size == std::string_view::npos) return text.size() > kMaxNameBytes ? Scan::broken : Scan::more;
  name_end_ = at + size;
  return text[size] == '>' && size > 0 ? Scan::complete : Scan::broken;
}

// No </parameter> ends the value, and nothing follows.
Scan ValueScan::settle() {
  if (inner_ && (!line_ || inner_->at < line_->at))
    end_ = *inner_;
  else if (line_ && (inner_ || text_end_ == TextEnd::by_model))  // what is cut may have gone on
    end_ = *line_;
  else
    return Scan::broken;
  return Scan::complete;
}

}  // namespace anabranch
