// Handles the engine's events within one turn of the model.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/answer.h"
#include "server/api/answer_parts.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxLogprobsHeld = 1'000'000;      // some 500 bytes each while they are written
constexpr const char* kAnswerLoop = "answer_loop";  // Usage::cut: the answer repeated itself

}  // namespace

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
  total.cut = usage.cut;  // that of the last turn
  return total;
}

ApiResult<void> Answer::receive(size_t index, const Event& event) {
  if (event.started || event.prefilled > 0) {
    if (event.started) count_prompt(index, event.usage);
    if (event.started) send(writer_->started(event.usage));
    if (options_.progress && streaming_)
      send(writer_->prefilled(index, event.usage, event.started ? event.usage.cached_tokens : event.prefilled,
                              now_seconds() - started_));
    return {};
  }
  Choice& choice = choices_[index];
  note_->completion_tokens += static_cast<int>(event.tokens.size());
  use_.add_tokens(static_cast<int>(event.tokens.size()), now_seconds());
  observe(choice, event);
  if (holds_too_much(event))
    return ApiError{400,
                    fmt::format("The answer has more than {} log probabilities: ask for a stream, for fewer "
                                "of them, or for fewer tokens",
                                kMaxLogprobsHeld),
                    "logprobs", "limit_exceeded"};
  if (!choice.begun && !echo_.empty()) echo(index, event);
  choice.begun = true;
  if (choice.logprobs) choice.logprobs->push(event.tokens, event.logprobs);
  if (remember_) choice.sampled.insert(choice.sampled.end(), event.tokens.begin(), event.tokens.end());
  if (slot_ && index == 0)
    slot_->tokens.insert(slot_->tokens.end(), event.tokens.begin(), event.tokens.end());
  send(writer_->tokens(index, event.tokens, choice.take_logprobs));
  deliver(index, choice.text->push(event.tokens));
  if (event.finish == FinishReason::none) return {};
  return finish_choice(index, event);
}

// Called when an answer begins. Counts each prompt once.
void Answer::count_prompt(size_t index, const Usage& usage) {
  if (note_->started == 0) note_->started = now_seconds();
  if (index % options_.choices != 0) return;
  note_->prompt_tokens += usage.prompt_tokens;
  note_->cached_tokens += usage.cached_tokens;
  if (ahead_.length > 0 && usage.cached_tokens >= ahead_.length) services_.metrics.used_ahead(ahead_.read);
  ahead_ = {};
  use_.add_tokens(usage.prompt_tokens, now_seconds());
}

// Whether the answer's log probabilities take too much memory: those of an answer that does not stream are
// held until its end.
bool Answer::holds_too_much(const Event& event) {
  if (streaming_ || options_.logprobs < 0) return false;
  logprobs_held_ += (event.prompt_logprobs.size() + event.tokens.size()) * (options_.logprobs + 1);
  return logprobs_held_ > kMaxLogprobsHeld;
}

// Puts the prompt before the answer, as the request's "echo" asks.
void Answer::echo(size_t index, const Event& event) {
  Choice& choice = choices_[index];
  if (choice.logprobs) choice.logprobs->push_prompt(choice.echoed, event.prompt_logprobs);
  choice.echoed = {};
  const std::string& text = echo_[index / static_cast<size_t>(options_.choices)];
  send(writer_->event(index, {OutputEvent::Kind::content, text}, "", choice.take_logprobs));
}

void Answer::observe(Choice& choice, const Event& event) {
  if (event.tokens.empty()) return;
  const double now = now_seconds();
  if (note_->first_tokens == 0) note_->first_tokens = now;
  if (choice.last_event == 0)
    services_.metrics.first_token(head_.kind, now - started_);
  else
    services_.metrics.token_gap(now - choice.last_event);
  choice.last_event = now;
}

void Answer::deliver(size_t index, const std::vector<OutputEvent>& events) {
  Choice& choice = choices_[index];
  for (const OutputEvent& event : events) {
    if (summary_) {
      if (event.kind == OutputEvent::Kind::content) *summary_ += event.text;
      continue;
    }
    std::string call_id;
    if (event.kind == OutputEvent::Kind::call_begin) call_id = new_call_id();
    if (event.kind == OutputEvent::Kind::call_end && event.whole) ++choice.end.calls;
    if (keeper_ || agent_ || asked_) recorder_.event(event, call_id, now_seconds());
    send(writer_->event(index, event, call_id, choice.take_logprobs));
  }
}

