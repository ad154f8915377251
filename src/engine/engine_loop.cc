#include "engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"

namespace anabranch {
namespace {

FinishReason reason_of(Ending ending) {
  return ending == Ending::stop     ? FinishReason::stop
         : ending == Ending::length ? FinishReason::length
                                    : FinishReason::none;
}

// Whether steps overlap: by default on CUDA devices only, because overlap gains nothing on devices in the
// host's memory. $ANABRANCH_OVERLAP (0 or 1) overrides this for tests.
bool overlaps(const Device& device) {
  const char* told = std::getenv("ANABRANCH_OVERLAP");
  return told && *told ? *told != '0' : device.kind() == DeviceKind::cuda;
}

// The disk budget for image embeddings, in addition to `budget`, the disk budget for states (0: the default).
uint64_t image_disk_bytes(uint64_t budget) {
  return budget == 0 ? kMostImageDiskBytes : std::min(kMostImageDiskBytes, budget / 8);
}

// Null if the model reads no images. states: image embeddings are cached under the fingerprint and in the
// directory of this cache; null: they are not cached.
std::unique_ptr<ImageEncoder> make_image_encoder(EngineModel& model, const EngineOptions& options,
                                                 const StateCache* states) {
  if (!model.tower()) return nullptr;
  std::unique_ptr<ImageStore> store;
  if (states)
    store = std::make_unique<ImageStore>(
        ImageStoreOptions{.fingerprint = states->fingerprint(),
                          .directory = states->disk() ? options.cache.directory : "",
                          .disk_bytes = image_disk_bytes(options.cache.disk_bytes.value_or(0))});
  return std::make_unique<ImageEncoder>(*model.tower(), model.image_format()->processor, model.device(),
                                        std::move(store));
}

uint64_t bytes_of_images(const Sequence& sequence, const VisionTower* tower) {
  if (!sequence.images) return 0;
  uint64_t tokens = 0;
  for (const PromptImage& image : sequence.images->images) tokens += static_cast<uint64_t>(image.tokens());
  const VisionSpec& spec = tower->spec();
  return tokens * static_cast<uint64_t>(spec.rows_per_token() * spec.out_hidden) * sizeof(float);
}

// Images whose tokens must all be applied in one step.
std::vector<TokenRange> whole_ranges(const Sequence& sequence) {
  std::vector<TokenRange> out;
  if (sequence.images && sequence.images->see_each_other)
    for (const PromptImage& image : sequence.images->images) out.push_back({image.begin, image.end()});
  return out;
}

}  // namespace

EngineLoop::EngineLoop(const EngineOptions& options, EngineModel& model, const MemoryPlan& memory,
                       SnapshotKeeper keeper, Inbox& inbox)
    : options_(options),
      model_(model),
      inbox_(inbox),
      scheduler_({options.prefill_chunk > 0 ? options.prefill_chunk : model.device().prefill_chunk(),
                  model.info().max_running, options.max_queue, options.max_gap_ms / 1000}),
      all_states_(memory.budgets.states),
      memory_(memory.budgets, memory.reserve),
      keeper_(std::move(keeper)),
      images_(make_image_encoder(model, options, keeper_.cache())),
      overlap_(overlaps(model.device())),
      runner_(model, overlap_) {
  SequenceBytes bytes = memory.sequence;
  if (overlap_) bytes.fixed += recurrent_bytes(model.model().state_layout());  // SequenceState::remember()
  scheduler_.set_bytes(bytes);
  scheduler_.set_budget(memory.budgets.states);
  note_cache();
  const std::lock_guard lock(inbox_.mutex);
  note_running();
}

void EngineLoop::run() {
  while (take_inbox()) {
    encode_images();
    schedule();
    StepPlan plan = scheduler_.plan(std::max(0.0, now_seconds() - pending_end()));
    if (pending_ && !may_follow(plan))
      settle();
    else
      step(std::move(plan));
  }
  settle();
  while (!sequences_.empty()) end(sequences_.begin()->first, FinishReason::cancelled, {});
}

// Takes new requests, cancellations and jobs. With nothing to do it waits for them, for at most a second,
// because guard_memory() must run now and then. Returns false when stopping.
bool EngineLoop::take_inbox() {
  std::deque<std::unique_ptr<Sequence>> arrivals;
  std::vector<RequestId> cancels;
  std::deque<std::function<void()>> jobs;
  bool stopping;
  {
    std::unique_lock lock(inbox_.mutex);
    if (sequences_.empty())
      inbox_.wake.wait_for(lock, std::chrono::seconds(1), [&] {
        return inbox_.stopping || !inbox_.arrivals.empty() || !inbox_.cancels.empty() || !inbox_.jobs.empty();
      });
    arrivals.swap(inbox_.arrivals);
    cancels.swap(inbox_.cancels);
    jobs.swap(inbox_.jobs);
    stopping = inbox_.stopping;
  }
  // First those that have arrived before: the new ones may need their places.
  const auto end_cancelled = [&] {
    for (const RequestId id : cancels) end(id, FinishReason::cancelled, {});
  };
  if (!cancels.empty() || !jobs.empty()) settle();
  for (const auto& job : jobs) job();
  end_cancelled();
  for (auto& sequence : arrivals) {
    const RequestId id = sequence->id;
    sequence->images = images_of(sequence->request, model_.tower());
    const bool added = scheduler_.add(
        id, static_cast<int>(sequence->tokens.size()), sequence->request.priority, whole_ranges(*sequence),
        bytes_of_images(*sequence, model_.tower()), sequence->request.background);
    const Request& request = sequence->request;
    const bool caches = request.cache && keeper_.cache();  // without an answer, the prompt is still cached
    const bool nothing_to_do = request.max_tokens == 0 && !request.prompt_logprobs && !caches;
    sequences_.emplace(id, std::move(sequence));
    if (!added)
      end(id, FinishReason::error, {}, "the queue is full; try again later");
    else if (nothing_to_do)
      end(id, FinishReason::length, {});
  }
  end_cancelled();
  return !stopping;
}

// Twice a second: adapts the memory budgets to what other programs need, before the system begins to swap.
void EngineLoop::guard_memory() {
  constexpr double kEvery = 0.5;
  const double now = now_seconds();
  if (now - memory_checked_ < kEvery) return;
  memory_checked_ = now;
  const bool was_short = memory_.short_of_memory();
  const auto cache = keeper_.stats();
  const MemoryBudgets& budgets =
      memory_.update(available_memory(), {scheduler_.bytes(), cache ? cache->ram_bytes : 0});
  // The machine's free memory excludes the adapters already; the memory planned at the start does not.
  const uint64_t adapters = options_.memory_bytes > 0 ? 0 : inbox_.adapter_bytes->load();
  const uint64_t planned = all_states_ - std::min(adapters, all_states_ / 2);
  scheduler_.set_budget(model_.device().has_own_memory() ? planned : std::min(planned, budgets.states));
  keeper_.set_ram_budget(budgets.cache);
  if (memory_.short_of_memory() == was_short) return;
  if (was_short)
    log_info(
        "the machine has enough memory again: the prefix cache and running requests have their full budgets");
  else
    log_warning(
        "the machine is short of memory: the prefix cache may use {:.1f} GB now, running requests {:.1f} GB; "
        "free some memory, or start with smaller --cache-ram and --memory",
        budgets.cache / 1e9, budgets.states / 1e9);
}

// Decides which sequences run in the next step: preempts running ones and admits waiting ones.
void EngineLoop::schedule() {
  guard_memory();
  const auto preempted = scheduler_.preempt();
  if (!preempted.empty()) settle();
  for (const RequestId id : preempted) {
    const auto it = sequences_.find(id);
    // The sequence has ended, or starts again because the pending step failed.
    if (it == sequences_.end() || !it->second->state) continue;
    Sequence& sequence = *it->second;
    log_info("request {} waits again after {} tokens: running requests need more memory than there is", id,
             sequence.tokens.size());
    keeper_.keep(sequence);
    note_cache();
    drop_state(sequence);
    std::lock_guard lock(inbox_.mutex);
    inbox_.stats.preempted++;
  }
  admit();
  std::lock_guard lock(inbox_.mutex);
  note_running();
}

// Admits waiting sequences. While others decode: one, and more only if the gap between their tokens allows.
void EngineLoop::admit() {
  for (int begun = 0; begun < kMostAdmissions; begun++) {
    const auto ids = scheduler_.admit(begun, std::max(0.0, now_seconds() - pending_end()));
    if (ids.empty()) return;
    for (const RequestId id : ids) {
      const double start = now_seconds();
      guard(id, [&] { begin(*sequences_.at(id)); });
      // Starting a sequence while the pending step still runs delays no other sequence, so this time does not
      // count.
      scheduler_.began(std::max(0.0, now_seconds() - (pending_ ? std::max(start, pending_end()) : start)));
    }
  }
}

// Starts an admitted sequence with an empty or a cached state. Called again after a preemption.
void EngineLoop::begin(Sequence& sequence) {
  if (const auto promise = keeper_.promise_of(sequence, sequences_)) {
    scheduler_.wait_for(sequence.id, promise->id, promise->length);
    return;
  }
  if (needs_images(sequence)) return;
  sequence.state.emplace(model_.model().make_state());
  const Request& request = sequence.request;
  SequenceState::Adapters adapters;
  for (const AppliedAdapter& one : request.adapters)
    adapters.emplace_back(one.adapter->weights.get(), one.scale);
  sequence.state->set_adapters(std::move(adapters));
  sequence.speculator.emplace(
      model_.speculation(), request.speculation.value_or(options_.speculation),
      request.cache && options_.cache.enabled ? std::optional(request.cache_salt) : std::nullopt,
      sequence.images.get());
  const bool first = !sequence.begun;
  if (sequence.constraints.empty()) {
    model_.constrain(sequence);
    sequence.history = TokenHistory(sequence.request.sampling, sequence.tokens, &model_.tokenizer());
    sequence.started = now_seconds();
    sequence.usage.queue_s = sequence.started - sequence.submitted;
  }
  const int found = keeper_.resume(sequence);
  note_cache();
  if (sequence.images && !images_->find(sequence, found)) {  // a cached state that covered images was evicted
    drop_state(sequence);
    images_->add(sequence, found);
    return scheduler_.hold(sequence.id);
  }
  if (found > 0) scheduler_.advanced(sequence.id, found, 0);
  if (!first) return;
  sequence.begun = true;
  sequence.usage.cached_tokens = found;
  Event event;
  event.started = true;
  event.usage = sequence.usage;
  sequence.sink(event);
}

// Whether the sequence has to wait until images are encoded that no cached state covers.
bool EngineLoop::needs_images(Sequence& sequence) {
  if (!sequence.images) return false;
  const int covered = keeper_.covered(sequence);
  if (images_->find(sequence, covered)) return false;
  images_->add(sequence, covered);
  scheduler_.hold(sequence.id);
  return true;
}

// Encodes images for as long as the gap between tokens of the decoding sequences allows.
void EngineLoop::encode_images() {
  constexpr double kAtATime = 0.05;  // limit, so that new requests and cancellations do not wait
  if (!images_ || images_->idle()) return;
  const double spare = scheduler_.spare_s(std::max(0.0, now_seconds() - pending_end()));
  try {
    if (const auto id = images_->work(std::min(kAtATime, spare))) scheduler_.release(*id);
  } catch (const std::exception& e) {
    log_error("an image could not be encoded: {}", e.what());
    end(images_->first(), FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
  }
}

void EngineLoop::drop_state(Sequence& sequence) {
  if (sequence.speculator) sequence.usage.speculation += sequence.speculator->counters();
  sequence.speculator.reset();
  sequence.state.reset();
  if (!sequence.images) return;
  for (PromptImage& image : sequence.images->images) image.embeddings = Tensor();  // free their memory, too
}

// The expected time of the pending step's end. Without a pending step: the time when the last tokens were
// delivered.
double EngineLoop::pending_end() const {
  return pending_ ? std::max(tokens_out_, pending_->submitted) + scheduler_.expected_s(pending_->plan)
                  : tokens_out_;
}

// Whether the plan's step can be submitted before the pending one is collected. Removes sequences from the
// plan that are sure to end with the pending step.
bool EngineLoop::may_follow(StepPlan& plan) {
  std::vector<Sequence*> waiting;
  std::erase_if(plan.scheduled, [&](const ScheduledTokens& scheduled) {
    Sequence& sequence = *sequences_.at(scheduled.id);
    if (sequence.state->length() < static_cast<int>(sequence.tokens.size())) return false;
    if (!runner_.ends_next(sequence)) {
      waiting.push_back(&sequence);
      return false;
    }
    plan.decoding--;
    return true;
  });
  return !plan.scheduled.empty() && runner_.may_follow(waiting, plan);
}

void EngineLoop::step(StepPlan plan) {
  Step step{.plan = std::move(plan)};
  for (const ScheduledTokens& scheduled : step.plan.scheduled)
    guard(scheduled.id,
          [&] { step.parts.push_back(StepRunner::part_of(scheduled, *sequences_.at(scheduled.id))); });
  if (step.parts.empty()) return settle();
  try {
    runner_.submit(step, pending_ ? &*pending_ : nullptr);
  } catch (const std::exception& e) {
    return fail(step, e);
  }
  step.ahead = step.ahead && !scheduler_.isolates();
  if (step.ahead)
    for (const StepPart& part : step.parts)
      scheduler_.advanced(part.scheduled.id, part.applied(), part.samples() ? 1 : 0);
  std::optional<Step> before = std::exchange(pending_, std::move(step));
  if (before) finish(*before, true);
  if (pending_ && (!pending_->ahead || pending_->parts.empty())) settle();
}

// Collects the pending step, if there is one.
void EngineLoop::settle() {
  std::optional<Step> step = std::exchange(pending_, std::nullopt);
  if (step && !step->parts.empty()) finish(*step, false);
}

// Collects the step, delivers its tokens, and then stores the snapshots taken during the pass.
// followed: the next step is already submitted.
void EngineLoop::finish(Step& step, bool followed) {
  if (!collect(step)) return;
  // If the device was done before we began to wait, it was idle for a part of the time since the last
  // delivery, so that is not the step's time.
  constexpr double kNoWait = 20e-6;
  const bool seen = followed || step.waited > kNoWait;
  if (seen) step.before = tokens_out_;
  // With overlap, the time of a round includes all work between two steps. Rounds that were not overlapped
  // must include this work, too, because the controller compares them.
  const bool whole = overlap_ && (seen || !step.ahead);
  step.round = whole ? tokens_out_ + step.drafting.seconds : step.submitted;
  {
    std::lock_guard lock(inbox_.mutex);
    inbox_.stats.busy_s += step.computed - std::max(step.started, computed_);
    inbox_.stats.logit_passes += step.fetched;
    inbox_.stats.steps++;
    inbox_.stats.step_requests += step.parts.size();
  }
  computed_ = step.computed;
  for (const StepPart& part : step.parts) settle_follower(part);
  for (StepPart& part : step.parts) guard(part.scheduled.id, [&] { deliver(step, part); });
  tokens_out_ = now_seconds();
  scheduler_.took(step.plan, tokens_out_ - std::max(step.started, step.before));
  const double delivered = tokens_out_;
  for (StepPart& part : step.parts)
    if (sequences_.count(part.scheduled.id))
      guard(part.scheduled.id, [&] { finish_part(step, part, delivered); });
  runner_.observe(step);
}

// Waits for the step's tokens. Returns false if it failed.
bool EngineLoop::collect(Step& step) {
  try {
    runner_.collect(step);
    return true;
  } catch (const std::exception& e) {
    fail(step, e);
    return false;
  }
}

// A step has failed, and with it the pending one. If they had several sequences, the faulty one is unknown:
// each of them starts again and runs alone until it has a token. A sequence whose pass fails alone ends with
// an error.
void EngineLoop::fail(Step& step, const std::exception& e) {
  const std::optional<Step> pending = std::exchange(pending_, std::nullopt);
  std::set<RequestId> ids;
  for (const StepPart& part : step.parts) ids.insert(part.scheduled.id);
  if (pending)
    for (const StepPart& part : pending->parts) ids.insert(part.scheduled.id);
  log_error("a step of {} requests failed: {}", ids.size(), e.what());
  if (ids.size() == 1)
    return end(*ids.begin(), FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
  for (const RequestId id : ids) {
    Sequence& sequence = *sequences_.at(id);
    drop_state(sequence);
    scheduler_.isolate(id, static_cast<int>(sequence.tokens.size()));
  }
}

// If the sequence ended, failed or got another token than the device chose, drops the row that the pending
// step computes for it.
void EngineLoop::settle_follower(const StepPart& part) {
  if (!pending_ || !(part.changed || part.failure || part.ending != Ending::none)) return;
  const auto follows = [&](const StepPart& other) { return other.scheduled.id == part.scheduled.id; };
  if (std::erase_if(pending_->parts, follows) == 0) return;
  part.sequence->state->take_back();
  if (pending_->ahead) scheduler_.advanced(part.scheduled.id, -1, -1);
}

void EngineLoop::deliver(const Step& step, StepPart& part) {
  if (part.failure) std::rethrow_exception(part.failure);
  Sequence& sequence = *part.sequence;
  if (!step.ahead) scheduler_.advanced(sequence.id, part.applied(), static_cast<int>(part.sampled.size()));
  if (sequence.request.progress && part.begin < sequence.usage.prompt_tokens) {
    Event event;
    event.usage = sequence.usage;
    event.prefilled = part.begin + part.applied();
    sequence.sink(event);
  }
  if (part.ending != Ending::none || part.sampled.empty()) return;
  Event event;
  event.tokens = part.sampled;
  event.logprobs = std::exchange(sequence.logprobs, {});
  event.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
  sequence.sink(event);
}

// After delivery: gives the tokens to the drafters, caches snapshots, and ends the sequence if it is
// complete.
void EngineLoop::finish_part(Step& step, StepPart& part, double delivered) {
  const bool busy = sequences_.size() > 1;
  int row = part.row;
  for (const Snapshot& snapshot : part.kept) {
    runner_.learn(step, part, row, part.row + snapshot.length - part.begin, busy);
    keeper_.keep(*part.sequence, snapshot);
    note_cache();
  }
  runner_.learn(step, part, row, part.row + part.applied(), busy);
  runner_.observe(step, part, delivered);
  if (part.sequence->images && part.sequence->state) ImageEncoder::drop_read(*part.sequence);
  if (part.ending != Ending::none) end(part.scheduled.id, reason_of(part.ending), std::move(part.sampled));
}

// Runs `work` for one sequence. If it throws, only that sequence ends; its state may be half advanced.
void EngineLoop::guard(RequestId id, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    log_error("request {} failed: {}", id, e.what());
    end(id, FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
  }
}

// Counts a request that has ended.
void EngineLoop::count_ended(const Sequence& sequence, FinishReason reason) {
  EngineStats& stats = inbox_.stats;
  inbox_.waiting--;
  if (reason == FinishReason::cancelled)
    stats.cancelled++;
  else if (reason == FinishReason::error)
    stats.failed++;
  else
    stats.finished++;
  stats.prompt_tokens += sequence.usage.prompt_tokens;
  stats.completion_tokens += sequence.usage.completion_tokens;
  stats.speculation += sequence.usage.speculation;
  stats.prefill_s += sequence.usage.prefill_s;
  stats.decode_s += sequence.usage.decode_s;
  stats.longest = std::max<uint64_t>(stats.longest, sequence.tokens.size());
}

void EngineLoop::end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const auto sequence = std::move(it->second);
  sequences_.erase(it);
  scheduler_.remove(id);
  if (images_) images_->remove(id);
  if (pending_) std::erase_if(pending_->parts, [&](const StepPart& part) { return part.scheduled.id == id; });
  if (sequence->state && reason != FinishReason::error) {
    keeper_.keep(*sequence);
    note_cache();
    sequence->speculator->ended(
        std::span<const int>(sequence->tokens).subspan(static_cast<size_t>(sequence->usage.prompt_tokens)));
  }
  drop_state(*sequence);
  if (sequence->grammar) {
    sequence->usage.grammar_tokens = sequence->grammar->masked();
    sequence->usage.grammar_s = sequence->grammar->seconds();
  }
  {
    std::lock_guard lock(inbox_.mutex);
    if (!sequence->request.background) count_ended(*sequence, reason);
    note_running();
  }
  if (last_tokens.empty())
    sequence->logprobs.clear();  // left from a step that failed before its tokens were delivered
  try {
    Event event{std::move(last_tokens), std::move(sequence->logprobs), reason, std::move(error),
                sequence->usage};
    if (reason == FinishReason::stop) event.embedding = std::move(sequence->embedding);
    event.prompt_logprobs = std::move(sequence->prompt_logprobs);
    if (sequence->request.name_states) event.states = keeper_.names_of(*sequence);
    sequence->sink(event);
  } catch (const std::exception& e) {
    log_error("request {}: its last event was lost: {}", id, e.what());
  }
}

void EngineLoop::note_running() {
  EngineStats& stats = inbox_.stats;
  stats.running = scheduler_.running();
  stats.queued = scheduler_.queued();
  stats.state_bytes = scheduler_.bytes();
  stats.state_budget_bytes = memory_.budgets().states;
}

void EngineLoop::note_cache() {
  auto stats = keeper_.stats();
  std::lock_guard lock(inbox_.mutex);
  inbox_.stats.cache = std::move(stats);
}

}  // namespace anabranch
