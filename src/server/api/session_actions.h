// /v1/sessions: lists, searches, reads and changes the conversations that are kept on disk
// (docs/sessions.md).
#pragma once

#include <memory>
#include <string>

#include "server/api/routes.h"
#include "server/api/session_stores.h"
#include "server/api/worker_pool.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// A session and a message as clients see them.
Json session_json(const Session& session);
Json message_json(const SessionMessage& message);
std::string message_name(MessageId id);  // "msg_12"
// Nothing: it is no message's name.
std::optional<MessageId> message_id(const std::string& name);
// Errors of the store: not_found is 404, busy 503.
ApiError session_error(const Error& error);

// Used on the I/O thread only; the database is read and written by a worker.
class SessionActions {
 public:
  SessionActions(std::shared_ptr<SessionStores> stores, Post post);
  // id: of the session that the path names. owner: the name of the request's key, or "".
  void start(SessionAction action, HttpRequest request, std::string id, std::string owner,
             std::shared_ptr<ResponseStream> out);

 private:
  const std::shared_ptr<SessionStores> stores_;
  const Post post_;
  WorkerPool workers_{1};
};

}  // namespace anabranch::server
