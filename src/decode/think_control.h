// Limits one sequence's reasoning, token by token. A thought is closed when it exceeds its budget, repeats
// itself without end, or contains an end of turn or a tool call. Closing it adds a short text, the closing
// tag and, for structured output, the first tokens of the answer. Answers that repeat themselves without end
// are stopped. It is the first of a sequence's constraints (decode/constraint.h); later ones ask it where the
// answer begins.
#pragma once

#include <climits>
#include <optional>
#include <span>
#include <vector>

#include "decode/constraint.h"
#include "decode/loop_detector.h"
#include "output/reasoning.h"

namespace anabranch {

// How a model marks its thoughts. Must outlive the ThinkControl objects that use it.
struct ThinkTokens {
  // Both or none; none: every token belongs to the answer. With messages there is only `close`.
  std::optional<int> open, close;
  std::optional<MessageTokens> messages = {};
  std::vector<int> ends;  // end-of-turn tokens, sorted
  // Tokens of white space only, sorted; directly after a thought they do not begin the answer.
  std::vector<int> blanks;
  std::span<const uint8_t> traits;  // by token (token_traits)
};

// The default limit on tokens of thought.
inline constexpr int kDefaultThinkingBudget = 32768;

// The rules of one request.
struct ThinkRules {
  bool open = false;                    // the prompt ends inside a thought
  bool answer_begun = false;            // the prompt ends inside an answer
  bool in_answer = false;               // the prompt ends with an answer's header
  bool headers_answer = false;          // with messages: a grammar writes their headers
  bool blanks_before = false;           // white space may stand before a thought (ReasoningTags)
  int budget = kDefaultThinkingBudget;  // tokens of thought, without the closing text; 0: no thought
  bool count_closings = false;          // what closed earlier thoughts takes from the budget, too
  int most = INT_MAX;  // tokens of thoughts in all; then no more white space counts as part of them
  LoopRule loops = LoopRule::exact;
  bool watch = true;         // false: only count tokens
  std::vector<int> calls;    // tokens that open a tool call, sorted; empty: not looked for
  bool may_call = true;      // false: the tokens in `calls` are never sampled
  std::vector<int> closing;  // closes a cut thought: a sentence, the closing tag, white space
  std::vector<int> next;     // follows a thought that the model has closed
  std::vector<int> escape;   // then follow these first tokens of the answer, unless it has begun before
  // When a thought contains these tokens, it ends there and the answer starts with them and fence_end. Empty:
  // not used.
  std::vector<int> fence, fence_end;
};

// Why a thought was cut or an answer was stopped.
enum class ThinkCut { none, budget, loop, end_of_turn, tool_call, answer_fence, answer_loop };
const char* name_of(ThinkCut cut);

class ThinkControl final : public Constraint {
 public:
  ThinkControl(const ThinkTokens& tokens, ThinkRules rules);

  std::span<const int> forced() const override;
  // Whether the token may come next. It refuses the tokens that open a tool call if the request has no tools,
  // the tag that opens another thought when the budget is spent, and between a thought and its answer an end
  // of turn, and white space beyond `most`.
  bool allows(int token) const override;
  // Returns `drawn`, or the first token of the closing text if the thought must end here.
  int decide(int drawn) override;
  // The token must come from decide() or forced(). An answer that repeats itself without end is stopped.
  Ending accept(int token, Ending before = Ending::none) override;

  bool thinking() const { return thought_.inside(); }
  // Neither in a thought nor in the white space around one.
  bool answering() const { return thought_.answering(); }
  // Includes tags, closing text and the white space around them.
  int thinking_tokens() const { return thinking_tokens_; }
  int answer_tokens() const { return answer_tokens_; }
  bool answer_begun() const { return rules_.answer_begun || answer_tokens_ > 0; }
  ThinkCut cut() const { return cut_; }  // of the last thought or answer that was cut

 private:
  void follow(int token);
  int used() const { return rules_.count_closings ? thinking_tokens_ : chosen_; }
  void close(ThinkCut why);
  bool ends_with_fence(int token);

  const ThinkTokens& tokens_;
  ThinkRules rules_;
  LoopDetector thought_loops_, answer_loops_;
  std::vector<int> forced_;
  size_t next_forced_ = 0;
  size_t fence_tokens_ = 0;  // tokens of the fence that the thought now ends with
  ThoughtTracker thought_;
  int chosen_ = 0;  // tokens of thought so far that the model chose, opening tags included
  int before_ = 0;  // tokens of white space before a thought or the answer
  int thinking_tokens_ = 0, answer_tokens_ = 0;
  ThinkCut cut_ = ThinkCut::none;
};

}  // namespace anabranch
