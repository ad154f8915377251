// Leaves out the oldest part of a conversation that is longer than the context.
#pragma once

#include <cstddef>
#include <optional>

#include "base/json.h"
#include "chat/chat_request.h"

namespace anabranch::server {

// Where the messages after the instructions begin.
size_t behind_instructions(const Json& messages);

// The messages without the oldest turns: the instructions at the beginning, summaries of compactions, and
// everything from user message number `turn` (from 0) on. Null if there is no such message.
Json from_turn(const Json& messages, size_t turn);

// The index of that user message; nothing if there is none.
std::optional<size_t> begin_of_turn(const Json& messages, size_t turn);

// How much can be left out step by step: first the oldest turns, then the oldest calls of the last turn, each
// with its results. 0: nothing.
size_t steps_to_shorten(const Json& messages);
// The chat without what these steps leave out, images included. Summaries stay, because nothing else tells
// what they summarize. step: at most steps_to_shorten().
ChatRequest shortened(const ChatRequest& chat, size_t step);

}  // namespace anabranch::server
