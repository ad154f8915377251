// Reads calls whose arguments stand between tags of their own (PairTags).
#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/call_scanner.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

constexpr size_t kMaxPairs = 1024;

// Where the next tag of a call may begin: behind white space, but not behind any amount of it, because that
// is read again with each piece.
size_t next_tag(std::string_view text, size_t at) {
  constexpr size_t kMaxSpaces = 256;
  const auto spaces = text.substr(at, kMaxSpaces);
  return at + std::min(spaces.find_first_not_of(kSpace), spaces.size());
}

// Whether the text begins with one of the tags, of which some may be empty: there is none.
Scan begins_with_any(std::string_view text, std::initializer_list<std::string_view> tags) {
  Scan out = Scan::broken;
  for (const std::string_view tag : tags) {
    const Scan scan = tag.empty() ? Scan::broken : begins_with(text, tag);
    if (scan == Scan::complete) return scan;
    if (scan == Scan::more) out = scan;
  }
  return out;
}

// What stands behind a call whose closing tag the model forgot: the end of the block, or another call.
Scan begins_behind_call(ToolFormat format, std::string_view text) {
  const PairTags& tags = *pair_tags(format);
  return begins_with_any(text, {tags.block_close, tags.call_open, call_openers(format)[0]});
}

}  // namespace

std::optional<Scan> CallScanner::pairs() {
  switch (step_) {
    case Step::pair_name:
      return pair_name();
    case Step::pair_key:
      return pair_key();
    case Step::pair_value:
      return pair_value();
    default:
      return after_pairs();
  }
}

std::optional<Scan> CallScanner::pair_name() {
  const PairTags& tags = *pair_tags(format_);
  if (!next()) return Scan::more;
  const auto rest = text_.substr(at_);
  if (const Scan open = begins_with(rest, tags.call_open); open != Scan::complete) return open;
  const auto text = rest.substr(tags.call_open.size());
  const size_t size = tags.name_end.empty() ? text.find_first_of("<\n") : text.find(tags.name_end);
  const auto name = trimmed(text.substr(0, size));
  if (name.size() > kMaxNameBytes) return Scan::broken;
  if (size == text.npos) return Scan::more;
  begin_function(name);
  if (name.empty() || (name.find_first_of(kSpace) != name.npos && !has_tool(*tools_, name_)))
    return Scan::broken;
  at_ += tags.call_open.size() + size + tags.name_end.size();
  step_ = Step::pair_key;
  return std::nullopt;
}

// A name alone is a call only if it is that of a tool: it may be the first word of a text.
std::optional<Scan> CallScanner::pair_key() {
  const PairTags& tags = *pair_tags(format_);
  if (!next()) return Scan::more;
  Scan close = begins_with(text_.substr(at_), tags.call_close);
  const bool closed = close == Scan::complete;
  if (!closed)
    if (const Scan behind = begins_behind_call(format_, text_.substr(at_)); behind != Scan::broken)
      close = behind;
  if (close == Scan::complete) {
    if (key_.empty() && !has_tool(*tools_, name_)) return Scan::broken;
    if (closed) at_ += tags.call_close.size();
    if (!take_function()) return Scan::broken;
    step_ = Step::after_pairs;
    return std::nullopt;
  }
  const Scan open = begins_with(text_.substr(at_), tags.key_open);
  if (open != Scan::complete) return open == Scan::more || close == Scan::more ? Scan::more : Scan::broken;
  const size_t begin = at_ + tags.key_open.size(), end = text_.find(tags.key_close, begin);
  if (std::min(end, text_.size()) - begin > kMaxNameBytes) return Scan::broken;
  if (end == text_.npos) return Scan::more;
  auto key = trimmed(text_.substr(begin, end - begin));
  const bool text = !tags.text_sign.empty() && key.ends_with(tags.text_sign);
  if (text || (!tags.json_sign.empty() && key.ends_with(tags.json_sign)))
    key.remove_suffix((text ? tags.text_sign : tags.json_sign).size());
  if (key.empty() || arguments_.size() >= kMaxPairs) return Scan::broken;
  size_t value = end + tags.key_close.size();
  if (!tags.value_open.empty()) {
    value = next_tag(text_, value);
    if (const Scan found = begins_with(text_.substr(value), tags.value_open); found != Scan::complete)
      return found;
    value += tags.value_open.size();
  }
  begin_parameter(key);
  says_text_ = text;
  if (text) json_.reset();
  if (text && offered_) is_text_ = true;
  begin_ = at_ = value;
  step_ = Step::pair_value;
  return std::nullopt;
}

// A value ends at the first closing tag behind which another pair, the end of the call, or, if that is
// forgotten, the end of the block or another call follows.
std::optional<Scan> CallScanner::pair_value() {
  const PairTags& tags = *pair_tags(format_);
  if (at_ == begin_ && !tags.quote_open.empty()) {
    const Scan quote = quoted_value();
    if (quote != Scan::broken) return quote == Scan::more ? std::optional(quote) : std::nullopt;
  }
  if (json_ && !skip_structure()) return Scan::more;
  while ((at_ = std::min(text_.find('<', at_), text_.size())) < text_.size()) {
    const Scan close = begins_with(text_.substr(at_), tags.value_close);
    if (close == Scan::more) break;
    if (close == Scan::complete) {
      const size_t behind = at_ + tags.value_close.size();
      const auto rest = text_.substr(next_tag(text_, behind));
      const Scan key = begins_with(rest, tags.key_open), call = begins_behind_call(format_, rest);
      Scan end = begins_with(rest, tags.call_close);
      if (call == Scan::complete || (call == Scan::more && end == Scan::broken)) end = call;
      if (key == Scan::complete || end == Scan::complete ||
          (end_ == TextEnd::by_model && end == Scan::more)) {
        take_argument(text_.substr(begin_, at_ - begin_));
        at_ = behind;
        step_ = Step::pair_key;
        return std::nullopt;
      }
      if (key == Scan::more || end == Scan::more) break;
    }
    ++at_;
  }
  send_text(text_.substr(begin_, at_ - begin_));
  return Scan::more;
}

// A value between marks that let it have any text, also the second one, with the closing tag behind them.
// broken: there is none.
Scan CallScanner::quoted_value() {
  const PairTags& tags = *pair_tags(format_);
  const auto rest = text_.substr(begin_);
  const Scan open = begins_with(rest, tags.quote_open);
  if (open != Scan::complete) return open;
  size_t end = tags.quote_open.size(), behind = 0;
  for (Scan close = Scan::broken; close != Scan::complete; end += close == Scan::broken) {
    end = rest.find(tags.quote_close, end);
    if (end == rest.npos) return end_ == TextEnd::none ? Scan::more : Scan::broken;
    behind = next_tag(rest, end + tags.quote_close.size());
    close = begins_with(rest.substr(behind), tags.value_close);
    if (close == Scan::more && end_ == TextEnd::none) return close;
    if (close == Scan::more) return Scan::broken;
  }
  take_argument(rest.substr(tags.quote_open.size(), end - tags.quote_open.size()));
  at_ = begin_ + behind + tags.value_close.size();
  step_ = Step::pair_key;
  return Scan::complete;
}

// In some formats a block has several calls.
std::optional<Scan> CallScanner::after_pairs() {
  const PairTags& tags = *pair_tags(format_);
  if (tags.block_close.empty()) return Scan::complete;
  return after_block(tags.call_open, tags.block_close, Step::pair_name);
}

}  // namespace anabranch
