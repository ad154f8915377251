// The request fields that decide whether and how much the model thinks, including other servers' names for
// them.
#pragma once

#include "chat/thinking.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Reads these fields. If they contradict each other, the most specific one wins; docs/thinking.md lists the
// order.
ThinkingWish read_thinking(JsonFields& fields);

}  // namespace anabranch::server
