// Converts messages of a stored conversation to items of OpenAI's Conversations API, and back.
#pragma once

#include <span>
#include <vector>

#include "server/api/responses/request.h"
#include "sessions/session.h"

namespace anabranch::server {

// The items of a branch, in order. An item's id is made from its message's: msg_12 (the message's text),
// rs_12 (its thought), fc_12_0 and mcp_12_0 (its first call), fco_12 (a result). A request for approval has
// its call's id, as in responses. from: only the items of this message and of the later ones.
Json conversation_items(std::span<const SessionMessage> path, MessageId from = kNoMessage);

// Reads the items in the field "items" as messages. Fails for items that cannot be read, and for approvals,
// which only a request for an answer can have.
std::vector<NewMessage> read_conversation_items(JsonFields& fields, ResponseContext& context,
                                                const std::string& owner);

}  // namespace anabranch::server
