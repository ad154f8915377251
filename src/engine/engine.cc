#include "engine/engine.h"

#include <chrono>
#include <cmath>
#include <future>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "engine/engine_impl.h"

namespace anabranch {
namespace {

Result<void> check_sampling(const Request& request, int vocab) {
  const SamplingParams& p = request.sampling;
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty) || p.repetition_window < 0)
    return make_error(ErrorKind::invalid, "the repetition penalty is {} over {} tokens, but must be above 0",
                      p.repetition_penalty, p.repetition_window);
  if (request.logprobs > kMaxLogprobs)
    return make_error(ErrorKind::invalid, "{} log probabilities were asked for, but at most {} are told",
                      request.logprobs, kMaxLogprobs);
  for (const auto& entry : p.logit_bias)
    if (entry.first < 0 || entry.first >= vocab)
      return make_error(ErrorKind::invalid, "the bias of token id {} is outside the vocabulary of {}",
                        entry.first, vocab);
  return {};
}

}  // namespace

Result<void> EngineImpl::load_safely() {
  try {
    return load();
  } catch (const std::exception& e) {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    return make_error(memory ? ErrorKind::exhausted : ErrorKind::internal, "{} could not be loaded: {}",
                      options_.model_path, memory ? "out of memory" : e.what());
  }
}

Result<void> EngineImpl::start() {
  std::promise<Result<void>> ready;
  auto loaded = ready.get_future();
  thread_ = std::thread([this, &ready] {
    auto result = load_safely();
    const bool ok = result.ok();
    ready.set_value(std::move(result));
    if (ok) run();
  });
  return loaded.get();
}

Result<RequestId> EngineImpl::submit(Request request, Sink sink) {
  const int length = static_cast<int>(request.prompt.size()), context = info().context_length;
  if (length == 0) return make_error(ErrorKind::invalid, "the prompt is empty");
  if (length >= context)
    return make_error(
        ErrorKind::exhausted,
        "the prompt has {} tokens, but the context is {} tokens long and the answer needs room too{}", length,
        context, context_note_);
  for (const int id : request.prompt)
    if (id < 0 || id >= loaded_.model->spec().vocab)
      return make_error(ErrorKind::invalid, "token id {} is outside the vocabulary of {}", id,
                        loaded_.model->spec().vocab);
  TRY_VOID(check_sampling(request, loaded_.model->spec().vocab));
  if (request.speculation && !request.speculation->automatic && !spec_.has(request.speculation->source))
    return cannot_draft(request.speculation->source, info(), loaded_.model->spec());
  if (request.begun < 0 || request.begun > length)
    return make_error(ErrorKind::invalid, "{} of the prompt's {} tokens cannot begin the answer",
                      request.begun, length);
  const int room = context - length;  // 1 or more
  request.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);

  auto sequence = std::make_unique<Sequence>(0, std::move(request), std::move(sink), *loaded_.tokenizer);
  std::lock_guard lock(mutex_);
  if (stopping_) return make_error(ErrorKind::busy, "the engine is stopping");
  if (waiting_ >= options_.max_running + options_.max_queue)
    return make_error(ErrorKind::busy, "{} requests are waiting already; try again later",
                      options_.max_queue);
  const RequestId id = sequence->id = next_id_++;
  arrivals_.push_back(std::move(sequence));
  waiting_++;
  stats_.requests++;
  wake_.notify_one();
  return id;
}

void EngineImpl::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  cancels_.push_back(id);
  wake_.notify_one();
}

EngineStats EngineImpl::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.queued += static_cast<int>(arrivals_.size());
  stats.grammars = grammars_->stats();
  return stats;
}

// Takes new requests and cancellations; waits for them, but not for ever (guard_memory), when there is
// nothing to do. False when stopping.
bool EngineImpl::drain_inbox() {
  std::deque<std::unique_ptr<Sequence>> arrivals;
  std::vector<RequestId> cancels;
  bool stopping;
  {
    std::unique_lock lock(mutex_);
    if (sequences_.empty())
      wake_.wait_for(lock, std::chrono::seconds(1),
                     [&] { return stopping_ || !arrivals_.empty() || !cancels_.empty(); });
    arrivals.swap(arrivals_);
    cancels.swap(cancels_);
    stopping = stopping_;
  }
  for (auto& sequence : arrivals) {
    const RequestId id = sequence->id;
    const bool added =
        scheduler_.add(id, static_cast<int>(sequence->tokens.size()), sequence->request.priority);
    const bool nothing_to_do = sequence->request.max_tokens == 0;
    sequences_.emplace(id, std::move(sequence));
    if (!added)
      end(id, FinishReason::error, {}, "the queue is full; try again later");
    else if (nothing_to_do)
      end(id, FinishReason::length, {});
  }
  for (const RequestId id : cancels) end(id, FinishReason::cancelled, {});
  return !stopping;
}

void EngineImpl::run() {
  {
    std::lock_guard lock(mutex_);
    note_running();
  }
  while (drain_inbox()) {
    schedule();
    step(scheduler_.plan(now_seconds() - tokens_out_));
  }
  while (!sequences_.empty()) end(sequences_.begin()->first, FinishReason::cancelled, {});
  cache_.reset();  // writes what waits
  save_statistics();
}

