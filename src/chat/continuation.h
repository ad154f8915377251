// A final assistant message that the answer continues, instead of starting a new turn.
#pragma once

#include <optional>
#include <string>

#include "chat/thinking.h"
#include "tokenizer/encode_limit.h"

namespace anabranch {

// `content` and `reasoning` are not both empty. Without content the answer continues the thought. With
// content it continues the content, and the thought is complete.
struct Continuation {
  std::string content, reasoning;
};

// The prompt up to where the template opens an answer, followed by the message's text. If `limit` stops the
// tokenising, the tokens are incomplete. Errors: those of `compile`; unsupported (a thought is to be
// continued, but the model's reasoning tags are unknown).
Result<ChosenPrompt> continue_prompt(const Continuation& continuation,
                                     const std::optional<ReasoningTags>& tags, const Tokenizer& tokenizer,
                                     const CompilePrompt& compile, EncodeLimit& limit);

}  // namespace anabranch
