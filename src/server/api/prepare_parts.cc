#include "server/api/prepare_parts.h"

#include <algorithm>

#include "server/api/shorten.h"

namespace anabranch::server {

ApiResult<PreparedRequest> ready(Result<Prepared> result, std::shared_ptr<AnswerWriter> writer) {
  TRY(auto prepared, std::move(result));
  return PreparedRequest(ReadyRequest{std::move(prepared), std::move(writer)});
}

ReadyRequest* ready_in(ApiResult<PreparedRequest>& prepared) {
  return prepared ? std::get_if<ReadyRequest>(&*prepared) : nullptr;
}

ApiResult<PreparedRequest> respond(const ApiResult<Json>& json) {
  if (!json) return json.error();
  return PreparedRequest(json_response(*json));
}

ApiResult<PreparedRequest> count(const Result<Prepared>& result, Json json) {
  if (!result) return result.error();
  json["input_tokens"] = result->prompts[0].size();
  return respond(json);
}

bool is_too_long(const Result<Prepared>& result) {
  return !result && result.error().code == "context_length_exceeded";
}

RequestEncoder encoder_of(const PrepareContext& context) {
  const auto most = static_cast<size_t>(context.engine.info().context_length);
  return {context.engine.tokenizer(), most > 0 ? most : SIZE_MAX, most, context.cancelled};
}

mcp::AgentLimits agent_limits(const PrepareContext& context) {
  mcp::AgentLimits limits = context.agent_limits;
  limits.output_bytes =
      std::min(limits.output_bytes, static_cast<size_t>(context.engine.info().context_length));
  return limits;
}

Result<Prepared> prepare_shortened(const ChatRequest& chat, const PrepareContext& context, int room,
                                   const Json& last) {
  const auto prepare = [&](ChatRequest request) {
    if (!last.is_null()) request.messages.push_back(last);
    return context.preparer.chat(std::move(request), context.cancelled);
  };
  const int length = context.engine.info().context_length;
  const auto too_long = [&](const Result<Prepared>& result) {
    return is_too_long(result) || (result && length > 0 && std::ssize(result->prompts[0]) + room > length);
  };
  auto best = prepare(chat);
  if (!too_long(best)) return best;
  for (size_t low = 1, high = steps_to_shorten(chat.messages) + 1; low < high;) {
    const size_t step = low + (high - low) / 2;
    auto result = prepare(shortened(chat, step));
    if (too_long(result)) {
      low = step + 1;
    } else {
      best = std::move(result);
      high = step;
    }
  }
  if (is_too_long(best) || !too_long(best)) return best;
  return Error{
      ErrorKind::exhausted,
      fmt::format("The last turn has {} tokens, and with {} for the answer does not fit into the context "
                  "of {}. Shorten it",
                  best->prompts[0].size(), room, length),
      "input", "context_length_exceeded"};
}

}  // namespace anabranch::server
