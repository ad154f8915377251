// When a client sends an earlier assistant turn back, the tokens sampled then replace the template's
// rendering of it, so that the prompt still matches cached states. This needs the same conversation before
// the turn, and the client's content and tool calls must equal those parsed from the sampled tokens.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/prompt_compiler.h"
#include "chat/turn_memory.h"
#include "output/output_parser.h"

namespace anabranch {

// A hash of a conversation's contents. It ignores the spelling and ids of calls, and reasoning.
uint64_t conversation_key(const Json& messages, std::string_view salt);

// The assistant turns among `messages` whose sampled tokens are known. rules: how this request's output is
// parsed. They have their reasoning if the message has the same; with `thoughts` also if it has none.
std::vector<KnownTurn> known_turns(const Json& messages, std::string_view salt, const OutputRules& rules,
                                   const Tokenizer& tokenizer, TurnMemory& memory, bool thoughts = false);

// How a complete turn ended.
enum class TurnEndReason { end_of_turn, last_allowed_call };

// Remembers the turn that follows a conversation (conversation_key), if it is complete and a template could
// render it differently; also with its reasoning, if the prompt ended inside a thought: for messages with the
// same reasoning, and with `thoughts` also for those that have none. Returns the keys of the turns that were
// added to the memory.
std::vector<uint64_t> remember_turn(std::span<const int> sampled, TurnEndReason end, uint64_t conversation,
                                    const OutputRules& rules, const Tokenizer& tokenizer, TurnMemory& memory,
                                    bool thoughts = false);

}  // namespace anabranch
