// /v1/sessions and stored responses: lists, searches, reads and changes the conversations that are kept on
// disk (docs/sessions.md).
#pragma once

#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "server/api/conversations.h"
#include "server/api/responses_request.h"
#include "server/api/routes.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// Used on the I/O thread only; the database is read and written by a worker.
class SessionActions {
 public:
  SessionActions(std::shared_ptr<ResponseContext> context, Post post);
  // id: of the session that the path names. owner: the name of the request's key, or "".
  void start(SessionAction action, HttpRequest request, std::string id, std::string owner,
             std::shared_ptr<ResponseStream> out);
  // Reads or forgets a stored answer of the Responses API: Page::response, input_items or forget.
  void start(Page page, std::string id, std::string owner, std::shared_ptr<ResponseStream> out);
  // OpenAI's Conversations API.
  void start(ConversationCall call, std::shared_ptr<ResponseStream> out);

 private:
  using Answer = std::variant<HttpResponse, ApiError>;
  // scrubs: what removed conversations left behind is overwritten afterwards.
  void submit(std::function<Answer()> work, bool scrubs, std::shared_ptr<ResponseStream> out);

  const std::shared_ptr<ResponseContext> context_;
  const Post post_;
  WorkerPool workers_{1};
  WorkerPool scrubber_{1, true};  // SessionStore::scrub
};

}  // namespace anabranch::server
