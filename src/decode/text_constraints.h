// Constraints on the end of a sequence: a token that ends the turn, text that ends the answer, and tokens
// that must come first.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "decode/constraint.h"
#include "decode/think_control.h"
#include "output/output_text.h"

namespace anabranch {

// Ends the sequence at one of these tokens: the model's end-of-turn tokens, or those of a request.
class TurnEnd final : public Constraint {
 public:
  // ends: sorted; outlives the constraint.
  explicit TurnEnd(std::span<const int> ends) : ends_(ends) {}
  Ending accept(int token, Ending before) override {
    return std::binary_search(ends_.begin(), ends_.end(), token) ? Ending::stop : before;
  }

 private:
  std::span<const int> ends_;
};

// A sequence does not end before it has `least` tokens: tokens that would end it are not sampled, unless no
// other token may come next. Must come after all other constraints that mask tokens.
class MinTokens final : public Constraint {
 public:
  // ends: the tokens that end the sequence. thinking: counts the answer's tokens, and outlives the
  // constraint; null: thoughts count, too.
  MinTokens(int least, std::vector<int> ends, const ThinkControl* thinking)
      : least_(least), ends_(std::move(ends)), thinking_(thinking) {
    std::sort(ends_.begin(), ends_.end());
  }
  bool masks() const override { return (thinking_ ? thinking_->answer_tokens() : tokens_) < least_; }
  void mask(std::span<float> logits) override {
    const auto ends = [&](size_t id) {
      return std::binary_search(ends_.begin(), ends_.end(), static_cast<int>(id));
    };
    size_t other = 0;
    while (other < logits.size() && (ends(other) || std::isinf(logits[other]))) other++;
    if (other == logits.size()) return;
    for (const int id : ends_)
      if (static_cast<size_t>(id) < logits.size())
        logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  Ending accept(int, Ending before) override {
    tokens_++;
    return before;
  }

 private:
  int least_;
  std::vector<int> ends_;
  const ThinkControl* thinking_;
  int tokens_ = 0;
};

// Ends the sequence at a stop string in its answer, or after the last tool call that is allowed.
class StopText final : public Constraint {
 public:
  StopText(const Tokenizer& tokenizer, std::vector<std::string> stop, const OutputRules& rules)
      : text_(tokenizer, std::move(stop), rules) {}
  Ending accept(int token, Ending before) override {
    text_.push({&token, 1});
    return text_.stopped() ? Ending::stop : before;
  }
  // StopMatcher may hold back a complete stop string while a longer one may still follow. No text follows
  // now, so the complete one ends the answer.
  Ending out_of_room(Ending before) override {
    text_.finish(true);
    return text_.stopped() ? Ending::stop : before;
  }

 private:
  OutputText text_;
};

}  // namespace anabranch
