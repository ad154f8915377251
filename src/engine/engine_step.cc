#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "decode/sampler.h"
#include "engine/engine_impl.h"

namespace anabranch {
namespace {

// Whether the part needs nothing of its rows of logits but the best token of each.
bool takes_best(const StepPart& part) {
  const Request& request = part.sequence->request;
  return !part.piece.last || (request.sampling.greedy() && !request.sampling.changes_logits() &&
                              request.logprobs < 0 && !part.sequence->grammar);
}

// The token to take by these logits, of those that the sequence allows.
int sample_allowed(Sequence& sequence, std::span<const float> logits) {
  const ThinkControl& control = *sequence.control;
  const auto sampled = [&](std::span<const float> row) {
    return sample(row, sequence.request.sampling, sequence.history, sequence.tokens.size());
  };
  std::vector<float> masked;
  if (sequence.grammar) {
    masked.assign(logits.begin(), logits.end());
    sequence.grammar->mask(masked, control);
  }
  const std::span<const float> row = masked.empty() ? logits : masked;
  int token = sampled(row);
  if (!control.allows(token)) {
    std::vector<float> others(row.begin(), row.end());
    for (; !control.allows(token); token = sampled(others))
      others[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
  return token;
}

}  // namespace

// One pass over the plan's pieces and the drafts after those that decode; then every token that this decides.
// Tokens go out first: what is to be kept within a prompt is taken out on the way, and put by later.
void EngineImpl::step(const StepPlan& plan) {
  const double start = now_seconds();
  std::vector<StepPart> parts;
  for (const Piece& piece : plan.pieces) guard(piece.id, [&] { parts.push_back(prepare(piece)); });
  if (parts.empty()) return;
  const DraftTimes drafting = draft(parts, plan);
  const double drafted = now_seconds();
  const auto out = forward(parts);
  if (!out) return;
  device_->threads().parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) take_tokens(parts[static_cast<size_t>(i)], out->logits);
  });
  if (out->logits.fetched()) {
    std::lock_guard lock(mutex_);
    stats_.logit_passes++;
  }
  for (StepPart& part : parts) guard(part.piece.id, [&] { settle(part); });
  tokens_out_ = now_seconds();
  scheduler_.took(plan, tokens_out_ - start);
  const bool alone = plan.decoding == 1 && plan.prompt_tokens == 0;
  const double verify_s = alone ? tokens_out_ - out->started : 0;
  BatchStep done{plan.decoding, 0, drafting.source, drafting.chains, drafting.levels, drafting.seconds};
  for (StepPart& part : parts) {
    done.drafted += static_cast<int>(part.draft.tokens.size());
    if (sequences_.count(part.piece.id))
      guard(part.piece.id, [&] { conclude(part, out->hidden, verify_s, plan.decoding > 1); });
  }
  if (plan.prompt_tokens == 0) done.rest_s = now_seconds() - drafted;
  spec_.planner.observe(done);
}

// Ends the one sequence whose work throws; its state may be half advanced.
void EngineImpl::guard(RequestId id, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    log_error("request {} failed: {}", id, e.what());
    end(id, FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
  }
}

StepPart EngineImpl::prepare(const Piece& piece) {
  StepPart part{.piece = piece, .sequence = sequences_.at(piece.id).get()};
  Sequence& sequence = *part.sequence;
  part.begin = sequence.state->length();
  part.decodes = sequence.usage.completion_tokens > 0 && piece.tokens == 1 && piece.last;
  part.forced = part.decodes && !sequence.control->forced().empty();
  auto& keep_at = sequence.keep_at;
  const auto later = std::upper_bound(keep_at.begin(), keep_at.end(), part.begin + piece.tokens);
  part.kept.resize(static_cast<size_t>(later - keep_at.begin()));
  for (size_t i = 0; i < part.kept.size(); i++) part.kept[i].length = keep_at[i];
  keep_at.erase(keep_at.begin(), later);
  return part;
}

