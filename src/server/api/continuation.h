// A final message of the assistant's that the answer goes on, instead of following it as another turn.
#pragma once

#include <optional>
#include <string>

#include "chat/thinking.h"
#include "server/api/constraints.h"
#include "server/api/json_fields.h"
#include "tokenizer/encode_limit.h"

namespace anabranch::server {

// At least one is there. Without content it is the thought that goes on; with it, the thought is over.
struct Continuation {
  std::string content, reasoning;
};

// Takes such a message off the messages of a chat; nothing: the answer is a turn of its own. In OpenAI's form
// "continue_final_message" or the message's "prefix" ask for it, and "continue_final_message": false or
// "add_generation_prompt": true forbid it. Where nothing is said, a final message of the assistant's is
// continued unless it has calls or a call is forced. Fails where the fields contradict each other.
std::optional<Continuation> read_continuation(JsonFields& fields, Json& messages, const ToolChoice& choice);
// In Anthropic's, a final message of the assistant's is always continued.
std::optional<Continuation> read_prefill(JsonFields& fields, Json& messages, const ToolChoice& choice);

// The prompt as the template opens an answer, with the message's text behind. limit: may end it early.
// Errors: those of `compile`; unsupported (a thought is to go on, but the model's are not known).
Result<ChosenPrompt> continue_prompt(const Continuation& continuation,
                                     const std::optional<text::ReasoningTags>& tags,
                                     const text::Tokenizer& tokenizer, const CompilePrompt& compile,
                                     text::EncodeLimit& limit);

}  // namespace anabranch::server
