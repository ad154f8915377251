// Ends a stream of text at the first of several stop strings, holding back only text that could still become
// one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

class StopMatcher {
 public:
  // Empty strings are ignored. keep: the text ends with the stop string, not before it.
  explicit StopMatcher(std::vector<std::string> stops, bool keep = false);

  struct Step {
    std::string text;      // safe to show
    bool stopped = false;  // a stop string was met; nothing more will come
  };
  // However the text is cut into pushes, the joined output is the same: everything before the stop string
  // that begins first (of two that begin together, the shorter). counts: whether a stop string may end in
  // this text.
  Step push(std::string_view text, bool counts = true);
  // Call when the text ends here. Returns the text that was held back, up to a stop string that is complete,
  // even if it still waited for one that begins earlier. That stop string then counts as found.
  std::string flush();
  bool stopped() const { return stopped_; }
  // The stop string that was met; empty: none so far.
  const std::string& found() const { return found_; }

 private:
  static constexpr size_t kNowhere = std::string::npos;

  // A stop string, and how far the text matches it (Knuth-Morris-Pratt: each byte of the text is read once).
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // by length - 1: the longest proper beginning that is also the end
    size_t matched = 0;          // bytes of `text` that the pushed text ends with; less than all
    size_t first = kNowhere;     // where the first match begins
    explicit Pattern(std::string stop);
    void push(std::string_view more, size_t at, bool counts);
  };
  const Pattern* first_match() const;
  std::string take(size_t end);
  std::string end_at(const Pattern& match);

  std::vector<Pattern> patterns_;
  bool keep_ = false;
  std::string found_;
  std::string text_;   // from `shown_` on: text that is held back
  size_t shown_ = 0;   // bytes of text_ that were returned
  size_t before_ = 0;  // bytes of the whole text before text_
  bool stopped_ = false;
};

}  // namespace anabranch