// What comes next in the parts that decode: as far as it is known, or else a guess.
DraftTimes EngineImpl::draft(std::vector<StepPart>& parts, const StepPlan& plan) {
  std::vector<SpecSeat> seats;
  std::vector<StepPart*> seated;
  for (StepPart& part : parts) {
    if (!part.decodes) continue;
    Sequence& sequence = *part.sequence;
    const int most = std::max(0, std::min(tokens_left(sequence) - 1, kMaxDraft));
    if (part.forced) {
      const auto forced = sequence.control->forced();
      const auto known = forced.first(std::min(forced.size(), static_cast<size_t>(most)));
      part.draft.tokens.assign(known.begin(), known.end());
      continue;
    }
    seats.push_back({&*sequence.speculator,
                     {sequence.tokens, sequence.request.sampling, sequence.history, most, *sequence.state}});
    seated.push_back(&part);
  }
  const auto times = Speculator::draft_together(spec_, seats, plan.decoding, plan.prompt_tokens == 0);
  for (size_t i = 0; i < seats.size(); i++) {
    StepPart& part = *seated[i];
    part.draft = std::move(seats[i].draft);
    if (auto& grammar = part.sequence->grammar)
      part.draft.tokens.resize(grammar->fitting(part.draft.tokens, *part.sequence->control));
  }
  return times;
}

void EngineImpl::add_rows(Batch& batch, StepPart& part) {
  Sequence& sequence = *part.sequence;
  part.row = static_cast<int>(batch.ids.size());
  part.logit = batch.logit_rows.size();
  const auto last = part.piece.last ? Batch::Logits::last : Batch::Logits::none;
  const std::span<const int> known = sequence.tokens;
  if (!part.draft.tokens.empty()) {
    std::vector<int> tokens = {known.back()};
    tokens.insert(tokens.end(), part.draft.tokens.begin(), part.draft.tokens.end());
    sequence.state->open();
    batch.add(*sequence.state, tokens, Batch::Logits::all);
  } else {
    int at = part.begin;
    const int end = part.begin + part.piece.tokens;
    for (Snapshot& kept : part.kept) {
      const bool ends = kept.length == end;
      batch.add(*sequence.state, known.subspan(at, kept.length - at), ends ? last : Batch::Logits::none,
                &kept);
      at = kept.length;
    }
    if (at < end) batch.add(*sequence.state, known.subspan(at, end - at), last);
  }
  part.rows = static_cast<int>(batch.ids.size()) - part.row;
}

