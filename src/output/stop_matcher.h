// Ends a stream of text at the first of several stop strings, holding back only what could still become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string text;      // safe to show
    bool stopped = false;  // a stop string was met; nothing more will come
  };
  // However the text is cut into pushes, the joined output is the same: everything before the stop string
  // that begins first (of two that begin together, either: the output does not differ).
  Step push(std::string_view text);
  // What was held back, when what follows it (if anything) is no part of the text: up to a stop string that
  // waited for an earlier one to be completed, which then counts.
  std::string flush();
  bool stopped() const { return stopped_; }
  // The stop string that was met; empty: none so far.
  const std::string& found() const { return found_; }

 private:
  struct StopMatch {
    size_t at = std::string::npos;
    const std::string* stop = nullptr;
  };
  StopMatch find_first(std::string_view text) const;
  std::string end_at(const StopMatch& match);

  std::vector<std::string> stops_;
  std::string found_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace anabranch
