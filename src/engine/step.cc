#include "engine/step.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "ops/elementwise.h"

namespace anabranch {
namespace {

// How a device chooses the token at `position`. Kind::none: the sequence needs the logits.
ops::RowSampling device_sampling(const Sequence& sequence, size_t position) {
  if (sequence.request.logprobs >= 0 || sequence.constraints.masks()) return {};
  return row_sampling(sequence.request.sampling, position);
}

// Whether the next token can be chosen by the device alone, so that the host only decides how the sequence
// ends.
bool decides_late(const Sequence& sequence) {
  return sequence.generates() && !sequence.grammar && sequence.constraints.forced().empty() &&
         device_sampling(sequence, 0).kind != ops::RowSampling::Kind::none;
}

bool may_run_ahead(const StepPart& part) {
  if (!part.draft.tokens.empty() || !part.kept.empty()) return false;
  const Request& request = part.sequence->request;
  return part.scheduled.last ? decides_late(*part.sequence) && !request.prompt_logprobs
                             : !request.pooling && !request.prompt_logprobs;
}

// Chooses the next token as a device would, when the logits are in the host's memory.
int chosen_by_host(const StepPart& part, std::span<const float> logits) {
  const Sequence& sequence = *part.sequence;
  if (ops::best_of_row(logits) < 0) return -1;
  return sample(logits, sequence.request.sampling, sequence.history,
                static_cast<size_t>(part.begin + part.scheduled.tokens));
}

// Samples a token that the sequence's constraints allow.
Drawn sample_allowed(Sequence& sequence, std::span<const float> logits) {
  ConstraintList& constraints = sequence.constraints;
  const auto drawn_from = [&](std::span<const float> row) {
    return draw(row, sequence.request.sampling, sequence.history, sequence.tokens.size());
  };
  std::vector<float> masked;
  if (constraints.masks()) {
    masked.assign(logits.begin(), logits.end());
    constraints.mask(masked);
  }
  const std::span<const float> row = masked.empty() ? logits : masked;
  Drawn drawn = drawn_from(row);
  if (!constraints.allows(drawn.token)) {
    std::vector<float> others(row.begin(), row.end());
    for (; !constraints.allows(drawn.token); drawn = drawn_from(others))
      others[static_cast<size_t>(drawn.token)] = -std::numeric_limits<float>::infinity();
  }
  return drawn;
}

}  // namespace

int StepPart::applied() const {
  return draft.tokens.empty() ? scheduled.tokens : static_cast<int>(sampled.size());
}

StepPart StepRunner::part_of(const ScheduledTokens& scheduled, Sequence& sequence) {
  StepPart part{.scheduled = scheduled, .sequence = &sequence};
  part.begin = sequence.state->length();
  part.follows = part.begin == static_cast<int>(sequence.tokens.size());
  part.decodes =
      part.follows || (sequence.usage.completion_tokens > 0 && scheduled.tokens == 1 && scheduled.last);
  part.forced = part.decodes && !sequence.constraints.forced().empty();
  auto& keep_at = sequence.keep_at;
  const auto later = std::upper_bound(keep_at.begin(), keep_at.end(), part.begin + scheduled.tokens);
  part.kept.resize(static_cast<size_t>(later - keep_at.begin()));
  for (size_t i = 0; i < part.kept.size(); i++) part.kept[i].length = keep_at[i];
  keep_at.erase(keep_at.begin(), later);
  return part;
}

bool StepRunner::may_follow(std::span<Sequence* const> sequences, const StepLoad& load) {
  std::vector<DraftJob> jobs;
  for (Sequence* sequence : sequences) {
    if (!decides_late(*sequence)) return false;
    jobs.push_back(draft_job_of(*sequence, 1));
  }
  return !Speculator::would_draft(model_.speculation(), jobs, load.decoding, load.prompt_tokens == 0);
}

void StepRunner::submit(Step& step, const Step* before) {
  step.started = now_seconds();
  // Rows with the same adapters follow each other, so that they share the adapters' products.
  std::ranges::stable_sort(step.parts, {}, [](const StepPart& part) -> const SequenceState::Adapters& {
    return part.sequence->state->adapters();
  });
  if (!before) step.drafting = draft(step);
  step.drafted = now_seconds();
  Batch batch;
  if (before) batch.chosen = before->chosen->ids();
  for (StepPart& part : step.parts) add_rows(batch, part, before);
  step.submitted = now_seconds();
  auto out = model_.model().forward(batch);
  step.hidden = std::move(out.hidden);
  step.logits = std::move(out.logits);
  choose(step);
}

// Chooses tokens on the device, for rows whose sampling it supports, so that their logits need not be copied.
// If the next step may run ahead and the logits are in the host's memory, chooses them here.
void StepRunner::choose(Step& step) {
  step.ahead = overlap_ && std::all_of(step.parts.begin(), step.parts.end(), may_run_ahead);
  std::vector<ops::RowSampling> rows;
  for (const StepPart& part : step.parts) {
    const size_t position = static_cast<size_t>(part.begin + part.scheduled.tokens);
    if (part.samples())
      for (size_t i = 0; i <= part.draft.tokens.size(); i++)
        rows.push_back(device_sampling(*part.sequence, position + i));
  }
  const auto here = [](const ops::RowSampling& row) { return row.kind != ops::RowSampling::Kind::none; };
  if (rows.empty() || std::any_of(rows.begin(), rows.end(), here))
    step.chosen = ops::choose_tokens(step.logits, rows);
  step.ahead = step.ahead && (step.chosen || model_.device().is_host());
  if (!step.ahead || step.chosen) return;
  std::vector<int> tokens;
  const auto vocab = static_cast<size_t>(step.logits.shape(1));
  for (const StepPart& part : step.parts)
    if (part.samples())
      tokens.push_back(chosen_by_host(part, {step.logits.data<float>() + part.logit * vocab, vocab}));
  step.chosen = ops::known_tokens(model_.device(), std::move(tokens));
}

void StepRunner::collect(Step& step) {
  const auto all_greedy = [&] {
    return std::all_of(step.parts.begin(), step.parts.end(), [](const StepPart& part) {
      return !part.samples() || device_sampling(*part.sequence, 0).kind == ops::RowSampling::Kind::greedy;
    });
  };
  std::vector<int> chosen;
  const double waits = now_seconds();
  if (step.chosen)
    chosen = step.chosen->wait();
  else if (all_greedy())
    chosen = ops::best_of_rows(step.logits);
  Logits logits(std::move(step.logits), std::move(chosen));
  step.computed = now_seconds();
  step.waited = step.computed - waits;
  // read_prompt() comes first, because it may run out of memory, and no token may be accepted that its client
  // never gets.
  for (StepPart& part : step.parts)
    if (part.begin < part.sequence->usage.prompt_tokens) read_prompt(step, part);
  const auto parts = static_cast<int64_t>(step.parts.size());
  model_.device().threads().parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) take_tokens(step.parts[static_cast<size_t>(i)], logits);
  });
  step.fetched = logits.fetched();
  for (StepPart& part : step.parts)
    if (SequenceState& state = *part.sequence->state; !part.failure && state.has_draft_tokens())
      state.commit(part.applied());
}

