// A grammar for a sequence's answer: thoughts are free, and so is the white space behind one. ThinkControl,
// which says where the answer begins, comes before it among the constraints.
#pragma once

#include <memory>
#include <span>

#include "decode/think_control.h"
#include "grammar/grammar.h"

namespace anabranch {

// Each call that asks the grammar throws std::runtime_error, too, once these have taken seconds in all: the
// request cannot go on.
class AnswerGrammar final : public Constraint {
 public:
  // tokens: as of the control, which outlives the grammar.
  AnswerGrammar(std::shared_ptr<const CompiledGrammar> grammar, const ThinkTokens& tokens,
                const ThinkControl& control);

  bool masks() const override { return true; }
  void mask(std::span<float> logits) override;
  size_t fitting(std::span<const int> draft) override;
  // Tokens of the answer must follow the grammar. What ends the sequence in the middle of it cuts the text
  // off.
  Ending accept(int token, Ending before) override;
  // A token of the answer that the prompt brought. Throws std::runtime_error if it may not come next.
  void follow(int token);
  // Whether a token may begin the answer.
  bool may_begin(int token);

  bool complete() const { return matcher_.complete(); }
  int masked() const { return masks_; }        // how often mask() was asked for an answer
  double seconds() const { return seconds_; }  // of a processor that matching took in all

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
