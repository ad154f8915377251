// /v1/sessions and stored responses: lists, searches, reads and changes the stored conversations
// (docs/sessions.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "server/api/conversations.h"
#include "server/api/responses/request.h"
#include "server/api/routes.h"
#include "server/api/trace_eraser.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// Used on the I/O thread only; workers read and write the database. One key's requests leave workers free for
// others.
class SessionActions {
 public:
  // traces must outlive it.
  SessionActions(std::shared_ptr<ResponseContext> context, Post post, TraceEraser& traces);
  ~SessionActions();
  // id: the session in the path. owner: the name of the request's key, or "".
  void start(SessionAction action, HttpRequest request, std::string id, std::string owner,
             std::shared_ptr<ResponseStream> out);
  // Reads or deletes a stored answer of the Responses API: Page::response, input_items or forget.
  // target: the request's target.
  void start(Page page, std::string id, std::string owner, std::string target,
             std::shared_ptr<ResponseStream> out);
  // OpenAI's Conversations API.
  void start(ConversationCall call, std::shared_ptr<ResponseStream> out);

 private:
  using Answer = ApiResult<HttpResponse>;
  enum class Effect { reads, writes, erases };
  // Effect::erases: the answer is sent when the cache entries of the removed conversations are deleted. The
  // text of these conversations is overwritten afterwards.
  void submit(const std::string& owner, Effect effect, std::function<Answer()> work,
              std::shared_ptr<ResponseStream> out);

  void upkeep();

  const std::shared_ptr<ResponseContext> context_;
  const Post post_;
  TraceEraser& traces_;
  WorkerPool scrubber_{{.name = "session upkeep", .background = true}};      // SessionStore::upkeep
  WorkerPool workers_{{.name = "sessions", .threads = 4, .per_client = 2}};  // their jobs submit to scrubber_
};

}  // namespace anabranch::server
