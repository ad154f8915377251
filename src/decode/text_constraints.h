// Constraints that end a sequence: a token that ends the turn, and text that ends the answer.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "decode/constraint.h"
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
