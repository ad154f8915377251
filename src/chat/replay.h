// Assistant turns that come back: what was sampled takes the place of what the template would write, so that
// the prompt goes on matching the kept states. Only where both say the same: the client's content and tool
// calls must be those that the sampled tokens give, and the conversation before it must be the same.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/prompt_compiler.h"
#include "chat/turn_memory.h"
#include "output/output_parser.h"

namespace anabranch {

// A conversation by what is said in it. How calls are written, their ids and reasoning do not count.
uint64_t conversation_key(const Json& messages, std::string_view salt);

// The assistant's turns among `messages` of which the tokens are known. rules: how this request's output is
// read.
std::vector<text::KnownTurn> known_turns(const Json& messages, std::string_view salt,
                                         const text::OutputRules& rules, const text::Tokenizer& tokenizer,
                                         TurnMemory& memory);

// What the turn's tokens end with when it is whole.
enum class TurnEnd { end_of_turn, last_allowed_call };

// Remembers the turn that follows a conversation (conversation_key), if it is whole and a template could
// write it in another way.
void remember_turn(std::span<const int> sampled, TurnEnd end, uint64_t conversation,
                   const text::OutputRules& rules, const text::Tokenizer& tokenizer, TurnMemory& memory);

}  // namespace anabranch
