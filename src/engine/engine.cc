#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "cache/state_cache.h"
#include "cache/weights_key.h"
#include "decode/sampler.h"
#include "decode/spec_stats.h"
#include "decode/speculator.h"
#include "decode/think_control.h"
#include "engine/loader.h"
#include "engine/scheduler.h"
#include "text/output_format.h"
#include "text/stop_matcher.h"
#include "text/white_space.h"

namespace anabranch {
namespace {

// One request on its way through the engine; touched only by the engine thread.
struct Sequence {
  RequestId id;
  Request request;
  Sink sink;
  double submitted = 0, started = 0, first_token = 0;
  std::vector<int> tokens;             // prompt, then what was sampled
  std::optional<SequenceState> state;  // made when the sequence first runs, as is the speculator
  std::optional<Speculator> speculator;
  std::optional<ThinkControl> control;
  TokenHistory history;                 // of `tokens`, for penalties
  std::vector<TokenLogprobs> logprobs;  // of tokens not delivered yet
  text::Detokenizer detokenizer;
  text::StopMatcher stops;
  std::vector<int> keep_at;  // lengths still to come at which the state is kept, ascending
  Usage usage;

  Sequence(RequestId id, Request r, Sink sink, const text::Tokenizer& tokenizer)
      : id(id),
        request(std::move(r)),
        sink(std::move(sink)),
        submitted(now_seconds()),
        tokens(request.prompt),
        detokenizer(tokenizer),
        stops(request.stop) {
    usage.prompt_tokens = static_cast<int>(tokens.size());
  }
};

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

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::function<Result<LoadedModel>()> load)
      : options_(options),
        load_model_(std::move(load)),
        scheduler_(options.prefill_chunk, options.max_queue) {}
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
  void use_calibration();
  Result<void> drop_layers();
  Result<void> load_draft_model();
  void load_statistics();
  void save_statistics() const;
  Result<void> open_cache();
  void describe_thoughts();
  ThinkRules think_rules(const Request& request) const;
  void begin(Sequence& sequence);
  bool resume(Sequence& sequence);
  void keep(Sequence& sequence, const Snapshot& snapshot);
  void keep_safely(Sequence& sequence);
  void note_cache();
  void step(const StepPlan& plan);
  void prefill(Sequence& sequence, const StepPlan& plan);
  void after_prefill(Sequence& sequence, int begin, const mx::array& hidden, std::span<const Snapshot> kept);
  void decode(Sequence& sequence);
  int draw(Sequence& sequence, std::span<const float> logits);
  int tokens_left(const Sequence& sequence) const;
  Draft next_tokens(Sequence& sequence);
  FinishReason accept(Sequence& sequence, int token);
  FinishReason finish_reason(Sequence& sequence, int token);
  bool stop_string_came(Sequence& sequence, int token);
  void deliver(Sequence& sequence, int applied, std::vector<int> sampled, FinishReason reason);
  void end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error = {});

  EngineOptions options_;
  std::function<Result<LoadedModel>()> load_model_;
  LoadedModel loaded_;
  LoadedModel draft_;
  std::vector<uint8_t> token_traits_;  // by token
  ThinkTokens think_tokens_;
  std::vector<int> call_tokens_;  // that open a tool call, sorted

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
  SpecResources spec_;
  std::string statistics_path_;        // empty: not kept
  std::unique_ptr<StateCache> cache_;  // may be null
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::thread thread_;
};

Result<void> EngineImpl::load() {
  TRY_VOID(ops::choose_backend(options_.device, options_.reference, options_.precise));
  set_thread_count(options_.threads);
  TRY(loaded_, load_model_());
  if (options_.lossy_skip) TRY_VOID(drop_layers());
  if (!options_.draft_path.empty()) TRY_VOID(load_draft_model());
  auto& info = loaded_.info;
  if (options_.context_length > 0)
    info.context_length = std::min(info.context_length, options_.context_length);
  // Half of the device's memory may go to one sequence's keys and values.
  const uint64_t kv_bytes = info.kv_bytes_per_token + info.draft_kv_bytes_per_token;
  if (const uint64_t memory = ops::device_memory_bytes(); kv_bytes > 0 && memory > 0) {
    const uint64_t fits = memory / 2 / kv_bytes;
    info.context_length =
        static_cast<int>(std::min<uint64_t>(info.context_length, std::max<uint64_t>(fits, 1)));
  }
  describe_thoughts();
  spec_.model = loaded_.model.get();
  spec_.draft_model = draft_.model.get();
  use_calibration();
  for (int i = 1; i < kDraftSources; i++)
    if (spec_.has(static_cast<DraftSource>(i))) info.draft_sources.push_back(static_cast<DraftSource>(i));
  const SpecMode& mode = options_.speculation;
  if (!mode.automatic && !spec_.has(mode.source))
    return cannot_draft(mode.source, info, loaded_.model->spec());
  load_statistics();
  return open_cache();
}

