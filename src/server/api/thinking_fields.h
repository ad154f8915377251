// The request fields that decide whether and how much to think, including the names of other servers.
#pragma once

#include "chat/thinking.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// If fields contradict each other, the most specific one wins; docs/thinking.md has the order.
ThinkingWish read_thinking(JsonFields& fields);

}  // namespace anabranch::server
