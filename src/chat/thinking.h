// What a request says about thinking, under the names that clients have for it, and what comes of it.
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

// Of what contradicts itself the most specific field wins: docs/thinking.md has the order.
struct ThinkingWish {
  std::optional<ThinkMode> mode;  // unset: nothing was said
  std::optional<int> budget;      // tokens, INT_MAX: as many as fit. Unset: nothing was said
  std::string effort;             // the level, if one was named
  std::string said_by;            // what chose the mode, for reports
};

// Where a request says nothing, the server's flags do.
ThinkingWish complete(ThinkingWish wish, const ThinkingWish& defaults);

// Whether a chat thinks, and why. `enabled` is what was asked of the template: a model may still do
// otherwise.
struct ThinkReport {
  bool enabled = false;
  std::string reason;
};

struct ChosenPrompt {
  CompiledPrompt prompt;
  bool open = false;     // it ends inside a thought
  bool switched = true;  // the template was told whether to think, and knows what that means
  int begun = 0;         // its last tokens that begin the answer
  ThinkReport thinking;
};

// Renders the prompt with the template's variable enable_thinking, or without it.
using CompilePrompt = std::function<Result<CompiledPrompt>(std::optional<bool> enable_thinking)>;

// Chooses by the wish, else by what the last user message asks for and the prompt's length. A template that
// does not know the variable chooses for itself. If thinking is off, a thought that it opens all the same is
// closed at once, and a model without a switch may not open one (the budget of think_options). Errors: those
// of `compile`.
Result<ChosenPrompt> choose_thinking(const ThinkingWish& wish, const ChatTemplate& chat,
                                     const std::optional<ReasoningTags>& tags, std::string_view user,
                                     const CompilePrompt& compile);

// The last user message's text; empty: there is none.
std::string last_user_text(const Json& messages);

// What the engine is told: the budget, and how a thought that is cut goes over into the answer.
struct ThinkContext {
  std::string_view user;   // as of last_user_text
  bool tools = false;      // tools are offered
  bool must_call = false;  // and one must be called
  bool json = false;       // the answer's form is JSON
  LoopRule loops = LoopRule::exact;
  const std::vector<std::string>& stop;
};
ThinkingOptions think_options(const ThinkingWish& wish, const ChosenPrompt& chosen,
                              const ThinkContext& context);

}  // namespace anabranch