// Makes the drafts of the decoding parts: forced tokens if there are any, otherwise drafts by a drafter.
DraftTimes StepRunner::draft(Step& step) {
  std::vector<DraftJob> jobs;
  std::vector<StepPart*> seated;
  for (StepPart& part : step.parts) {
    if (!part.decodes) continue;
    Sequence& sequence = *part.sequence;
    if (part.forced) {
      const int most = most_drafts(sequence, 0);
      const auto forced = sequence.constraints.forced();
      const auto known = forced.first(std::min(forced.size(), static_cast<size_t>(most)));
      part.draft.tokens.assign(known.begin(), known.end());
      continue;
    }
    jobs.push_back(draft_job_of(sequence, 0));
    seated.push_back(&part);
  }
  const auto times = Speculator::draft_together(model_.speculation(), jobs, step.plan.decoding,
                                                step.plan.prompt_tokens == 0);
  for (size_t i = 0; i < jobs.size(); i++) {
    StepPart& part = *seated[i];
    part.draft = std::move(jobs[i].draft);
    try {
      part.draft.tokens.resize(part.sequence->constraints.fitting(part.draft.tokens));
    } catch (...) {  // a grammar that takes too long ends only its own request
      part.draft.tokens.clear();
      part.failure = std::current_exception();
    }
  }
  return times;
}

// drawing: number of tokens that were drawn but are not known yet.
int StepRunner::most_drafts(const Sequence& sequence, int drawing) const {
  return std::max(0, std::min(tokens_left(sequence) - drawing - 1, kMaxDraft));
}

DraftJob StepRunner::draft_job_of(Sequence& sequence, int drawing) const {
  return {&*sequence.speculator,
          {sequence.tokens, sequence.request.sampling, sequence.history, most_drafts(sequence, drawing),
           *sequence.state, sequence.images.get()}};
}

