// Keeps one sequence's reasoning within bounds, token by token: a budget, repetition without end, an end of
// turn or a tool call in the middle of a thought. Where a thought must end, it is closed with a short text,
// the closing tag and, if the request has a form, the first words of an answer in it. Answers that repeat
// themselves without end are stopped.
// It is the first of a sequence's constraints (decode/constraint.h): those after it know from it where the
// answer begins.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "decode/constraint.h"
#include "decode/loop_detector.h"
#include "output/reasoning.h"

namespace anabranch {

// How a model marks its thoughts; outlives the controls.
struct ThinkTokens {
  std::optional<int> open, close;   // both or none; none: every token is answer
  std::vector<int> ends;            // of a turn, sorted
  std::vector<int> blanks;          // white space only, sorted: behind a thought they are not yet answer
  std::span<const uint8_t> traits;  // by token (token_traits)
};

// Tokens of thought where nothing else is said.
inline constexpr int kDefaultThinkingBudget = 32768;

// Of one request.
struct ThinkRules {
  bool open = false;                    // the prompt ends inside a thought
  bool answer_begun = false;            // the prompt ends inside an answer
  int budget = kDefaultThinkingBudget;  // tokens of thought, closing text not counted; 0: none at all
  LoopRule loops = LoopRule::exact;
  bool watch = true;         // false: only counts
  std::vector<int> calls;    // tokens that open a tool call, sorted; empty: they are like any other
  bool may_call = true;      // false: they are never taken
  std::vector<int> closing;  // ends a thought that is cut: what is said, the closing tag, white space
  std::vector<int> escape;   // then the answer's first tokens, unless it has begun before
  // Within a thought these tokens begin the answer: the thought ends there, and the answer starts with them
  // and fence_end. Empty: nothing does.
  std::vector<int> fence, fence_end;
};

// Why a thought did not end by itself, or an answer was stopped.
enum class ThinkCut { none, budget, loop, end_of_turn, tool_call, answer_fence, answer_loop };
const char* name_of(ThinkCut cut);

class ThinkControl final : public Constraint {
 public:
  ThinkControl(const ThinkTokens& tokens, ThinkRules rules);

  std::span<const int> forced() const override;
  // Whether the model may take this token next: no call where there are no tools, no other thought when the
  // budget is spent, and no end of the turn before an answer that a cut thought leads to.
  bool allows(int token) const override;
  // The token itself, or the first of what closes the thought.
  int decide(int drawn) override;
  // The token must be one that decide() or forced() gave. An answer that repeats itself ends.
  Ending accept(int token, Ending before = Ending::none) override;

  bool thinking() const { return thought_.inside(); }
  // Neither in a thought nor in the white space behind one.
  bool answering() const { return thought_.answering(); }
  // Tags, closing text and the white space behind it included.
  int thinking_tokens() const { return thinking_tokens_; }
  int answer_tokens() const { return answer_tokens_; }
  bool answer_begun() const { return rules_.answer_begun || answer_tokens_ > 0; }
  ThinkCut cut() const { return cut_; }  // the last one

 private:
  void follow(int token);
  void close(ThinkCut why);
  bool ends_with_fence(int token);

  const ThinkTokens& tokens_;
  ThinkRules rules_;
  LoopDetector thought_loops_, answer_loops_;
  std::vector<int> forced_;
  size_t next_forced_ = 0;
  size_t fence_tokens_ = 0;  // of the fence, at the thought's end
  ThoughtTracker thought_;
  int chosen_ = 0;  // tokens of thought so far that the model chose, opening tags included
  int thinking_tokens_ = 0, answer_tokens_ = 0;
  ThinkCut cut_ = ThinkCut::none;
};

}  // namespace anabranch
