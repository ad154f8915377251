// OpenAI's Conversations API: conversations of items, in the stores of /v1/sessions (docs/responses.md).
#pragma once

#include <string>

#include "server/api/responses/request.h"
#include "server/api/routes.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// One request. id, item: taken from its path. owner: the name of its key, or "".
struct ConversationCall {
  ConversationAction action;
  HttpRequest request;
  std::string id, item, owner;
};

// To be called on workers: reads and writes the database.
ApiResult<HttpResponse> run_conversation_call(const ConversationCall& call, ResponseContext& context);

}  // namespace anabranch::server