void EngineImpl::describe_thoughts() {
  const auto& tokenizer = *loaded_.tokenizer;
  const auto format = text::find_output_format(loaded_.chat_template.get(), tokenizer);
  for (int id = 0; id < tokenizer.vocab_size(); id++) {
    const auto bytes = tokenizer.token_bytes(id);
    token_traits_.push_back(token_traits(bytes));
    if (!bytes.empty() && text::is_blank(bytes)) think_tokens_.blanks.push_back(id);
  }
  think_tokens_.ends = loaded_.eos;
  think_tokens_.traits = token_traits_;
  for (const auto opener : text::call_openers(format.tools))
    if (const auto id = tokenizer.find(opener)) call_tokens_.push_back(*id);
  std::sort(call_tokens_.begin(), call_tokens_.end());
  if (!format.reasoning) return;
  const auto& tags = *format.reasoning;
  const auto open = tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token);
  const auto close = tokenizer.find(tags.close);
  if (!open || !close) return;
  think_tokens_.open = open;
  think_tokens_.close = close;
}

// What a thought that is cut ends with, where the request does not say.
constexpr const char* kClosing = "\n\nThat is enough thought. I will give the answer now.\n";

ThinkRules EngineImpl::think_rules(const Request& request) const {
  const ThinkingOptions& wanted = request.thinking;
  ThinkRules rules;
  rules.open = request.thinking_open && think_tokens_.close;
  rules.watch = !request.ignore_eos;
  rules.break_loops = wanted.break_loops;
  if (!think_tokens_.close) return rules;
  const auto& tokenizer = *loaded_.tokenizer;
  if (wanted.tools) rules.calls = call_tokens_;
  rules.closing = tokenizer.encode(wanted.closing.empty() ? kClosing : wanted.closing, false);
  rules.closing.push_back(*think_tokens_.close);
  for (const int token : tokenizer.encode("\n\n", false)) rules.closing.push_back(token);
  rules.escape = tokenizer.encode(wanted.answer_start, false);
  // What the context has left is the answer's first: as much as it may take, up to a quarter.
  const int room = info().context_length - static_cast<int>(request.prompt.size());
  const int answer = std::min(request.max_tokens, room / 4);
  const int left = room - answer - static_cast<int>(rules.closing.size() + rules.escape.size());
  rules.budget = std::clamp(left, 0, wanted.budget < 0 ? kDefaultThinkingBudget : wanted.budget);
  return rules;
}

void EngineImpl::use_calibration() {
  // Rates are estimates, and the best of many; 0: not known.
  const auto hopeless = [](double rate) { return rate > 0 && rate < 1.1; };
  const Calibration& c = loaded_.calibration;
  spec_.exit_runs = c.exit_layers;
  for (int i = 0; i < loaded_.info.layers && !c.skip_layers.empty(); i++)
    if (!std::binary_search(c.skip_layers.begin(), c.skip_layers.end(), i)) spec_.skip_runs.push_back(i);
  spec_.only_on_request[static_cast<size_t>(DraftSource::exit)] = hopeless(c.exit_rate);
  spec_.only_on_request[static_cast<size_t>(DraftSource::skip)] = hopeless(c.skip_rate);
}

// What calibration says of layers is not of the model that is left.
Result<void> EngineImpl::drop_layers() {
  const Calibration c = std::exchange(loaded_.calibration, {});
  auto& info = loaded_.info;
  if (c.skip_layers.empty())
    return make_error(ErrorKind::invalid,
                      "--lossy-skip: calibration has not found layers of {} to leave out: run `anabranch "
                      "calibrate -m {}` first",
                      info.name, info.path);
  log_warning("{}", lossy_note(c, info.layers));
  loaded_.model->drop_layers(c.skip_layers);
  describe(*loaded_.model, info);
  info.lossy = true;
  return {};
}

Result<void> EngineImpl::load_draft_model() {
  TRY(draft_, load_model(options_.draft_path, LoadedFor::drafts));
  const auto &ours = *loaded_.tokenizer, &theirs = *draft_.tokenizer;
  bool same = ours.vocab_size() == theirs.vocab_size();
  for (int id = 0; same && id < ours.vocab_size(); id++)
    same = ours.token_bytes(id) == theirs.token_bytes(id);
  if (!same || draft_.model->spec().vocab < loaded_.model->spec().vocab)
    return make_error(ErrorKind::invalid,
                      "{} cannot draft for {}: their tokens differ; a draft model needs the same tokenizer",
                      draft_.info.name, loaded_.info.name);
  auto& info = loaded_.info;
  info.draft_model = draft_.info.name;
  info.draft_model_bytes = draft_.info.weight_bytes;
  info.draft_kv_bytes_per_token += draft_.info.kv_bytes_per_token;
  info.draft_state_bytes += draft_.info.state_bytes + draft_.info.draft_state_bytes;
  return {};
}