// Others need memory, too: looked at now and then, before the system begins to swap.
void EngineImpl::guard_memory() {
  constexpr double kEvery = 0.5;
  const double now = now_seconds();
  if (now - memory_checked_ < kEvery) return;
  memory_checked_ = now;
  const bool was_short = memory_->short_of_memory();
  const uint64_t kept = cache_ ? cache_->stats().ram_bytes : 0;
  const MemoryBudgets& budgets = memory_->update(available_memory(), {scheduler_.bytes(), kept});
  if (!device_->has_own_memory()) scheduler_.set_budget(budgets.states);
  if (cache_) cache_->set_ram_budget(budgets.cache);
  if (memory_->short_of_memory() == was_short) return;
  if (was_short)
    log_info("the machine has memory again: kept states and running requests may take what they did");
  else
    log_warning(
        "the machine is short of memory: kept states may take {:.1f} GB now, those of running requests "
        "{:.1f} GB; free some memory, or start with smaller --cache-ram and --memory",
        budgets.cache / 1e9, budgets.states / 1e9);
}

// Who runs in the next step.
void EngineImpl::schedule() {
  guard_memory();
  for (const RequestId id : scheduler_.preempt()) {
    Sequence& sequence = *sequences_.at(id);
    log_info(
        "request {} waits again after {} tokens: states of running requests need more memory than there is",
        id, sequence.tokens.size());
    keep_safely(sequence);
    drop_state(sequence);
    std::lock_guard lock(mutex_);
    stats_.preempted++;
  }
  admit();
  std::lock_guard lock(mutex_);
  note_running();
}

// Beside decoding sequences one by one, as long as there is time.
void EngineImpl::admit() {
  for (int begun = 0; begun < kMostAdmissions; begun++) {
    const auto ids = scheduler_.admit(begun, now_seconds() - tokens_out_);
    if (ids.empty()) return;
    for (const RequestId id : ids) {
      const double start = now_seconds();
      guard(id, [&] { begin(*sequences_.at(id)); });
      scheduler_.began(now_seconds() - start);
    }
  }
}

void EngineImpl::note_running() {
  stats_.running = scheduler_.running();
  stats_.queued = scheduler_.queued();
  stats_.state_bytes = scheduler_.bytes();
  stats_.state_budget_bytes = memory_->budgets().states;
}

// With an empty state, or one that was kept; again after a sequence had to give its state up.
void EngineImpl::begin(Sequence& sequence) {
  if (wait_for_alike(sequence)) return;
  sequence.state.emplace(loaded_.model->make_state());
  sequence.speculator.emplace(spec_, sequence.request.speculation.value_or(options_.speculation));
  const bool first = !sequence.control;
  if (first) {
    sequence.control.emplace(think_tokens_, think_rules(sequence.request));
    if (sequence.request.grammar) {
      sequence.grammar.emplace(sequence.request.grammar, think_tokens_);
      for (const int token : std::span(sequence.request.prompt).last(sequence.request.begun))
        sequence.grammar->accept(token);
    }
    sequence.history = TokenHistory(sequence.request.sampling, sequence.tokens);
    sequence.started = now_seconds();
    sequence.usage.queue_s = sequence.started - sequence.submitted;
  }
  resume(sequence, first);
  if (!first) return;
  Event event;
  event.started = true;
  event.usage = sequence.usage;
  sequence.sink(event);
}

void EngineImpl::drop_state(Sequence& sequence) {
  if (sequence.speculator) sequence.usage.speculation += sequence.speculator->counters();
  sequence.speculator.reset();
  sequence.state.reset();
}

void EngineImpl::end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const auto sequence = std::move(it->second);
  sequences_.erase(it);
  scheduler_.remove(id);
  if (sequence->state && reason != FinishReason::error) keep_safely(*sequence);
  drop_state(*sequence);
  if (sequence->grammar) {
    sequence->usage.grammar_tokens = sequence->grammar->masks();
    sequence->usage.grammar_s = sequence->grammar->seconds();
  }
  {
    std::lock_guard lock(mutex_);
    waiting_--;
    if (reason == FinishReason::cancelled)
      stats_.cancelled++;
    else if (reason == FinishReason::error)
      stats_.failed++;
    else
      stats_.finished++;
    stats_.prompt_tokens += sequence->usage.prompt_tokens;
    stats_.completion_tokens += sequence->usage.completion_tokens;
    stats_.speculation += sequence->usage.speculation;
    note_running();
  }
  if (last_tokens.empty()) sequence->logprobs.clear();  // of a step that failed half way
  try {
    sequence->sink(Event{std::move(last_tokens), std::move(sequence->logprobs), reason, std::move(error),
                         sequence->usage});
  } catch (const std::exception& e) {
    log_error("request {}: its last event was lost: {}", id, e.what());
  }
}

Result<std::unique_ptr<Engine>> create_engine(const EngineOptions& options, LoadFunction load) {
  auto engine = std::make_unique<EngineImpl>(options, std::move(load));
  TRY_VOID(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  return create_engine(options, [path = options.model_path](std::shared_ptr<Device> device) {
    return load_model(path, std::move(device));
  });
}

}  // namespace anabranch
