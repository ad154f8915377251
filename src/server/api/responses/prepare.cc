#include "server/api/responses/prepare.h"

#include "base/clock.h"
#include "server/api/prepare_parts.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/format.h"
#include "server/api/responses/request.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_response(std::string_view body, bool counting,
                                            const PrepareContext& context) {
  TRY(auto request, parse_responses_request(body, context.defaults, *context.responses, context.owner,
                                            context.cancelled, context.may_use_tools));
  if (counting)
    return count(context.preparer.count(std::move(request.chat), context.cancelled),
                 {{"object", "response.input_tokens"}});
  ReadyRequest out;
  if (!request.tools.agent.toolbox.empty()) {
    mcp::AgentLimits limits = agent_limits(context);
    limits.calls = std::min(limits.calls, request.max_tool_calls);
    request.chat.options.max_tokens = most_tokens(request.chat.options.max_tokens, limits);
    out.agent = std::make_shared<AgentRun>(std::move(request.tools.agent), request.chat,
                                           std::move(request.approved), limits, now_seconds());
  }
  if (!out.agent || !out.agent->has_waiting()) {
    TRY(out.prepared, request.shorten ? prepare_shortened(request.chat, context)
                                      : context.preparer.chat(request.chat, context.cancelled));
  }
  out.keeper = request.keeper;
  out.added = std::move(request.added);
  const bool stream = request.chat.options.stream;
  request.chat = {};  // the writer needs the rest
  request.earlier_users.clear();
  out.writer = std::make_shared<ResponsesWriter>(stream, std::move(request), context.responses);
  return PreparedRequest(std::move(out));
}

ApiResult<PreparedRequest> prepare_compaction(std::string_view body, const PrepareContext& context) {
  TRY(const auto json, parse_body(body));
  TRY(auto request, parse_responses_request(dump_json(body_to_compact(json)), context.defaults,
                                            *context.responses, context.owner, context.cancelled));
  Json users = ask_for_summary(request, context.engine.info().context_length);
  auto result =
      prepare_shortened(request.chat, context, request.chat.options.max_tokens, summary_instruction());
  if (result) {  // nobody goes on from the summary as an answer
    result->asked = nullptr;
    result->remember.reset();
  }
  return ready(std::move(result),
               std::make_shared<CompactionWriter>(std::move(users), context.responses, context.owner));
}

}  // namespace anabranch::server
