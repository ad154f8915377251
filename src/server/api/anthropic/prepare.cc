#include "server/api/anthropic/prepare.h"

#include "base/clock.h"
#include "server/api/anthropic/format.h"
#include "server/api/anthropic/request.h"
#include "server/api/prepare_parts.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_message(std::string_view body, bool counting,
                                           const PrepareContext& context) {
  AgentTools tools{context.servers};
  tools.allowed = context.may_use_tools;
  tools.owner = context.owner;
  tools.list = context.defaults.list_tools;
  TRY(auto chat, parse_messages_request(body, context.defaults, counting, &tools, context.cancelled));
  if (counting) return count(context.preparer.count(std::move(chat), context.cancelled), Json::object());
  auto writer = std::make_shared<MessageWriter>(chat.options.stream, chat.left_out_tools, tools);
  std::shared_ptr<AgentRun> agent;
  if (!tools.toolbox.empty()) {
    chat.options.max_tokens = most_tokens(chat.options.max_tokens, context.agent_limits);
    agent = std::make_shared<AgentRun>(std::move(tools), chat, std::vector<AgentCall>(),
                                       agent_limits(context), now_seconds());
  }
  auto prepared = ready(context.preparer.chat(std::move(chat), context.cancelled), writer);
  if (auto* made = ready_in(prepared)) {
    made->agent = std::move(agent);
    if (context.engine.stats().cache) writer->set_marks(made->prepared.marked);
  }
  return prepared;
}

}  // namespace anabranch::server
