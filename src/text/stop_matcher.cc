#include "text/stop_matcher.h"

#include <algorithm>

namespace anabranch::text {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

// Where the first stop string begins, which becomes found_; npos: nowhere.
size_t StopMatcher::find_first(std::string_view text) {
  size_t first = std::string::npos;
  for (const auto& stop : stops_) {
    const size_t at = text.find(stop);
    if (at >= first) continue;
    first = at;
    found_ = stop;
  }
  return first;
}

StopMatcher::Step StopMatcher::push(std::string_view text) {
  if (stopped_) return {"", true};
  held_ += text;
  // The earliest place where a stop string stands, or begins and may still be completed.
  const size_t complete = find_first(held_);
  size_t possible = held_.size();
  for (const auto& stop : stops_) {
    const size_t longest = std::min(stop.size() - 1, held_.size());
    for (size_t n = longest; n > 0; n--) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) != 0) continue;
      possible = std::min(possible, held_.size() - n);
      break;
    }
  }
  // A longer stop string may have begun before the complete one: then wait, it would win.
  if (complete != std::string::npos && complete <= possible) {
    stopped_ = true;
    std::string out = held_.substr(0, complete);
    held_.clear();
    return {std::move(out), true};
  }
  Step step{held_.substr(0, possible), false};
  held_.erase(0, possible);
  return step;
}

std::string StopMatcher::flush() {
  std::string out = std::move(held_);
  held_.clear();
  if (stopped_) return "";
  // A match was waiting for one that began earlier and never came to an end.
  return out.substr(0, find_first(out));
}

}  // namespace anabranch::text
