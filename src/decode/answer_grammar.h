// Applies a grammar to a sequence's answer. Thoughts and the white space after them are not constrained.
// ThinkControl, which knows where the answer begins, must come before it in the list of constraints.
#pragma once

#include <memory>
#include <span>

#include "decode/think_control.h"
#include "grammar/grammar.h"

namespace anabranch {

// The processor time of all calls is limited, to 1 s plus 2 ms for each mask() in the answer: beyond it, each
// call throws std::runtime_error and the request ends.
class AnswerGrammar final : public Constraint {
 public:
  // tokens: the same as the control's. Both must outlive this object.
  AnswerGrammar(std::shared_ptr<const CompiledGrammar> grammar, const ThinkTokens& tokens,
                const ThinkControl& control);

  bool masks() const override { return true; }
  void mask(std::span<float> logits) override;
  size_t fitting(std::span<const int> draft) override;
  // Applies tokens of the answer to the grammar. An end in the middle of the grammar becomes Ending::length.
  Ending accept(int token, Ending before) override;
  // Applies a token of the answer that is part of the prompt. Throws std::runtime_error if it may not come
  // next.
  void follow(int token);
  // Whether a token may begin the answer.
  bool may_begin(int token);

  bool complete() const { return matcher_.complete(); }
  int masked() const { return masks_; }        // how often mask() was called within the answer
  double seconds() const { return seconds_; }  // processor time of all matching

 private:
  template <class Work>
  auto timed(Work work);

  GrammarMatcher matcher_;
  const ThinkTokens& tokens_;
  const ThinkControl& control_;
  int answered_ = 0;  // tokens of the answer that the grammar has seen
  int masks_ = 0;
  double seconds_ = 0;
};

}  // namespace anabranch