// In OpenAI's or Anthropic's format: "call_" or "toolu_", and 24 letters and digits.
std::string Answer::new_call_id() {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = head_.kind == AnswerKind::message ? "toolu_" : "call_";
  for (int i = 0; i < 24; ++i) id += kAlphabet[services_.random() % kAlphabet.size()];
  return id;
}

ApiResult<void> Answer::finish_choice(size_t index, const Event& event) {
  Metrics& metrics = services_.metrics;
  Choice& choice = choices_[index];
  choice.submitted = false;  // nothing left to cancel
  --running_;
  if (event.finish == FinishReason::error) {
    log_error("the engine failed a request: {}", event.error);
    metrics.answered(head_.kind, "error");
    return ApiError{500, "The engine failed: " + event.error, "", "engine_error"};
  }
  if (event.finish == FinishReason::cancelled && !unwanted_) {
    metrics.answered(head_.kind, "cancelled");
    return ApiError{503, "The engine cancelled the request", "", "cancelled"};
  }
  const bool cut = event.finish == FinishReason::length || event.usage.cut == kAnswerLoop;
  deliver(index, choice.text->finish(cut));
  if (!event.usage.cut.empty())
    log_info("{} was cut ({}) after {} tokens of thought and {} in all", head_.id, event.usage.cut,
             event.usage.thinking_tokens, event.usage.completion_tokens);
  AnswerEnd& end = choice.end;
  end.finish = event.finish;
  end.usage = event.usage;
  end.stop_sequence = choice.text->stop_found();
  const Usage& used = end.usage;
  end.context_full =
      end.finish == FinishReason::length &&
      used.prompt_tokens + used.completion_tokens >= model_->engine->info().context_length &&
      (options_.max_tokens < 0 || used.completion_tokens - used.thinking_tokens < options_.max_tokens);
  if (end.finish != FinishReason::cancelled) metrics.waited_in_queue(event.usage.queue_s);
  if (const int later = event.usage.completion_tokens - 1; later > 0 && end.finish != FinishReason::cancelled)
    metrics.time_per_token(event.usage.decode_s / later);
  metrics.answered(head_.kind, finish_name(end.finish, end.calls));
  if (streaming_) remember(choice);
  if (slot_ && index == 0) note_slot(event);
  if (!summary_) send(writer_->choice_finished(index, end, choice.take_logprobs));
  return {};
}

// Notes what the answer's slot holds now. end: the last event.
void Answer::note_slot(const Event& end) {
  const int prompt = end.usage.prompt_tokens, all = static_cast<int>(slot_->tokens.size());
  if (slot_->keep_at.empty()) slot_->keep_at.push_back(prompt - 1);
  slot_->keep_at.push_back(all - 1);
  std::erase_if(slot_->keep_at, [](int length) { return length < 1; });
  slot_->states = end.states;
  services_.slots.note(use_.cache_space(), model_, options_.slot, std::move(*slot_));
  slot_.reset();
}

// Remembers the tokens of a turn. This runs before the client gets the end of the turn, so that the turn is
// already known when the client sends it back. Turns that a stop string, a stop token or max_tokens cut, or
// that end inside a block of calls, are not remembered.
void Answer::remember(const Choice& choice) {
  const AnswerEnd& answer = choice.end;
  const bool cut =
      !answer.stop_sequence.empty() || choice.text->stop_token_found() || choice.text->done_inside_block();
  if (!remember_ || answer.finish != FinishReason::stop || cut) return;
  const TurnEndReason end =
      choice.text->stopped() ? TurnEndReason::last_allowed_call : TurnEndReason::end_of_turn;
  const auto keys = model_->preparer.remember(choice.sampled, end, *remember_, rules_);
  std::vector<std::string> traces;
  for (const uint64_t key : keys) traces.push_back(turn_trace(key));
  if (keeper_ && !traces.empty()) note_traces(services_, sender_, keeper_, std::move(traces));
  services_.workers.submit(job(), [model = model_] { model->preparer.write_turns(); });
}

}  // namespace anabranch::server
