#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "decode/sampler.h"
#include "engine/loader.h"
#include "engine/scheduler.h"
#include "text/stop_matcher.h"

namespace anabranch {
namespace {

// One request on its way through the engine; touched only by the engine thread.
struct Sequence {
  RequestId id;
  Request request;
  Sink sink;
  double submitted = 0, started = 0, first_token = 0;
  std::vector<int> tokens;             // prompt, then what was sampled
  std::optional<SequenceState> state;  // made when the sequence first runs
  text::Detokenizer detokenizer;
  text::StopMatcher stops;
  bool thinking = false;
  Usage usage;

  Sequence(RequestId id, Request r, Sink sink, const text::Tokenizer& tokenizer)
      : id(id),
        request(std::move(r)),
        sink(std::move(sink)),
        submitted(now_seconds()),
        tokens(request.prompt),
        detokenizer(tokenizer),
        stops(request.stop),
        thinking(request.thinking_open) {
    usage.prompt_tokens = static_cast<int>(tokens.size());
  }
};

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options)
      : options_(options), scheduler_(options.prefill_chunk, options.max_queue) {}
  ~EngineImpl() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start();
  Result<RequestId> submit(Request request, Sink sink) override;
  void cancel(RequestId id) override;
  const ModelInfo& info() const override { return loaded_.info; }
  EngineStats stats() const override;
  const text::Tokenizer& tokenizer() const override { return *loaded_.tokenizer; }
  const text::ChatTemplate* chat_template() const override { return loaded_.chat_template.get(); }
  const SamplingParams& default_sampling() const override { return loaded_.sampling; }

 private:
  Result<void> load();
  Result<void> load_safely();
  void run();
  bool drain_inbox();
  void step(const StepPlan& plan);
  void accept(Sequence& sequence, int token);
  FinishReason finish_reason(Sequence& sequence, int token);
  void end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error = {});

  EngineOptions options_;
  LoadedModel loaded_;
  std::optional<int> think_open_, think_close_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Sequence>> arrivals_;
  std::vector<RequestId> cancels_;
  EngineStats stats_;
  RequestId next_id_ = 1;
  int waiting_ = 0;  // arrivals and queued sequences
  bool stopping_ = false;

  // Engine thread only.
  Scheduler scheduler_;
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::thread thread_;
};

Result<void> EngineImpl::load() {
  ops::set_backend(options_.reference ? ops::Backend::reference : ops::Backend::cpu);
  ops::set_precise(options_.precise);
  set_thread_count(options_.threads);
  TRY(loaded_, load_model(options_.model_path));
  auto& info = loaded_.info;
  if (options_.context_length > 0)
    info.context_length = std::min(info.context_length, options_.context_length);
  // Half of the machine's memory may go to one sequence's keys and values.
  if (info.kv_bytes_per_token > 0 && cpu_info().memory_bytes > 0) {
    const uint64_t fits = cpu_info().memory_bytes / 2 / info.kv_bytes_per_token;
    info.context_length =
        static_cast<int>(std::min<uint64_t>(info.context_length, std::max<uint64_t>(fits, 1)));
  }
  think_open_ = loaded_.tokenizer->find("<think>");
  think_close_ = loaded_.tokenizer->find("</think>");
  return {};
}

Result<void> EngineImpl::load_safely() {
  try {
    return load();
  } catch (const std::exception& e) {
    return make_error(ErrorKind::internal, "{} could not be loaded: {}", options_.model_path, e.what());
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
        "the prompt has {} tokens, but the context is {} tokens long and the answer needs room too", length,
        context);
  for (const int id : request.prompt)
    if (id < 0 || id >= loaded_.model->spec().vocab)
      return make_error(ErrorKind::invalid, "token id {} is outside the vocabulary of {}", id,
                        loaded_.model->spec().vocab);
  const int room = context - length;
  request.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
  if (request.max_tokens == 0) return make_error(ErrorKind::invalid, "max_tokens is 0: nothing to generate");

  std::lock_guard lock(mutex_);
  if (stopping_) return make_error(ErrorKind::exhausted, "the engine is stopping");
  if (waiting_ > options_.max_queue)
    return make_error(ErrorKind::exhausted, "{} requests are waiting already; try again later",
                      options_.max_queue);
  const RequestId id = next_id_++;
  waiting_++;
  stats_.requests++;
  arrivals_.push_back(
      std::make_unique<Sequence>(id, std::move(request), std::move(sink), *loaded_.tokenizer));
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
  return stats_;
}