// What rounds cost and how often drafts are right depends on model, machine and settings.
void EngineImpl::load_statistics() {
  if (!options_.keep_statistics) return;
  const auto& info = loaded_.info;
  const std::string about =
      fmt::format("{} {} {} {} {} {} {} {}", info.name, info.parameters, info.bytes_per_token,
                  draft_.info.name, draft_.info.bytes_per_token, thread_count(),
                  options_.device == "cpu" ? ops::cpu_target() : ops::device_name(),
                  options_.precise + 2 * options_.reference);
  Fnv1a hash;
  for (const char c : about) hash.add(static_cast<uint8_t>(c));
  statistics_path_ = spec_stats_path(fmt::format("{:016x}", hash.value()));
  spec_.costs = SpecCosts(load_spec_stats(statistics_path_));
}

void EngineImpl::save_statistics() const {
  if (!statistics_path_.empty()) save_spec_stats(statistics_path_, spec_.costs.stats());
}

// Bumped when the same tokens would leave other bits: states kept before are not found then.
constexpr int kStateVersion = 1;

Result<void> EngineImpl::open_cache() {
  const CacheOptions& wanted = options_.cache;
  if (!wanted.enabled) return {};
  if (options_.device != "cpu" && wanted.kv == KvForm::q8)
    return make_error(ErrorKind::unsupported, "--cache-kv q8 is for the CPU only: leave it out with --device {}",
                      options_.device);
  TRY(const Fingerprint weights, weights_key(options_.model_path));
  StateCacheOptions options;
  options.model = loaded_.model->state_layout();
  if (loaded_.model->has_mtp()) options.mtp = loaded_.model->mtp_layout();
  options.mtp_hidden = loaded_.model->spec().hidden;
  const auto setting = fmt::format("{} {}{}", options_.reference ? "reference" : options_.device,
                                   options_.precise ? "f32" : "f16", wanted.kv == KvForm::q8 ? " q8" : "");
  options.fingerprint = fingerprint_of(
      fmt::format("{} {} {} {}", to_hex(weights), kStateVersion, setting, options_.lossy_skip));
  options.kv = wanted.kv;
  if (wanted.kv == KvForm::q8)
    log_warning(
        "states are kept with keys and values in 8 bits (--cache-kv q8): what follows one may differ from "
        "what a cold run would say");
  const uint64_t memory = cpu_info().memory_bytes;
  options.ram_bytes = wanted.ram_bytes > 0 ? wanted.ram_bytes : std::min<uint64_t>(memory / 8, 8ull << 30);
  // Which layers are left out may change with the next calibration, and no fingerprint would tell.
  if (!wanted.directory.empty() && !options_.lossy_skip) {
    DiskOptions disk;
    disk.directory = wanted.directory;
    disk.fingerprint = options.fingerprint;
    disk.budget_bytes = wanted.disk_bytes;
    std::error_code ignored;
    const auto path = std::filesystem::absolute(info().path, ignored).lexically_normal();
    disk.about = fmt::format("model {}\nsetting {}\npath {}\n", info().name, setting, path.string());
    auto store = DiskStore::open(std::move(disk));
    if (store.ok())
      options.disk = std::move(*store);
    else
      log_warning("states are kept in memory only: {}", store.error().message);
  }
  cache_ = std::make_unique<StateCache>(std::move(options));
  note_cache();
  return {};
}

void EngineImpl::note_cache() {
  auto stats = cache_->stats();
  std::lock_guard lock(mutex_);
  stats_.cache = std::move(stats);
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
  TRY_VOID(check_sampling(request, loaded_.model->spec().vocab));
  if (request.speculation && !request.speculation->automatic && !spec_.has(request.speculation->source))
    return cannot_draft(request.speculation->source, info(), loaded_.model->spec());
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
  cache_.reset();  // writes what waits
  save_statistics();
}

void EngineImpl::begin(Sequence& sequence) {
  sequence.state.emplace(loaded_.model->make_state());
  sequence.speculator.emplace(spec_, sequence.request.speculation.value_or(options_.speculation));
  sequence.control.emplace(think_tokens_, think_rules(sequence.request));
  sequence.history = TokenHistory(sequence.request.sampling, sequence.tokens);
  sequence.started = now_seconds();
  sequence.usage.queue_s = sequence.started - sequence.submitted;
}

// Where a prompt's states are worth keeping beside where the request says so: in steps that double, so that a
// prompt that parts from this one somewhere finds at least half of it; where others have parted from what is
// kept; and before the last token, so that the same prompt is found again.
constexpr int kFirstKept = 1024, kLeastKept = 32, kLeastBranch = 64;

