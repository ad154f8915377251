// What the APIs' prepare functions share.
#pragma once

#include "server/api/prepare.h"
#include "server/api/request_encoder.h"

namespace anabranch::server {

// Work for the engine with the writer of its answer, or the error.
ApiResult<PreparedRequest> ready(Result<Prepared> result, std::shared_ptr<AnswerWriter> writer);
// The work for the engine in `prepared`; null if it is an error or anything else.
ReadyRequest* ready_in(ApiResult<PreparedRequest>& prepared);
// An answer without the engine.
ApiResult<PreparedRequest> respond(const ApiResult<Json>& json);
// The answer to a request for the length of its prompt. json: its other members.
ApiResult<PreparedRequest> count(const Result<Prepared>& result, Json json);
// Whether the prompt does not fit into the context.
bool is_too_long(const Result<Prepared>& result);
// An encoder for prompts, each of which must fit into the context.
RequestEncoder encoder_of(const PrepareContext& context);
// Limits the text of tool results to one byte for each token of the context, which leaves room for the rest
// of the conversation.
mcp::AgentLimits agent_limits(const PrepareContext& context);
// Leaves out as little of the oldest part as needed for the prompt to fit. room: tokens that must be left for
// the answer. last: a message that is added to the rest; null: none.
Result<Prepared> prepare_shortened(const ChatRequest& chat, const PrepareContext& context, int room = 1,
                                   const Json& last = nullptr);

}  // namespace anabranch::server
