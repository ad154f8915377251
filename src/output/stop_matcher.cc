#include "output/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace anabranch {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

StopMatcher::StopMatch StopMatcher::find_first(std::string_view text) const {
  StopMatch first;
  for (const auto& stop : stops_) {
    const size_t at = text.find(stop);
    if (at < first.at) first = {at, &stop};
  }
  return first;
}

// The text before the stop string, which is the end.
std::string StopMatcher::end_at(const StopMatch& match) {
  stopped_ = true;
  found_ = *match.stop;
  return std::exchange(held_, "").substr(0, match.at);
}

StopMatcher::Step StopMatcher::push(std::string_view text) {
  if (stopped_) return {"", true};
  held_ += text;
  // The earliest place where a stop string stands, or begins and may still be completed.
  const StopMatch complete = find_first(held_);
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
  if (complete.stop && complete.at <= possible) return {end_at(complete), true};
  Step step{held_.substr(0, possible), false};
  held_.erase(0, possible);
  return step;
}

std::string StopMatcher::flush() {
  const StopMatch complete = find_first(held_);
  return complete.stop ? end_at(complete) : std::exchange(held_, "");
}

}  // namespace anabranch
