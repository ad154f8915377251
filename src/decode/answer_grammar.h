// A grammar for a sequence's answer: thoughts are free, and so is the white space behind one. Beside
// ThinkControl, which says what is a thought; like it, it sees each token once, in order, before the next one
// is drawn.
#pragma once

#include <memory>
#include <span>

#include "decode/think_control.h"
#include "grammar/grammar.h"

namespace anabranch {

// Each call that asks the grammar throws std::runtime_error, too, once these have taken seconds in all: the
// request cannot go on.
class AnswerGrammar {
 public:
  // tokens: as of ThinkControl.
  AnswerGrammar(std::shared_ptr<const CompiledGrammar> grammar, const ThinkTokens& tokens);

  // Makes the logits [vocab] of tokens that may not come next -inf. Throws std::runtime_error when none may.
  void mask(std::span<float> logits, const ThinkControl& control);
  // A token of the answer. Throws std::runtime_error if it may not come next.
  void accept(int token);
  // How many of the tokens, from the first on, are worth trying as a draft.
  size_t fitting(std::span<const int> draft, const ThinkControl& control);
  // Whether a token may begin the answer.
  bool may_begin(int token);

  bool complete() const { return matcher_.complete(); }
  int masks() const { return masks_; }
  double seconds() const { return seconds_; }  // of a processor that matching took in all

 private:
  template <class Work>
  auto timed(Work work);

  GrammarMatcher matcher_;
  const ThinkTokens& tokens_;
  int masks_ = 0;
  double seconds_ = 0;
};

}  // namespace anabranch
