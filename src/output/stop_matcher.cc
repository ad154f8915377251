#include "output/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace anabranch {

StopMatcher::Pattern::Pattern(std::string stop) : text(std::move(stop)), border(text.size(), 0) {
  for (size_t i = 1, n = 0; i < text.size(); i++) {
    while (n > 0 && text[i] != text[n]) n = border[n - 1];
    if (text[i] == text[n]) n++;
    border[i] = n;
  }
}

// at: where `more` begins in the whole text.
void StopMatcher::Pattern::push(std::string_view more, size_t at, bool counts) {
  for (const char c : more) {
    at++;
    while (matched > 0 && text[matched] != c) matched = border[matched - 1];
    if (text[matched] == c) matched++;
    if (matched < text.size()) continue;
    if (counts && first == kNowhere) first = at - text.size();
    matched = border[matched - 1];
  }
}

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep) : keep_(keep) {
  for (std::string& stop : stops)
    if (!stop.empty()) patterns_.emplace_back(std::move(stop));
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.text.size() < b.text.size(); });
}

// The pattern whose match begins first, of several the shortest; null if none has matched.
const StopMatcher::Pattern* StopMatcher::first_match() const {
  const Pattern* first = nullptr;
  for (const Pattern& pattern : patterns_)
    if (pattern.first != kNowhere && (!first || pattern.first < first->first)) first = &pattern;
  return first;
}

// The text that was held back, up to position `end` of the whole text.
std::string StopMatcher::take(size_t end) {
  std::string out = text_.substr(shown_, end - before_ - shown_);
  shown_ += out.size();
  // Removing half of the bytes at a time moves each byte a constant number of times.
  if (shown_ > text_.size() / 2) {
    text_.erase(0, shown_);
    before_ += std::exchange(shown_, 0);
  }
  return out;
}

// Ends the stream at this stop string. Returns the text that was held back, up to where the stream ends.
std::string StopMatcher::end_at(const Pattern& match) {
  stopped_ = true;
  found_ = match.text;
  std::string out = take(match.first + (keep_ ? match.text.size() : 0));
  text_.clear();
  shown_ = 0;
  return out;
}

StopMatcher::Step StopMatcher::push(std::string_view text, bool counts) {
  if (stopped_) return {"", true};
  const size_t begin = before_ + text_.size(), end = begin + text.size();
  text_ += text;
  // The first position at which a stop string may have begun that is not complete yet.
  size_t possible = end;
  for (Pattern& pattern : patterns_) {
    pattern.push(text, begin, counts);
    possible = std::min(possible, end - pattern.matched);
  }
  // If a longer stop string may have begun before the complete one, wait: the earlier one wins.
  const Pattern* complete = first_match();
  if (complete && complete->first <= possible) return {end_at(*complete), true};
  return {take(possible), false};
}

std::string StopMatcher::flush() {
  if (stopped_) return "";
  if (const Pattern* complete = first_match()) return end_at(*complete);
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return take(before_ + text_.size());
}

}  // namespace anabranch
