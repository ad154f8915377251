// The fields of requests that say whether and how much to think, under the names that clients have for them.
#pragma once

#include "chat/thinking.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Of fields that contradict each other the most specific wins: docs/api.md has the order.
ThinkingWish read_thinking(JsonFields& fields);

}  // namespace anabranch::server
