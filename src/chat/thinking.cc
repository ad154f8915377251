#include "chat/thinking.h"

#include "chat/message_text.h"
#include "chat/typed_escape.h"
#include "chat/when_to_think.h"

namespace anabranch {
ThinkingWish complete(ThinkingWish wish, const ThinkingWish& defaults) {
  // A default budget of 0 does not apply to requests that ask for thinking.
  const bool asked = wish.mode == ThinkMode::on;
  if (!wish.budget && !(asked && defaults.budget == 0)) wish.budget = defaults.budget;
  if (!wish.mode) {
    wish.mode = defaults.mode;
    wish.said_by = defaults.said_by;
  }
  return wish;
}

std::string known_effort(const std::string& level, const std::optional<ReasoningTags>& tags) {
  if (!tags || !tags->are_messages()) return level;
  if (level == "none" || level == "minimal") return "low";
  return level == "xhigh" || level == "max" ? "high" : level;
}

Result<ChosenPrompt> choose_thinking(const ThinkingWish& wish, const ChatTemplate& chat,
                                     const std::optional<ReasoningTags>& tags, std::string_view user,
                                     const CompilePrompt& compile) {
  const ThinkMode mode = wish.mode.value_or(ThinkMode::automatic);
  const bool choosable = chat.mentions("enable_thinking");
  ChosenPrompt chosen;
  if (mode != ThinkMode::automatic) {
    chosen.thinking = {mode == ThinkMode::on, wish.said_by};
    TRY(chosen.prompt, compile(chosen.thinking.enabled));
  } else if (!choosable) {
    TRY(chosen.prompt, compile(std::nullopt));
  } else {
    TRY(chosen.prompt, compile(true));
    const auto choice = when_to_think(user, static_cast<int>(chosen.prompt.tokens.size()));
    chosen.thinking = {choice.think, choice.reason};
    if (!choice.think) {
      TRY(chosen.prompt, compile(false));
    }
  }
  chosen.open = tags && opens_reasoning(chosen.prompt.pieces, *tags);
  chosen.switched = choosable;
  if (!choosable && mode != ThinkMode::off)
    chosen.thinking = {chosen.open, "the chat template leaves no choice"};
  return chosen;
}

void open_message(const ThinkingWish& wish, const std::optional<ReasoningTags>& tags, bool constrained,
                  bool may_call, const Tokenizer& tokenizer, ChosenPrompt& chosen) {
  if (!tags || !tags->are_messages() || chosen.open) return;
  const bool off = wish.mode == ThinkMode::off || wish.budget == 0;
  if (off ? may_call : !constrained) return;
  const std::string& header = off ? tags->answer : tags->open;
  chosen.prompt.pieces.push_back({header, true});
  for (const int token : tokenizer.encode(header, true)) chosen.prompt.tokens.push_back(token);
  chosen.open = chosen.thinking.enabled = !off;
  chosen.answers = off;
}

std::string last_user_text(const Json& messages) {
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (string_at(*message, "role") != "user" || !message->contains("content")) continue;
    const Json& content = (*message)["content"];
    if (content.is_string() || content.is_array()) return text_of(content);
  }
  return "";
}

namespace {

TypedEscape escape_of(const ThinkContext& context) {
  return typed_escape({.user = context.user,
                       .json_format = context.json,
                       .tools = context.tools,
                       .tool_required = context.must_call});
}

}  // namespace

ThinkingWish within_bound(ThinkingWish wish, int bound, const Tokenizer& tokenizer,
                          const std::optional<ReasoningTags>& tags, const ThinkContext& context) {
  if (!tags || !tokenizer.find(tags->close) || wish.mode == ThinkMode::off) return wish;
  const size_t closing = closing_tokens(tokenizer, escape_of(context).closing, *tags, !context.tools).size();
  if (bound - answer_share(bound) > static_cast<int>(closing)) return wish;
  wish.mode = ThinkMode::off;
  wish.said_by = "the bound on all tokens leaves no room for a thought";
  return wish;
}

ThinkingOptions think_options(const ThinkingWish& wish, const ChosenPrompt& chosen,
                              const ThinkContext& context) {
  ThinkingOptions options;
  options.budget = wish.budget;
  if ((chosen.open || !chosen.switched) && wish.mode == ThinkMode::off) options.budget = 0;
  options.calls = context.tools ? CallPolicy::offered : CallPolicy::none;
  options.loops = context.loops;
  TypedEscape escape = escape_of(context);
  options.closing = std::move(escape.closing);
  if (chosen.begun > 0) return options;
  // An answer start that contains a stop string would end the answer.
  for (const std::string& stop : context.stop)
    if ((escape.answer_start + escape.answer_fence + "\n").find(stop) != std::string::npos) return options;
  options.answer_fence = std::move(escape.answer_fence);
  options.answer_start = std::move(escape.answer_start);
  return options;
}

}  // namespace anabranch
