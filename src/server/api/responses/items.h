// The input of a request to /v1/responses as items.
#pragma once

#include <string>

#include "server/api/json_fields.h"
#include "server/api/session_stores.h"

namespace anabranch::server {

// The items in "input", each with a type and an id; a text is a user's message. References to items of stored
// responses (also to those of their inputs) are replaced by the items. owner: the name of the request's key.
// Fails for other inputs, and for references to items that this owner has not stored.
Json read_input_items(JsonFields& fields, SessionStores& stores, const std::string& owner);

}  // namespace anabranch::server
