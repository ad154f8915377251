// Reads calls that are a name and an object in JSON between marks of their own (NameTags), and what stands
// between the calls of a block.
#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/call_scanner.h"
#include "output/tool_names.h"

namespace anabranch {
namespace {

// The name without its prefix and its number.
std::string_view bare_name(std::string_view name, const NameTags& tags) {
  name = trimmed(name);
  if (name.starts_with(tags.prefix)) name.remove_prefix(tags.prefix.size());
  if (!tags.numbered) return name;
  const size_t colon = name.rfind(':');
  const bool number = colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos;
  return number ? name.substr(0, colon) : name;
}

}  // namespace

std::optional<Scan> CallScanner::named() {
  if (step_ == Step::named_name) return named_name();
  if (step_ == Step::named_close) return named_close();
  const NameTags& tags = *name_tags(format_);
  return after_block(tags.call_open, tags.block_close, Step::named_name);
}

std::optional<Scan> CallScanner::named_name() {
  const NameTags& tags = *name_tags(format_);
  if (!next()) return Scan::more;
  const auto rest = text_.substr(at_);
  if (const Scan open = begins_with(rest, tags.call_open); open != Scan::complete) return open;
  const auto read_until = [&](size_t begin, std::string_view end) {
    const size_t at = rest.find(end, begin);
    return std::min(at, rest.size()) - begin > kMaxNameBytes ? rest.size() + 1 : at;
  };
  size_t begin = tags.call_open.size();
  if (!tags.id_end.empty()) {
    const size_t id = read_until(begin, tags.id_end);
    if (id > rest.size()) return id == rest.npos ? Scan::more : Scan::broken;
    begin = id + tags.id_end.size();
  }
  const size_t end = read_until(begin, tags.name_end);
  if (end > rest.size()) return end == rest.npos ? Scan::more : Scan::broken;
  name_ = offered_name(*tools_, bare_name(rest.substr(begin, end - begin), tags));
  if (name_.empty() || name_.find_first_of("<\n") != name_.npos) return Scan::broken;
  begin_ = at_ += end + tags.name_end.size();
  json_.emplace();
  step_ = Step::arguments;
  return std::nullopt;
}

// The marks behind the object, which may be missing.
std::optional<Scan> CallScanner::named_close() {
  const NameTags& tags = *name_tags(format_);
  const size_t call_end = at_;
  step_ = Step::after_named;
  for (const std::string_view mark : {tags.fence, tags.call_close}) {
    if (mark.empty()) continue;
    const size_t before = at_;
    const Scan found = next() ? match(mark) : Scan::more;
    if (found == Scan::broken) at_ = before;
    if (found != Scan::more) continue;
    at_ = call_end;
    step_ = Step::named_close;
    return found;
  }
  return std::nullopt;
}

// Behind a call: another one, the end of the block, or neither, which ends the block, too.
std::optional<Scan> CallScanner::after_block(std::string_view call_open, std::string_view block_close,
                                             Step next_step) {
  const size_t call_end = at_;
  bool may = !next();
  if (const Scan close = match(block_close); close != Scan::broken) {
    if (close == Scan::more) at_ = call_end;
    return close;
  }
  const Scan open = calls_.size() < kMaxCalls ? begins_with(text_.substr(at_), call_open) : Scan::broken;
  if (open == Scan::complete) {
    step_ = next_step;
    return std::nullopt;
  }
  may = may || open == Scan::more;
  at_ = call_end;
  return may ? Scan::more : Scan::complete;
}

}  // namespace anabranch