std::vector<int> places_to_keep(const Request& request, const StateCache& cache, int length, int shared) {
  const int end = static_cast<int>(request.prompt.size());
  std::vector<int> at = request.keep_at;
  if (at.empty()) at.push_back(end - 1);
  if (cache.any_token()) at = {at.back()};  // all between come with it
  for (int64_t n = kFirstKept; n < end && !cache.any_token(); n *= 2) at.push_back(static_cast<int>(n));
  if (shared - length >= kLeastBranch) at.push_back(shared);
  std::erase_if(at, [&](int n) { return n <= length || n >= end || n < kLeastKept; });
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

// Goes on from a kept state; false when there is none.
bool EngineImpl::resume(Sequence& sequence) {
  const Request& request = sequence.request;
  if (!cache_ || !request.cache) return false;
  auto hit = cache_->find(request.prompt, request.cache_salt);
  note_cache();
  sequence.keep_at = places_to_keep(request, *cache_, hit.length, hit.shared);
  const auto line = fmt::format("request {}: {} of {} prompt tokens were kept{}", sequence.id, hit.length,
                                request.prompt.size(),
                                hit.from_disk ? fmt::format(", {} of them on disk", hit.disk_tokens) : "");
  if (hit.miss.empty())
    log_debug("{}", line);
  else
    log_info("{}: {}", line, hit.miss);
  if (hit.length == 0) return false;
  sequence.state->restore(hit.state.model);
  sequence.speculator->resume(hit.length, hit.state.mtp ? &*hit.state.mtp : nullptr);
  sequence.usage.cached_tokens = hit.length;
  scheduler_.advanced(sequence.id, hit.length, 0);
  return true;
}

// Keeps a state of the sequence; its hidden states so far are known to the speculator, and no further ones.
void EngineImpl::keep(Sequence& sequence, const Snapshot& snapshot) {
  const auto tokens = std::span<const int>(sequence.tokens).first(static_cast<size_t>(snapshot.length));
  cache_->keep(tokens, sequence.request.cache_salt, {snapshot, sequence.speculator->save(tokens)});
  note_cache();
}

// For the end of a request, which must come.
void EngineImpl::keep_safely(Sequence& sequence) {
  if (!cache_ || !sequence.request.cache || sequence.state->length() < kLeastKept) return;
  try {
    keep(sequence, sequence.state->snapshot());
  } catch (const std::exception& e) {
    log_warning("a state was not kept: {}", e.what());
  }
}

void EngineImpl::step(const StepPlan& plan) {
  Sequence& sequence = *sequences_.at(plan.id);
  if (!sequence.state) {
    begin(sequence);
    if (resume(sequence)) return;  // the plan was made for an empty state
  }
  sequence.usage.completion_tokens > 0 ? decode(sequence) : prefill(sequence, plan);
}

// Row i of logits [rows, vocab], evaluated.
std::span<const float> row_of(const mx::array& logits, size_t i) {
  const size_t vocab = logits.shape(1);
  return {logits.data<float>() + i * vocab, vocab};
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
  const auto out = loaded_.model->forward(batch);
  if (!plan.last) {
    after_prefill(sequence, begin, out.hidden, kept);
    return scheduler_.advanced(plan.id, plan.tokens, 0);
  }
  const auto logits = ops::to_host(out.logits);
  const int token = draw(sequence, row_of(logits, 0));
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
  const auto out = loaded_.model->forward(batch);
  const auto logits = ops::to_host(out.logits);

  std::vector<int> sampled;
  FinishReason reason = FinishReason::none;
  bool right = true;
  while (right && reason == FinishReason::none) {
    const size_t row = sampled.size();
    sampled.push_back(draw(sequence, row_of(logits, row)));
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

void EngineImpl::end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const auto sequence = std::move(it->second);
  sequences_.erase(it);
  scheduler_.remove(id);
  if (sequence->speculator) sequence->usage.speculation = sequence->speculator->counters();
  if (sequence->state && reason != FinishReason::error) keep_safely(*sequence);
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
    stats_.running = scheduler_.running();
    stats_.queued = scheduler_.queued();
  }
  if (last_tokens.empty()) sequence->logprobs.clear();  // of a step that failed half way
  sequence->sink(Event{std::move(last_tokens), std::move(sequence->logprobs), reason, std::move(error),
                       sequence->usage});
}

}  // namespace

Result<std::unique_ptr<Engine>> create_engine(const EngineOptions& options,
                                              std::function<Result<LoadedModel>()> load) {
  auto engine = std::make_unique<EngineImpl>(options, std::move(load));
  TRY_VOID(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  return create_engine(options, [path = options.model_path] { return load_model(path); });
}

}  // namespace anabranch
