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
  const bool messages = tags && tags->are_messages();
  const std::string line = messages ? "" : "\n", next = messages ? tags->turn + tags->answer : "\n\n";
  if (thought) {
    if (!chosen.open) before.push_back({tags->open + line, true});
    before.push_back({continuation.reasoning, false});
  }
  if (answer && (thought || chosen.open))
    before.push_back({(thought ? line : "") + tags->close + next, true});
  else if (answer && messages)
    before.push_back({tags->answer, true});
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
