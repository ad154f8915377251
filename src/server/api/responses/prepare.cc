#include "server/api/responses/prepare.h"

#include "base/clock.h"
#include "base/log.h"
#include "chat/thinking.h"
#include "chat/when_to_think.h"
#include "server/api/prepare_parts.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/format.h"
#include "server/api/responses/request.h"

namespace anabranch::server {
namespace {

// The prompt for a summary. chat: with the options of ask_for_summary().
Result<Prepared> prepare_summary(const ChatRequest& chat, const PrepareContext& context) {
  TRY(auto prepared, prepare_shortened(chat, context, chat.options.max_tokens, summary_instruction()));
  prepared.asked = nullptr;  // nobody goes on from the summary as an answer
  prepared.remember.reset();
  return prepared;
}

// Whether the request wants so long a prompt to be compacted.
bool is_to_be_compacted(const ResponsesRequest& request, const Result<Prepared>& whole) {
  if (!request.compact_above) return false;
  return whole ? std::ssize(whole->prompts[0]) > *request.compact_above : is_too_long(whole);
}

// Has the answer think, or not, as it would without a compaction: the question decides, and not the summary.
// Returns the report; none: the request is not valid.
std::optional<ThinkReport> keep_thinking_choice(const Result<Prepared>& whole, const PrepareContext& context,
                                                ChatRequest& chat) {
  ThinkingWish& wish = chat.options.thinking;
  const ChatTemplate* chat_template = context.engine.chat_template();
  const bool open = wish.mode.value_or(ThinkMode::automatic) == ThinkMode::automatic &&
                    chat_template->mentions("enable_thinking");
  const auto decide = [&](bool think, const std::string& reason) {
    if (open) wish.mode = think ? ThinkMode::on : ThinkMode::off;
    if (open) wish.said_by = reason;
  };
  if (whole) {
    decide(whole->think_report->enabled, whole->think_report->reason);
    return whole->think_report;
  }
  const auto choice = when_to_think(last_user_text(chat.messages), static_cast<int>(whole.error().needed));
  decide(choice.think, choice.reason);
  // The other rules do not depend on the messages.
  ChatRequest short_chat = chat;
  short_chat.messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  short_chat.images.clear();
  const auto prepared = context.preparer.chat(std::move(short_chat), context.cancelled);
  return prepared ? prepared->think_report : std::nullopt;
}

// Prepares the answer's prompt, or the compaction before it. Takes the chat from the request.
Result<void> prepare_prompt(ResponsesRequest& request, const PrepareContext& context, ReadyRequest& out) {
  ChatRequest chat = std::move(request.chat);
  auto whole = request.shorten && !request.compact_above ? prepare_shortened(chat, context)
                                                         : context.preparer.chat(chat, context.cancelled);
  const bool compacts = is_to_be_compacted(request, whole);
  if (compacts && request.shorten && is_too_long(whole)) whole = prepare_shortened(chat, context);
  if (compacts) {
    auto asking = prepare_summary(chat_to_summarize(chat, context.engine.info().context_length), context);
    if (asking) {
      out.prepared.think_report = keep_thinking_choice(whole, context, chat);
      out.compaction = std::make_shared<PlannedCompaction>(
          PlannedCompaction{std::move(*asking), std::move(whole), std::move(chat)});
      return {};
    }
    log_warning("a conversation is not compacted: {}", asking.error().message);
  }
  TRY(out.prepared, std::move(whole));
  return {};
}

}  // namespace

ApiResult<PreparedRequest> prepare_response(std::string_view body, bool counting,
                                            const PrepareContext& context) {
  TRY(auto request, parse_responses_request(body, context.defaults, *context.responses, context.owner,
                                            context.cancelled, context.may_use_tools));
  if (counting)
    return count(context.preparer.count(std::move(request.chat), context.cancelled),
                 {{"object", "response.input_tokens"}});
  ReadyRequest out;
  const bool stream = request.chat.options.stream;
  if (!request.tools.agent.toolbox.empty()) {
    mcp::AgentLimits limits = agent_limits(context);
    limits.calls = std::min(limits.calls, request.max_tool_calls);
    request.chat.options.max_tokens = most_tokens(request.chat.options.max_tokens, limits);
    out.agent = std::make_shared<AgentRun>(std::move(request.tools.agent), request.chat,
                                           std::move(request.approved), limits, now_seconds());
  }
  if (!out.agent || !out.agent->has_waiting()) TRY_VOID(prepare_prompt(request, context, out));
  out.keeper = request.keeper;
  out.added = std::move(request.added);
  request.chat = {};  // the writer needs the rest
  request.earlier_users.clear();
  out.writer = std::make_shared<ResponsesWriter>(stream, std::move(request), context.responses);
  return PreparedRequest(std::move(out));
}

ApiResult<PreparedRequest> prepare_compaction(std::string_view body, const PrepareContext& context) {
  TRY(const auto json, parse_body(body));
  TRY(auto request, parse_responses_request(dump_json(body_to_compact(json)), context.defaults,
                                            *context.responses, context.owner, context.cancelled));
  ask_for_summary(request.chat.options, context.engine.info().context_length);
  Json users = take_user_messages(request);
  return ready(prepare_summary(request.chat, context),
               std::make_shared<CompactionWriter>(std::move(users), context.responses, context.owner));
}

}  // namespace anabranch::server