// Takes new requests and cancellations; waits for them when there is nothing to do. False when stopping.
bool EngineImpl::drain_inbox() {
  std::deque<std::unique_ptr<Sequence>> arrivals;
  std::vector<RequestId> cancels;
  bool stopping;
  {
    std::unique_lock lock(mutex_);
    if (sequences_.empty())
      wake_.wait(lock, [&] { return stopping_ || !arrivals_.empty() || !cancels_.empty(); });
    arrivals.swap(arrivals_);
    cancels.swap(cancels_);
    stopping = stopping_;
  }
  for (auto& sequence : arrivals) {
    const RequestId id = sequence->id;
    const bool added = scheduler_.add(id, static_cast<int>(sequence->tokens.size()));
    sequences_.emplace(id, std::move(sequence));
    if (!added) end(id, FinishReason::error, {}, "the queue is full; try again later");
  }
  for (const RequestId id : cancels) end(id, FinishReason::cancelled, {});
  {
    std::lock_guard lock(mutex_);
    stats_.running = scheduler_.running();
    stats_.queued = scheduler_.queued();
  }
  return !stopping;
}

void EngineImpl::run() {
  while (drain_inbox()) {
    const auto plan = scheduler_.plan();
    if (!plan) continue;
    try {
      step(*plan);
    } catch (const std::exception& e) {
      // The running sequence's state may be half advanced: it ends, the others go on.
      log_error("step failed: {}", e.what());
      end(plan->id, FinishReason::error, {}, fmt::format("the engine failed: {}", e.what()));
    }
  }
  while (!sequences_.empty()) end(sequences_.begin()->first, FinishReason::cancelled, {});
}

void EngineImpl::step(const StepPlan& plan) {
  Sequence& sequence = *sequences_.at(plan.id);
  if (!sequence.state) {
    sequence.state.emplace(loaded_.model->make_state());
    sequence.started = now_seconds();
    sequence.usage.queue_s = sequence.started - sequence.submitted;
  }
  Batch batch;
  batch.add(*sequence.state, sequence.tokens.data() + sequence.state->length(), plan.tokens, plan.last);
  const auto out = loaded_.model->forward(batch);
  scheduler_.applied(plan);
  if (!plan.last) return;
  auto logits = out.logits;
  logits.eval();
  const std::span<const float> row(logits.data<float>(), logits.size());
  accept(sequence, sample(row, sequence.request.sampling, sequence.tokens.size()));
}

FinishReason EngineImpl::finish_reason(Sequence& sequence, int token) {
  if (!sequence.request.ignore_eos && std::binary_search(loaded_.eos.begin(), loaded_.eos.end(), token))
    return FinishReason::stop;
  if (!sequence.request.stop.empty() && sequence.stops.push(sequence.detokenizer.push(token)).stopped)
    return FinishReason::stop;
  if (sequence.usage.completion_tokens >= sequence.request.max_tokens) return FinishReason::length;
  return FinishReason::none;
}

void EngineImpl::accept(Sequence& sequence, int token) {
  const double now = now_seconds();
  auto& usage = sequence.usage;
  if (usage.completion_tokens++ == 0) {
    sequence.first_token = now;
    usage.ttft_s = now - sequence.submitted;
    usage.prefill_s = now - sequence.started;
  }
  usage.decode_s = now - sequence.first_token;
  sequence.tokens.push_back(token);
  if (think_open_ == token) sequence.thinking = true;
  if (sequence.thinking) usage.thinking_tokens++;
  if (think_close_ == token) sequence.thinking = false;

  const auto reason = finish_reason(sequence, token);
  if (reason != FinishReason::none) return end(sequence.id, reason, {token});
  scheduler_.sampled(sequence.id);
  Event event;
  event.tokens = {token};
  sequence.sink(event);
}

void EngineImpl::end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const auto sequence = std::move(it->second);
  sequences_.erase(it);
  scheduler_.remove(id);
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
    stats_.running = scheduler_.running();
    stats_.queued = scheduler_.queued();
  }
  sequence->sink(Event{std::move(last_tokens), reason, std::move(error), sequence->usage});
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  auto engine = std::make_unique<EngineImpl>(options);
  TRY_VOID(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace anabranch
