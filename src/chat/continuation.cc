#include "chat/continuation.h"

namespace anabranch {

Result<ChosenPrompt> continue_prompt(const Continuation& continuation,
                                     const std::optional<ReasoningTags>& tags, const Tokenizer& tokenizer,
                                     const CompilePrompt& compile, EncodeLimit& limit) {
  const bool thought = tags && !continuation.reasoning.empty(), answer = !continuation.content.empty();
  if (!thought && !answer)
    return make_error(ErrorKind::unsupported,
                      "the final message is a thought, but how this model marks its thoughts is not known");
  ChosenPrompt chosen;
  TRY(chosen.prompt, compile(thought));
  chosen.open = tags && opens_reasoning(chosen.prompt.pieces, *tags);
  std::vector<PromptPiece> before;
  if (thought) {
    if (!chosen.open) before.push_back({tags->open + "\n", true});
    before.push_back({continuation.reasoning, false});
  }
  if (answer && (thought || chosen.open))
    before.push_back({(thought ? "\n" : "") + tags->close + "\n\n", true});
  auto& tokens = chosen.prompt.tokens;
  const auto append = [&](std::span<const PromptPiece> pieces) {
    if (limit.stopped()) return 0;
    limit.go_on_after(tokens.size());
    const auto more = tokenizer.encode(pieces, nullptr, {}, &limit);
    tokens.insert(tokens.end(), more.begin(), more.end());
    return static_cast<int>(more.size());
  };
  append(before);
  const PromptPiece text{continuation.content, false};
  if (answer) chosen.begun = append({&text, 1});
  chosen.open = !answer;
  chosen.thinking = {chosen.open, answer ? "the final message's answer is continued"
                                         : "the final message's thought is continued"};
  return chosen;
}

}  // namespace anabranch