// Null when the pass failed. Of several sequences nobody knows which one is to blame: each begins again,
// on its own until it has a token; one that fails alone ends.
std::unique_ptr<EngineImpl::Pass> EngineImpl::forward(std::vector<StepPart>& parts) {
  try {
    Batch batch;
    for (StepPart& part : parts) add_rows(batch, part);
    const double started = now_seconds();
    auto out = loaded_.model->forward(batch);
    const bool best_only = std::all_of(parts.begin(), parts.end(), takes_best);
    return std::unique_ptr<Pass>(
        new Pass{std::move(out.hidden), Logits(std::move(out.logits), best_only), started});
  } catch (const std::exception& e) {
    log_error("a step of {} requests failed: {}", parts.size(), e.what());
    if (parts.size() == 1) {
      end(parts[0].piece.id, FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
      return nullptr;
    }
    for (StepPart& part : parts) {
      drop_state(*part.sequence);
      scheduler_.isolate(part.piece.id);
    }
    return nullptr;
  }
}

// The tokens that the part's rows decide; a token is sampled from the row that follows exactly the tokens
// before it, so drafts never show in the result. Touches nothing but its sequence: parts run side by side.
void EngineImpl::take_tokens(StepPart& part, Logits& logits) {
  try {
    part.right = true;
    while (part.piece.last && part.right && part.reason == FinishReason::none) {
      const size_t row = part.sampled.size();
      part.sampled.push_back(draw(*part.sequence, logits, part.logit + row));
      part.right = row < part.draft.tokens.size() && part.sampled.back() == part.draft.tokens[row];
      part.reason = accept(*part.sequence, part.sampled.back());
    }
  } catch (...) {
    part.failure = std::current_exception();
  }
}

// Rows of the part whose tokens are part of the sequence.
int StepPart::applied() const {
  return draft.tokens.empty() ? piece.tokens : static_cast<int>(sampled.size());
}

void EngineImpl::settle(StepPart& part) {
  if (part.failure) std::rethrow_exception(part.failure);
  Sequence& sequence = *part.sequence;
  if (sequence.state->on_trial()) sequence.state->commit(part.applied());
  scheduler_.advanced(sequence.id, part.applied(), static_cast<int>(part.sampled.size()));
  if (part.reason != FinishReason::none || part.sampled.empty()) return;
  Event event;
  event.tokens = part.sampled;
  event.logprobs = std::exchange(sequence.logprobs, {});
  sequence.sink(event);
}

// Drafters learn of the tokens, whose hidden states these are, and states among them are kept.
void EngineImpl::conclude(StepPart& part, const Tensor& hidden, double verify_s, bool shared) {
  Sequence& sequence = *part.sequence;
  int row = part.row;
  const auto learn = [&](int until) {
    if (row < until)
      sequence.speculator->applied({hidden, row, until - row}, sequence.tokens, sequences_.size() > 1);
    row = until;
  };
  for (const Snapshot& snapshot : part.kept) {
    learn(part.row + snapshot.length - part.begin);
    keep_safely(sequence, &snapshot);
  }
  learn(part.row + part.applied());
  if (part.decodes && !part.forced) {
    const int accepted = static_cast<int>(part.sampled.size()) - (part.right ? 0 : 1);
    sequence.speculator->observe(part.draft, accepted, verify_s,
                                 part.right && part.reason != FinishReason::none, shared);
  }
  if (part.reason != FinishReason::none) end(sequence.id, part.reason, std::move(part.sampled));
}

// The token after the sequence's last, by this row of logits.
int EngineImpl::draw(Sequence& sequence, Logits& logits, size_t row) {
  ThinkControl& control = *sequence.control;
  int token;
  if (const auto forced = control.forced(); !forced.empty()) {
    token = forced.front();
  } else {
    token = logits.best(row);
    if (token < 0 || !control.allows(token)) token = sample_allowed(sequence, logits.row(row));
    token = control.decide(token);
  }
  if (const int top = sequence.request.logprobs; top >= 0)
    sequence.logprobs.push_back(logprobs_of(logits.row(row), token, top));
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

FinishReason EngineImpl::finish_reason(Sequence& sequence, int token) {
  if (!sequence.request.ignore_eos && std::binary_search(loaded_.eos.begin(), loaded_.eos.end(), token))
    return FinishReason::stop;
  auto& text = sequence.text;
  if (text) text->push({&token, 1});
  if (text && text->stopped()) return FinishReason::stop;
  if (sequence.control->stop())  // in the middle of a grammar the text is cut, not ended
    return sequence.grammar && !sequence.grammar->complete() ? FinishReason::length : FinishReason::stop;
  if (tokens_left(sequence) > 0) return FinishReason::none;
  if (text) text->finish(true);  // a stop string that waited for a longer one may end it after all
  return text && text->stopped() ? FinishReason::stop : FinishReason::length;
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
  const int answered = sequence.control->answer_tokens();
  sequence.control->accept(token);
  if (sequence.grammar && sequence.control->answer_tokens() > answered) sequence.grammar->accept(token);
  usage.thinking_tokens = sequence.control->thinking_tokens();
  if (sequence.control->cut() != ThinkCut::none) usage.cut = name_of(sequence.control->cut());
  return finish_reason(sequence, token);
}

}  // namespace anabranch