void StepRunner::add_rows(Batch& batch, StepPart& part, const Step* before) {
  Sequence& sequence = *part.sequence;
  part.row = static_cast<int>(batch.ids.size());
  part.logit = batch.logit_rows.size();
  const auto last = part.samples() ? Batch::Logits::last : Batch::Logits::none;
  const std::span<const int> known = sequence.tokens;
  const PromptImages* images = sequence.images.get();
  if (!part.follows) sequence.state->forget();
  if (part.follows) {
    const auto drawing = std::find_if(before->parts.begin(), before->parts.end(),
                                      [&](const StepPart& other) { return other.sequence == part.sequence; });
    CHECK(drawing != before->parts.end(), "request {} follows nothing", sequence.id);
    const int token = -1 - static_cast<int>(drawing->logit);
    sequence.state->remember();
    batch.add(*sequence.state, {&token, 1}, last, nullptr, images);
    return;
  }
  if (!part.draft.tokens.empty()) {
    std::vector<int> tokens = {known.back()};
    tokens.insert(tokens.end(), part.draft.tokens.begin(), part.draft.tokens.end());
    sequence.state->open();
    batch.add(*sequence.state, tokens, Batch::Logits::all, nullptr, images);
    return;
  }
  int at = part.begin;
  const int end = part.begin + part.scheduled.tokens;
  for (Snapshot& kept : part.kept) {
    const bool ends = kept.length == end;
    batch.add(*sequence.state, known.subspan(at, kept.length - at), ends ? last : Batch::Logits::none, &kept,
              images);
    at = kept.length;
  }
  if (at < end) batch.add(*sequence.state, known.subspan(at, end - at), last, nullptr, images);
}

// Samples the part's tokens. Each token is sampled from a row whose prefix is exactly the sequence before it,
// so drafts never change the result. Uses only its own sequence, because parts run in parallel.
void StepRunner::take_tokens(StepPart& part, Logits& logits) {
  if (part.failure || !part.sequence->generates()) return;
  try {
    part.right = true;
    while (part.scheduled.last && part.right && part.ending == Ending::none) {
      const size_t row = part.sampled.size();
      const Drawn drawn = choose_next(*part.sequence, logits, part.logit + row);
      part.sampled.push_back(drawn.token);
      part.changed = part.sampled.back() != logits.chosen(part.logit + row);
      part.right = row < part.draft.tokens.size() && part.sampled.back() == part.draft.tokens[row];
      part.ending = accept(*part.sequence, drawn);
    }
  } catch (...) {
    part.failure = std::current_exception();
  }
}

// Computes the log probabilities or the embedding that a request wants of its prompt, as far as this part
// goes. A sequence that generates nothing ends with the last part.
void StepRunner::read_prompt(const Step& step, StepPart& part) {
  Sequence& sequence = *part.sequence;
  if (sequence.request.prompt_logprobs) judge_prompt(step, part);
  if (sequence.request.pooling) pool(step, part);
  if (sequence.generates() || !part.scheduled.last) return;
  part.ending = sequence.request.pooling ? Ending::stop : Ending::length;
  sequence.usage.ttft_s = now_seconds() - sequence.submitted;
  sequence.usage.prefill_s = now_seconds() - sequence.started;
}

// Adds the part's hidden states to the embedding.
void StepRunner::pool(const Step& step, StepPart& part) {
  Sequence& sequence = *part.sequence;
  const Pooling pooling = *sequence.request.pooling;
  const int rows = part.scheduled.tokens, width = step.hidden.shape(1);
  if (part.begin == 0) sequence.embedding.clear();  // a sequence that was preempted begins again
  const auto add = [&](int from, int to) {
    const Tensor states = model_.device().to_host(step.hidden.slice_rows(part.row + from, part.row + to));
    sequence.embedding.resize(static_cast<size_t>(width));
    for (int row = 0; row < to - from; row++)
      for (int i = 0; i < width; i++)
        sequence.embedding[static_cast<size_t>(i)] += states.data<float>()[int64_t{row} * width + i];
  };
  if (pooling == Pooling::mean) add(0, rows);
  if (pooling == Pooling::first && part.begin == 0) add(0, 1);
  if (!part.scheduled.last) return;
  if (pooling == Pooling::last) add(rows - 1, rows);
  if (pooling == Pooling::rank) {
    const int last = part.row + rows - 1;
    Logits logits(model_.model().logits(step.hidden.slice_rows(last, last + 1)), {});
    for (const int id : sequence.request.classes)
      sequence.embedding.push_back(logits.row(0)[static_cast<size_t>(id)]);
  }
  if (pooling == Pooling::mean)
    for (float& value : sequence.embedding) value /= static_cast<float>(sequence.usage.prompt_tokens);
}

