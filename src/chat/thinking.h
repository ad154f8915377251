// A request's wishes about thinking, under the names that clients use, and the decision made from them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/prompt_compiler.h"
#include "engine/engine.h"
#include "output/reasoning.h"

namespace anabranch {

enum class ThinkMode { automatic, on, off };

// If fields contradict each other, the most specific one wins: docs/thinking.md has the order.
struct ThinkingWish {
  std::optional<ThinkMode> mode;  // unset: not specified
  std::optional<int> budget;      // tokens, INT_MAX: as many as fit; unset: not specified
  std::string effort;             // the level, if one was named
  std::string said_by;            // the field or rule that chose the mode, for reports
};

// Fills fields that the request leaves open from the server's flags.
ThinkingWish complete(ThinkingWish wish, const ThinkingWish& defaults);

// The level for the template. gpt-oss, whose thoughts are messages, was trained with low, medium and high.
std::string known_effort(const std::string& level, const std::optional<ReasoningTags>& tags);

// Whether a chat thinks, and why. `enabled`: the template was asked to think; the model may still decide
// otherwise.
struct ThinkReport {
  bool enabled = false;
  std::string reason;
};

struct ChosenPrompt {
  CompiledPrompt prompt;
  bool open = false;     // the prompt ends inside a thought
  bool switched = true;  // the template was asked to think or not, and supports that
  int begun = 0;         // number of tokens at the prompt's end that begin the answer
  bool answers = false;  // the prompt ends with an answer's header
  ThinkReport thinking;
};

// Renders the prompt with the template's variable enable_thinking, or without it.
using CompilePrompt = std::function<Result<CompiledPrompt>(std::optional<bool> enable_thinking)>;

// Chooses by the wish, otherwise by the last user message and the prompt's length (when_to_think.h). A
// template that does not support the variable chooses for itself. If thinking is off, a thought that the
// template opens all the same is closed at once, and a model without a switch may not open one (the budget of
// think_options). Errors: those of `compile`.
Result<ChosenPrompt> choose_thinking(const ThinkingWish& wish, const ChatTemplate& chat,
                                     const std::optional<ReasoningTags>& tags, std::string_view user,
                                     const CompilePrompt& compile);

// Where thoughts and answers are messages, the model chooses between them by the header that it writes. If
// the request leaves no choice, this adds the header to the prompt: that of a thought before a constrained
// answer, or of the answer if thinking is off and nothing can be called.
void open_message(const ThinkingWish& wish, const std::optional<ReasoningTags>& tags, bool constrained,
                  bool may_call, const Tokenizer& tokenizer, ChosenPrompt& chosen);

// The text of the last user message; empty: none.
std::string last_user_text(const Json& messages);

// The data that decide how a thought that is cut leads into the answer.
struct ThinkContext {
  std::string_view user;   // see last_user_text
  bool tools = false;      // tools are offered
  bool must_call = false;  // a tool must be called
  bool json = false;       // the answer's format is JSON
  LoopRule loops = LoopRule::exact;
  const std::vector<std::string>& stop;
};

// The wish under a bound on all tokens: thinking is off if the answer's share and the text that closes a
// thought leave it no token.
ThinkingWish within_bound(ThinkingWish wish, int bound, const Tokenizer& tokenizer,
                          const std::optional<ReasoningTags>& tags, const ThinkContext& context);

// Options for the engine.
ThinkingOptions think_options(const ThinkingWish& wish, const ChosenPrompt& chosen,
                              const ThinkContext& context);

}  // namespace anabranch
