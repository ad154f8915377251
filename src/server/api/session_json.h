// Stored conversations in the format that clients of /v1/sessions see.
#pragma once

#include <optional>
#include <string>

#include "server/http/api_error.h"
#include "sessions/session.h"

namespace anabranch::server {

Json session_json(const Session& session);
Json message_json(const SessionMessage& message);
std::string message_name(MessageId id);  // "msg_12"
// The id in a message's name; nothing: the text is not such a name.
std::optional<MessageId> message_id(const std::string& name);
// Errors of the store: not_found is 404, busy 503, exhausted 507.
ApiError session_error(const Error& error);

}  // namespace anabranch::server