// Adds the log probabilities of the prompt tokens that follow the part's rows.
void StepRunner::judge_prompt(const Step& step, StepPart& part) {
  constexpr int kRows = 32;  // rows at a time: the logits of all rows might need much memory
  Sequence& sequence = *part.sequence;
  const int top = std::max(0, sequence.request.logprobs);
  if (part.begin == 0) sequence.prompt_logprobs.clear();  // a sequence that was preempted begins again
  const int rows = std::min(part.scheduled.tokens, sequence.usage.prompt_tokens - 1 - part.begin);
  for (int row = 0; row < rows; row += kRows) {
    const int count = std::min(kRows, rows - row);
    Logits logits(model_.model().logits(step.hidden.slice_rows(part.row + row, part.row + row + count)), {});
    for (int i = 0; i < count; i++) {
      const int token = sequence.tokens[static_cast<size_t>(part.begin + row + i + 1)];
      sequence.prompt_logprobs.push_back(logprobs_of(logits.row(static_cast<size_t>(i)), token, top));
    }
  }
}

// Chooses the sequence's next token from this row of logits.
Drawn StepRunner::choose_next(Sequence& sequence, Logits& logits, size_t row) {
  ConstraintList& constraints = sequence.constraints;
  Drawn drawn;
  if (const auto forced = constraints.forced(); !forced.empty()) {
    drawn = {forced.front()};
  } else {
    // If a grammar began within a draft, its mask changes what the sampling filters keep, so sample again.
    const bool chosen = sequence.request.sampling.greedy() || !constraints.masks();
    drawn = {chosen ? logits.chosen(row) : -1};
    if (drawn.token < 0 || !constraints.allows(drawn.token))
      drawn = sample_allowed(sequence, logits.row(row));
    // Mirostat learns nothing from a token that the sampler did not choose.
    if (const int decided = constraints.decide(drawn.token); decided != drawn.token) drawn = {decided};
  }
  if (const int top = sequence.request.logprobs; top >= 0)
    sequence.logprobs.push_back(logprobs_of(logits.row(row), drawn.token, top));
  return drawn;
}

// The number of tokens that may still follow: limited by the context and, outside a thought, by the request.
int StepRunner::tokens_left(const Sequence& sequence) const {
  const int room = model_.info().context_length - static_cast<int>(sequence.tokens.size());
  const ThinkControl& control = *sequence.thinking;
  if (sequence.request.ignore_eos || sequence.request.bound != TokenBound::answer)
    return std::min(room, sequence.request.max_tokens - sequence.usage.completion_tokens);
  return control.thinking() ? room : std::min(room, sequence.request.max_tokens - control.answer_tokens());
}

// Appends a token to the sequence. Returns how the sequence ends with it.
Ending StepRunner::accept(Sequence& sequence, const Drawn& drawn) {
  const double now = now_seconds();
  auto& usage = sequence.usage;
  if (usage.completion_tokens++ == 0) {
    sequence.first_token = now;
    usage.ttft_s = now - sequence.submitted;
    usage.prefill_s = now - sequence.started;
  }
  usage.decode_s = now - sequence.first_token;
  sequence.tokens.push_back(drawn.token);
  sequence.history.push(drawn.token, drawn.mu);
  const Ending ending = sequence.constraints.accept(drawn.token);
  const ThinkControl& control = *sequence.thinking;
  usage.thinking_tokens = control.thinking_tokens();
  if (control.cut() != ThinkCut::none) usage.cut = name_of(control.cut());
  if (ending != Ending::none || tokens_left(sequence) > 0) return ending;
  return sequence.constraints.out_of_room();
}

void StepRunner::learn(const Step& step, StepPart& part, int& row, int until, bool busy) {
  if (row < until)
    part.sequence->speculator->applied({step.hidden, row, until - row}, part.sequence->tokens, busy);
  row = until;
}

void StepRunner::observe(const Step& step, StepPart& part, double delivered) {
  if (!part.decodes || part.forced) return;
  const bool alone = step.plan.decoding == 1 && step.plan.prompt_tokens == 0;
  const int accepted = static_cast<int>(part.sampled.size()) - (part.right ? 0 : 1);
  const double verify_s = delivered - step.round;
  part.sequence->speculator->observe(part.draft, accepted, alone ? verify_s : 0,
                                     part.right && part.ending != Ending::none, step.plan.decoding > 1);
}

void StepRunner::observe(const Step& step) {
  const DraftTimes& drafting = step.drafting;
  BatchResult done{step.plan.decoding, 0, drafting.source, drafting.chains, drafting.levels,
                   drafting.seconds};
  for (const StepPart& part : step.parts) done.drafted += static_cast<int>(part.draft.tokens.size());
  if (step.plan.prompt_tokens == 0) done.rest_s = now_seconds() - std::min(step.drafted, step.round);
  model_.speculation().planner.observe(done);
}

}  // namespace anabranch
