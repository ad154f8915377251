// A final message of the assistant's that the answer goes on, instead of following it as another turn.
#pragma once

#include <optional>
#include <string>

#include "chat/thinking.h"
#include "tokenizer/encode_limit.h"

namespace anabranch {

// At least one is there. Without content it is the thought that goes on; with it, the thought is over.
struct Continuation {
  std::string content, reasoning;
};

// The prompt as the template opens an answer, with the message's text behind. limit: may end it early.
// Errors: those of `compile`; unsupported (a thought is to go on, but the model's are not known).
Result<ChosenPrompt> continue_prompt(const Continuation& continuation,
                                     const std::optional<text::ReasoningTags>& tags,
                                     const text::Tokenizer& tokenizer, const CompilePrompt& compile,
                                     text::EncodeLimit& limit);

}  // namespace anabranch
