#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "decode/sampler.h"
#include "engine/engine_impl.h"

namespace anabranch {
namespace {

// Row i of logits [rows, vocab], evaluated.
std::span<const float> row_of(const mx::array& logits, size_t i) {
  const size_t vocab = logits.shape(1);
  return {logits.data<float>() + i * vocab, vocab};
}

}  // namespace

void EngineImpl::step(const StepPlan& plan) {
  Sequence& sequence = *sequences_.at(plan.id);
  if (!sequence.state) {
    begin(sequence);
    if (resume(sequence)) return;  // the plan was made for an empty state
  }
  sequence.usage.completion_tokens > 0 ? decode(sequence) : prefill(sequence, plan);
}

// One pass; what is to be kept within it is taken out on the way, and put by when the client has its token.
void EngineImpl::prefill(Sequence& sequence, const StepPlan& plan) {
  const std::span<const int> known = sequence.tokens;
  const int begin = sequence.state->length(), end = begin + plan.tokens;
  auto& keep_at = sequence.keep_at;
  const auto later = std::upper_bound(keep_at.begin(), keep_at.end(), end);
  const std::vector<int> places(keep_at.begin(), later);
  keep_at.erase(keep_at.begin(), later);
  std::vector<Snapshot> kept(places.size());
  Batch batch;
  int at = begin;
  for (size_t i = 0; i < places.size(); at = places[i++])
    batch.add(*sequence.state, known.subspan(at, places[i] - at), Batch::Logits::none, &kept[i]);
  if (at < end)
    batch.add(*sequence.state, known.subspan(at, end - at),
              plan.last ? Batch::Logits::last : Batch::Logits::none);
  auto out = loaded_.model->forward(batch);
  if (!plan.last) {
    after_prefill(sequence, begin, out.hidden, kept);
    return scheduler_.advanced(plan.id, plan.tokens, 0);
  }
  out.logits.eval();
  const int token = draw(sequence, row_of(out.logits, 0));
  const FinishReason reason = accept(sequence, token);
  if (reason == FinishReason::none) deliver(sequence, plan.tokens, {token}, reason);
  after_prefill(sequence, begin, out.hidden, kept);
  if (reason != FinishReason::none) deliver(sequence, plan.tokens, {token}, reason);
}

// Drafters learn of the tokens from `begin` on, whose hidden states these are, and states among them are
// kept.
void EngineImpl::after_prefill(Sequence& sequence, int begin, const mx::array& hidden,
                               std::span<const Snapshot> kept) {
  int row = 0;
  const auto learn = [&](int until) {
    if (row < until) sequence.speculator->applied(ops::slice_rows(hidden, row, until), sequence.tokens);
    row = until;
  };
  for (const Snapshot& snapshot : kept) {
    learn(snapshot.length - begin);
    keep(sequence, snapshot);
  }
  learn(hidden.shape(0));
}

// The token after the sequence's last, by its row of logits.
int EngineImpl::draw(Sequence& sequence, std::span<const float> logits) {
  const Request& request = sequence.request;
  ThinkControl& control = *sequence.control;
  const auto sampled = [&](std::span<const float> row) {
    return sample(row, request.sampling, sequence.history, sequence.tokens.size());
  };
  int token;
  if (const auto forced = control.forced(); !forced.empty()) {
    token = forced.front();
  } else {
    token = sampled(logits);
    if (!control.allows(token)) {
      std::vector<float> others(logits.begin(), logits.end());
      for (; !control.allows(token); token = sampled(others))
        others[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
    }
    token = control.decide(token);
  }
  if (request.logprobs >= 0) sequence.logprobs.push_back(logprobs_of(logits, token, request.logprobs));
  return token;
}

// Tokens that the sequence may still take: what its context and, once it answers, its request allow.
int EngineImpl::tokens_left(const Sequence& sequence) const {
  const int room = info().context_length - static_cast<int>(sequence.tokens.size());
  const ThinkControl& control = *sequence.control;
  if (sequence.request.ignore_eos)
    return std::min(room, sequence.request.max_tokens - sequence.usage.completion_tokens);
  return control.thinking() ? room : std::min(room, sequence.request.max_tokens - control.answer_tokens());
}

// What comes next as far as it is known, or else a guess.
Draft EngineImpl::next_tokens(Sequence& sequence) {
  const int most = std::min(tokens_left(sequence) - 1, kMaxDraft);
  const auto forced = sequence.control->forced();
  if (forced.empty())
    return sequence.speculator->propose(
        {sequence.tokens, sequence.request.sampling, sequence.history, most, *sequence.state});
  Draft draft;
  const auto known = forced.first(std::min(forced.size(), static_cast<size_t>(std::max(most, 0))));
  draft.tokens.assign(known.begin(), known.end());
  return draft;
}

// One round: a draft, a pass over it and the token before it, and every token that this decides. A token is
// sampled from the row that follows exactly the tokens before it, so drafts never show in the result.
void EngineImpl::decode(Sequence& sequence) {
  const bool forced = !sequence.control->forced().empty();
  const Draft draft = next_tokens(sequence);
  const double start = now_seconds();
  std::vector<int> rows = {sequence.tokens.back()};
  rows.insert(rows.end(), draft.tokens.begin(), draft.tokens.end());
  if (!draft.tokens.empty()) sequence.state->open();
  Batch batch;
  batch.add(*sequence.state, rows, Batch::Logits::all);
  auto out = loaded_.model->forward(batch);
  out.logits.eval();

  std::vector<int> sampled;
  FinishReason reason = FinishReason::none;
  bool right = true;
  while (right && reason == FinishReason::none) {
    const size_t row = sampled.size();
    sampled.push_back(draw(sequence, row_of(out.logits, row)));
    right = row < draft.tokens.size() && sampled.back() == draft.tokens[row];
    reason = accept(sequence, sampled.back());
  }
  const int kept = static_cast<int>(sampled.size());  // rows whose tokens are part of the sequence
  if (sequence.state->on_trial()) sequence.state->commit(kept);
  const double verify_s = now_seconds() - start;
  sequence.speculator->applied(ops::slice_rows(out.hidden, 0, kept), sequence.tokens);
  if (!forced)
    sequence.speculator->observe(draft, right ? kept : kept - 1, verify_s,
                                 right && reason != FinishReason::none);
  deliver(sequence, kept, std::move(sampled), reason);
}

// In chats, what a thought says, and what closes it, is not what the client wants to stop at.
// text::OutputText cuts the same text at the same place.
bool EngineImpl::stop_string_came(Sequence& sequence, int token) {
  if (sequence.request.stop.empty()) return false;
  const std::string text = sequence.detokenizer.push(token);
  if (sequence.control->answering() || sequence.request.stop_in_thoughts)
    return sequence.stops.push(text).stopped;
  sequence.stops.flush();
  return sequence.stops.stopped();
}

FinishReason EngineImpl::finish_reason(Sequence& sequence, int token) {
  if (!sequence.request.ignore_eos && std::binary_search(loaded_.eos.begin(), loaded_.eos.end(), token))
    return FinishReason::stop;
  if (sequence.control->stop()) return FinishReason::stop;
  if (stop_string_came(sequence, token)) return FinishReason::stop;
  if (tokens_left(sequence) <= 0) return FinishReason::length;
  return FinishReason::none;
}

// Takes one more token into the sequence; says whether it was the last.
FinishReason EngineImpl::accept(Sequence& sequence, int token) {
  const double now = now_seconds();
  auto& usage = sequence.usage;
  if (usage.completion_tokens++ == 0) {
    sequence.first_token = now;
    usage.ttft_s = now - sequence.submitted;
    usage.prefill_s = now - sequence.started;
  }
  usage.decode_s = now - sequence.first_token;
  sequence.tokens.push_back(token);
  sequence.history.push(token);
  sequence.control->accept(token);
  usage.thinking_tokens = sequence.control->thinking_tokens();
  if (sequence.control->cut() != ThinkCut::none) usage.cut = name_of(sequence.control->cut());
  return finish_reason(sequence, token);
}

void EngineImpl::deliver(Sequence& sequence, int applied, std::vector<int> sampled, FinishReason reason) {
  if (reason != FinishReason::none) return end(sequence.id, reason, std::move(sampled));
  scheduler_.advanced(sequence.id, applied, static_cast<int>(sampled.size()));
  Event event;
  event.tokens = std::move(sampled);
  event.logprobs = std::exchange(sequence.logprobs, {});
  sequence.sink(event);
}

}  // namespace anabranch
