// Between two turns of the model: runs the calls of this server's tools, and stores messages. Before the
// first one: compacts the conversation.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/white_space.h"
#include "server/api/answer.h"
#include "server/api/answer_parts.h"

namespace anabranch::server {

void note_traces(AnswerServices& services, const std::string& sender,
                 std::shared_ptr<ConversationKeeper> keeper, std::vector<std::string> traces) {
  services.keep_workers.submit({sender}, [&services, keeper = std::move(keeper), traces = std::move(traces)] {
    keeper->note(traces);
    services.traces.erase();  // traces of conversations that were removed meanwhile
  });
}

namespace {

void add_to(ConversationKeeper& keeper, const std::vector<NewMessage>& messages, const char* what) {
  if (const auto added = keeper.add(messages); !added)
    log_warning("{} could not be kept: {}", what, added.error().message);
}

NewMessage kept_result(const AgentCall& call, const mcp::CallResult& result) {
  NewMessage message{result_message(call, result)};
  message.about["mcp"] = {{"server_label", call.tool.server}, {"name", call.tool.name}};
  if (result.is_error) message.about["mcp"]["error"] = true;
  message.about["seconds"] = result.seconds;
  return message;
}

}  // namespace

// Runs the calls one after the other. If one does not run, its result says why.
Task<> Answer::run_calls() {
  calls_begun_ = true;
  CallLimits limits{now_seconds() + agent_->seconds_left(now_seconds()), agent_->calls_left(),
                    agent_->bytes_left()};
  const std::vector<AgentCall> calls = agent_->take_waiting();
  for (const AgentCall& call : calls) {
    if (call.approved) send(writer_->call_started(call));
    const mcp::CallResult result = co_await run_and_keep(call, limits);
    limits.calls--;
    limits.bytes -= std::min(limits.bytes, result.text.size());
    agent_->add_result(call, result);
    send(writer_->call_finished(call, result));
  }
  choices_.clear();  // their usage is in spent_
}

// Runs a call on a pool, where it waits its turn among those of all clients. The result is stored even if the
// client has left, because the call has had its effect.
Callback<mcp::CallResult> Answer::run_and_keep(const AgentCall& call, const CallLimits& limits) {
  return Callback<mcp::CallResult>([this, call, limits](auto done) {
    auto run = [call, limits, done, alive = alive(), keeper = keeper_, turns = std::exchange(unkept_, {}),
                servers = agent_->servers(), owner = use_.name(), responses = services_.responses,
                post = services_.post] {
      if (keeper && !turns.empty()) add_to(*keeper, turns, "a turn");
      if (alive.expired()) return;
      const mcp::Cancelled ended = [&] { return alive.expired() || now_seconds() > limits.until; };
      std::string refusal = limits.refusal();
      if (refusal.empty() && call.approved)
        refusal = refusal_of(responses->consent->approve(question_of(call, owner)));
      if (refusal.empty()) refusal = call.refusal;
      const auto result =
          refusal.empty() ? run_call(call, *servers, owner, limits.bytes, ended) : not_run(refusal);
      if (keeper) add_to(*keeper, {kept_result(call, result)}, "a tool's result");
      post([done, result] { done(result); });
    };
    services_.mcp_workers.submit(sender_, {call.tool.server}, std::move(run));
  });
}

std::string Answer::CallLimits::refusal() const {
  if (now_seconds() > until)
    return "This was not run: the answer has taken as long as it may. Answer with what is known";
  if (calls <= 0 || bytes == 0)
    return "This was not run: the calls so far are as many as they may be. Answer with what is known";
  return "";
}

Task<ApiResult<Prepared>> Answer::prepare_next_turn() {
  auto prepared = co_await read_next_turn();
  if (prepared) prepared = co_await compile(std::move(*prepared));
  if (!prepared) co_return ApiError(prepared.error());
  co_return std::move(*prepared);
}

Callback<Result<Prepared>> Answer::read_next_turn() {
  return Callback<Result<Prepared>>([this](auto done) {
    services_.workers.submit(job(), [done, alive = alive(), model = model_, request = agent_->next_request(),
                                     post = services_.post]() mutable {
      if (alive.expired()) return;
      auto made = std::make_shared<Result<Prepared>>(
          safely([&] { return model->preparer.chat(std::move(request), [&] { return alive.expired(); }); }));
      post([done, made] { done(std::move(*made)); });
    });
  });
}

// Begins the answer with a summary of the conversation. Returns the prompt with the summary; if there is
// none, that of the whole conversation, or the error if that does not fit.
Task<ApiResult<Prepared>> Answer::compact(std::shared_ptr<PlannedCompaction> planned) {
  summary_.emplace();
  if (const auto submitted = submit(std::exchange(planned->asking, {})); !submitted)
    co_return submitted.error();
  begin(1);
  const auto received = co_await receive_turn();
  const std::string summary(trimmed(*std::exchange(summary_, std::nullopt)));
  std::optional<ApiError> fault =
      received ? fault_of_summary(choices_[0].end, summary) : std::optional(received.error());
  spent_ = add_up(spent_, choices_[0].end.usage, true);
  choices_.clear();
  Result<Prepared> prepared = std::move(planned->whole);
  if (!fault) {
    auto compacted = co_await replace(planned, summary);
    if (compacted) {
      send(writer_->compacted(compacted->item));
      if (keeper_) unkept_.push_back({std::move(compacted->message)});
      if (agent_) agent_->go_on_from(std::move(compacted->chat));
      prepared = std::move(compacted->prepared);
    } else {
      fault = compacted.error();
    }
  }
  if (fault) log_warning("{}: the conversation was not compacted: {}", head_.id, fault->message);
  if (fault && !prepared) co_return *fault;
  prepared = co_await compile(std::move(*prepared));
  if (!prepared) co_return ApiError(prepared.error());
  co_return std::move(*prepared);
}

Callback<Result<CompactedChat>> Answer::replace(std::shared_ptr<PlannedCompaction> planned,
                                                std::string summary) {
  return Callback<Result<CompactedChat>>(
      [this, planned = std::move(planned), summary = std::move(summary)](auto done) {
        services_.workers.submit(
            job(), [done, alive = alive(), model = model_, planned, summary, responses = services_.responses,
                    owner = use_.name(), post = services_.post] {
              if (alive.expired()) return;
              auto made = std::make_shared<Result<CompactedChat>>(safely([&] {
                return server::compact(*planned, summary, model->preparer, responses->sealer, owner,
                                       [&] { return alive.expired(); });
              }));
              post([done, made] { done(std::move(*made)); });
            });
      });
}

// The answer so far as a message to store.
NewMessage Answer::recorded(const char* status, const Usage& usage) {
  const double thinking_s = recorder_.thinking_s();
  NewMessage message{recorder_.take()};
  message.about = {{"model", head_.model},
                   {"response_id", head_.id},
                   {"status", status},
                   {"seconds", now_seconds() - started_}};
  if (thinking_s > 0) message.about["thinking_seconds"] = thinking_s;
  if (usage.prompt_tokens == 0) return message;
  message.about["usage"] = {{"input_tokens", usage.prompt_tokens},
                            {"cached_tokens", usage.cached_tokens},
                            {"output_tokens", usage.completion_tokens},
                            {"reasoning_tokens", usage.thinking_tokens}};
  // The prefix cache has an entry that ends at this token.
  message.about["cache_point"] = {{"tokens", usage.prompt_tokens + usage.completion_tokens}};
  return message;
}

// Stores the part so far of an answer that ends early. If the answer has not begun, its request is removed
// again, and a summary before the answer is not stored either.
void Answer::keep_cut() {
  if (!keeper_) return;
  if (!streaming_ && !calls_begun_ && recorder_.empty())
    return services_.keep_workers.submit(job(), [keeper = keeper_] { keeper->take_back(); });
  if (!recorder_.empty()) unkept_.push_back(recorded("incomplete", {}));
  if (unkept_.empty()) return;
  services_.keep_workers.submit(job(), [keeper = keeper_, messages = std::exchange(unkept_, {})] {
    add_to(*keeper, messages, "the beginning of an answer");
  });
}

}  // namespace anabranch::server
