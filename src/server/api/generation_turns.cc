// The turns of an answer: what is kept of each, and between two turns the calls of tools that this server
// runs.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/generation.h"
#include "server/api/generation_parts.h"

namespace anabranch::server {

Usage add_up(Usage total, const Usage& usage, bool first_of_prompt) {
  if (first_of_prompt) {
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
  }
  total.completion_tokens += usage.completion_tokens;
  total.thinking_tokens += usage.thinking_tokens;
  total.speculation += usage.speculation;
  total.grammar_tokens += usage.grammar_tokens;
  total.grammar_s += usage.grammar_s;
  return total;
}

// All choices have ended. What is to be kept of them is taken down, and if the model has called tools that
// this server runs, that comes next.
void Generations::end_turn(uint64_t key, Generation& generation) {
  Choice& choice = generation.choices[0];
  const bool cut = choice.end.finish == FinishReason::length;
  if (generation.keeper || generation.agent)
    generation.unkept.push_back(recorded(generation, cut ? "incomplete" : "completed", choice.end.usage));
  if (!generation.agent) return finish(key, generation);
  NewMessage& turn = generation.unkept.back();
  const Json calls = generation.agent->add_turn(turn.message, choice.end.usage.completion_tokens);
  if (!calls.empty()) turn.about["mcp_calls"] = calls;
  if (cut || !generation.agent->has_waiting()) return finish(key, generation);
  generation.spent = add_up(generation.spent, choice.end.usage, true);
  if (!generation.streaming) remember(generation, choice);
  run_calls(key, generation);
}

// Runs the calls that wait, one after the other, and then gives the model the word again.
void Generations::run_calls(uint64_t key, Generation& generation) {
  generation.turned = true;
  AgentRun& agent = *generation.agent;
  const double until = now_seconds() + agent.seconds_left(now_seconds());
  std::vector<AgentCall> calls = agent.take_waiting();
  std::vector<std::string> places;
  for (const AgentCall& call : calls) places.push_back(call.tool.server);
  auto run = [this, key, until, client = std::weak_ptr<const void>(generation.client),
              calls = std::move(calls), keeper = generation.keeper,
              turns = std::exchange(generation.unkept, {}), servers = agent.servers(),
              bytes_left = agent.bytes_left(), calls_left = agent.calls_left(), responses = responses_,
              owner = generation.use.name(), post = post_]() mutable {
    const auto keep = [&](const std::vector<NewMessage>& messages) {
      if (!keeper) return;
      if (const auto added = keeper->add(messages); !added)
        log_warning("a turn could not be kept: {}", added.error().message);
    };
    const mcp::Cancelled ended = [&] { return client.expired() || now_seconds() > until; };
    keep(turns);
    for (const AgentCall& call : calls) {
      if (client.expired()) return;
      post([this, key, call] {
        Generation* generation = find(key);
        if (generation && call.approved) generation->send(generation->writer->call_started(call));
      });
      std::string refusal;
      if (now_seconds() > until)
        refusal = "This was not run: the answer has taken as long as it may. Answer with what is known";
      else if (calls_left-- <= 0 || bytes_left == 0)
        refusal = "This was not run: the calls so far are as many as they may be. Answer with what is known";
      else if (call.approved)
        refusal = refusal_of(responses->consent->approve(question_of(call, owner)));
      const auto result = !refusal.empty()        ? not_run(refusal)
                          : !call.refusal.empty() ? not_run(call.refusal)
                                                  : run_call(call, *servers, owner, bytes_left, ended);
      bytes_left -= std::min(bytes_left, result.text.size());
      NewMessage message{result_message(call, result)};
      message.about["mcp"] = {{"server_label", call.tool.server}, {"name", call.tool.name}};
      if (result.is_error) message.about["mcp"]["error"] = true;
      message.about["seconds"] = result.seconds;
      keep({std::move(message)});
      post([this, key, call, result] {
        Generation* generation = find(key);
        if (!generation) return;
        generation->agent->add_result(call, result);
        generation->send(generation->writer->call_finished(call, result));
      });
    }
    post([this, key] { next_turn(key); });
  };
  mcp_workers_.submit(generation.sender, std::move(places), std::move(run));
}

void Generations::next_turn(uint64_t key) {
  Generation* generation = find(key);
  if (!generation) return;      // the client has left
  generation->choices.clear();  // their usage is in `spent`
  if (!generation->agent->goes_on(now_seconds())) return finish(key, *generation);
  workers_.submit(
      job_of(*generation), [this, key, sender = generation->sender, space = generation->use.cache_space(),
                            client = std::weak_ptr<const void>(generation->client), model = generation->model,
                            request = generation->agent->next_request()]() mutable {
        if (client.expired()) return;
        auto made = safely([&]() -> PreparedRequest {
          TRY(auto prepared, model->preparer.chat(std::move(request), [&] { return client.expired(); }));
          return ReadyRequest{std::move(prepared), nullptr};
        });
        auto* ready = std::get_if<ReadyRequest>(&made);
        if (!ready || !ready->prepared.constrained) return taker(key)(std::move(made));
        form_workers_.submit({sender}, [this, key, sender, space, client, model,
                                        ready = std::make_shared<ReadyRequest>(std::move(*ready))] {
          if (!client.expired()) compile(key, {client, sender, space}, model, std::move(*ready));
        });
      });
}

// The answer so far as a message to keep.
NewMessage Generations::recorded(Generation& generation, const char* status, const Usage& usage) const {
  const double thinking_s = generation.recorder.thinking_s();
  NewMessage message{generation.recorder.take()};
  message.about = {{"model", generation.head.model},
                   {"response_id", generation.head.id},
                   {"status", status},
                   {"seconds", now_seconds() - generation.started}};
  if (thinking_s > 0) message.about["thinking_seconds"] = thinking_s;
  if (usage.prompt_tokens == 0) return message;
  message.about["usage"] = {{"input_tokens", usage.prompt_tokens},
                            {"cached_tokens", usage.cached_tokens},
                            {"output_tokens", usage.completion_tokens},
                            {"reasoning_tokens", usage.thinking_tokens}};
  // The cache has a state of this beginning of the conversation.
  message.about["cache_point"] = {{"tokens", usage.prompt_tokens + usage.completion_tokens}};
  return message;
}

// Called before the client receives the end of the turn, so that the turn is known when the client sends it
// back. Turns that a stop string or max_tokens cut are not remembered.
void Generations::remember(const Generation& generation, const Choice& choice) {
  const AnswerEnd& answer = choice.end;
  if (!generation.remember || answer.finish != FinishReason::stop || !answer.stop_sequence.empty()) return;
  const TurnEndReason end =
      choice.text->stopped() ? TurnEndReason::last_allowed_call : TurnEndReason::end_of_turn;
  if (generation.keeper) note(generation.sender, generation.keeper, {turn_trace(*generation.remember)});
  generation.model->preparer.remember(choice.sampled, end, *generation.remember, generation.rules);
  workers_.submit(job_of(generation), [model = generation.model] { model->preparer.write_turns(); });
}

void Generations::note(const std::string& sender, std::shared_ptr<ConversationKeeper> keeper,
                       std::vector<std::string> traces) {
  keep_workers_.submit({sender}, [this, keeper = std::move(keeper), traces = std::move(traces)] {
    keeper->note(traces);
    traces_.erase();  // the conversation, or one that has grown too old, may be gone
  });
}

// Keeps what there is of an answer that ends early; of one that has not begun, not even its request.
void Generations::keep_cut(Generation& generation) {
  if (!generation.keeper || generation.finishing) return;
  if (!generation.recorder.empty()) generation.unkept.push_back(recorded(generation, "incomplete", {}));
  if (!generation.unkept.empty())
    keep_workers_.submit(
        job_of(generation), [keeper = generation.keeper, messages = std::exchange(generation.unkept, {})] {
          if (const auto added = keeper->add(messages); !added)
            log_warning("the beginning of an answer could not be kept: {}", added.error().message);
        });
  else if (!generation.streaming && !generation.turned)
    keep_workers_.submit(job_of(generation), [keeper = generation.keeper] { keeper->take_back(); });
}

}  // namespace anabranch::server
