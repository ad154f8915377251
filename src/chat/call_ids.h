// Ids of calls for templates that take only nine letters and digits (Mistral's).
#pragma once

#include "base/json.h"

namespace anabranch {

// Gives every call and result such an id: the same for a call and its result, and different for different
// calls. Ids that have this form already stay. An id depends only on the messages up to it.
void shorten_call_ids(Json& messages);

// Whether a call or a result has no id.
bool misses_ids(const Json& messages);

}  // namespace anabranch
