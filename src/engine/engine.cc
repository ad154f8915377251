// Implements engine.h: loads the model on a thread of its own, which then runs the loop, and passes requests
// to it.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "checkpoint/adapter_file.h"
#include "engine/engine_loop.h"
#include "engine/state_fetcher.h"
#include "models/model_adapters.h"

namespace anabranch {
namespace {

Result<void> check_sampling(const Request& request, int vocab) {
  const SamplingParams& p = request.sampling;
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty) || p.repetition_window < 0)
    return make_error(ErrorKind::invalid, "the repetition penalty is {} over {} tokens, but must be above 0",
                      p.repetition_penalty, p.repetition_window);
  const DryParams& dry = p.dry;
  for (const float value : {p.top_n_sigma, p.typical_p, p.dynatemp_range, p.dynatemp_exponent, p.mirostat_tau,
                            p.mirostat_eta, dry.multiplier, dry.base})
    if (!std::isfinite(value) || value < 0)
      return make_error(ErrorKind::invalid, "a sampling parameter is {}, but must be a number of at least 0",
                        value);
  if (p.mirostat < 0 || p.mirostat > 2 || dry.base < 1 || dry.allowed_length < 0)
    return make_error(ErrorKind::invalid,
                      "Mirostat {}, DRY base {} and DRY length {} are not possible: Mirostat is 0 to 2, the "
                      "base at least 1, the length at least 0",
                      p.mirostat, dry.base, dry.allowed_length);
  if (request.logprobs > kMaxLogprobs)
    return make_error(ErrorKind::invalid,
                      "{} log probabilities were asked for, but at most {} can be returned", request.logprobs,
                      kMaxLogprobs);
  for (const auto& entry : p.logit_bias)
    if (entry.first < 0 || entry.first >= vocab)
      return make_error(ErrorKind::invalid, "the bias of token id {} is outside the vocabulary of {}",
                        entry.first, vocab);
  return {};
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, LoadFunction load) : options_(options), load_(std::move(load)) {}
  ~EngineImpl() override {
    fetcher_.reset();  // hands its requests over to the inbox
    {
      std::lock_guard lock(inbox_.mutex);
      inbox_.stopping = true;
    }
    inbox_.wake.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Result<void> start();

  Result<RequestId> submit(Request request, Sink sink) override;
  void compile_grammar(std::string text, const GrammarClient& client, GrammarDone done) const override {
    model_.grammars().compile(std::move(text), client, std::move(done));
  }
  Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(const std::string& text) const override {
    return model_.grammars().compile(text);
  }
  Result<void> check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                               std::span<const int> tokens) const override {
    return model_.check_beginning(std::move(grammar), tokens);
  }
  Result<std::shared_ptr<const LoadedAdapter>> load_adapter(const std::string& path) override;
  void cancel(RequestId id) override;
  const ModelInfo& info() const override { return model_.info(); }
  EngineStats stats() const override;
  std::vector<std::vector<uint64_t>> expert_rows() const override;
  std::optional<DeviceMemory> device_memory() const override;
  bool device_lost() const override { return model_.device().lost(); }
  SharedStates* shared_states() const override { return states_; }
  const Tokenizer& tokenizer() const override { return model_.tokenizer(); }
  const ChatTemplate* chat_template() const override { return model_.loaded().chat_template.get(); }
  const ImageFormat* image_format() const override { return model_.image_format(); }
  const SamplingParams& default_sampling() const override { return model_.loaded().sampling; }

 private:
  Result<std::unique_ptr<EngineLoop>> load();
  Result<std::unique_ptr<EngineLoop>> load_safely();
  Result<void> check(const Request& request) const;
  Result<void> check_images(const Request& request) const;
  Result<void> check_adapters(const Request& request) const;
  Result<void> check_memory(const AdapterFile& file) const;
  Result<void> between_steps(const std::function<void()>& work);

  EngineOptions options_;
  LoadFunction load_;
  EngineModel model_;
  std::string context_note_;  // why the context is shorter than the model's own; for messages
  Inbox inbox_;
  uint64_t adapter_room_ = 0;              // bytes that all adapters may take
  StateCache* states_ = nullptr;           // owned by the loop, which lives as long as thread_
  std::unique_ptr<StateFetcher> fetcher_;  // null: no peers are configured
  std::thread thread_;
};

Result<std::unique_ptr<EngineLoop>> EngineImpl::load() {
  TRY_VOID(model_.load(options_, load_));
  TRY(const MemoryPlan memory, plan_memory(options_, model_.info(), model_.device()));
  model_.info().context_length = memory.context_length;
  context_note_ = memory.context_note;
  const bool free_choice = options_.memory_bytes > 0 || options_.overcommit;
  adapter_room_ = free_choice ? UINT64_MAX : memory.budgets.states / 2;
  TRY(auto keeper, SnapshotKeeper::open(options_, model_, memory.budgets.cache));
  states_ = keeper.cache();
  if (states_ && !options_.peers.urls.empty())
    fetcher_ = std::make_unique<StateFetcher>(options_.peers, *states_,
                                              [this](std::unique_ptr<Sequence> sequence, bool cancelled) {
                                                const std::lock_guard lock(inbox_.mutex);
                                                if (cancelled) inbox_.cancels.push_back(sequence->id);
                                                inbox_.arrivals.push_back(std::move(sequence));
                                                inbox_.wake.notify_one();
                                              });
  return std::make_unique<EngineLoop>(options_, model_, memory, std::move(keeper), inbox_);
}

Result<std::unique_ptr<EngineLoop>> EngineImpl::load_safely() {
  try {
    return load();
  } catch (const std::exception& e) {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    const auto* system = dynamic_cast<const std::system_error*>(&e);  // a thread could not be started
    const bool threads = system && system->code() == std::errc::resource_unavailable_try_again;
    return make_error(memory || threads ? ErrorKind::exhausted : ErrorKind::internal,
                      "{} could not be loaded: {}", options_.model_path,
                      memory    ? "out of memory"
                      : threads ? "no memory for another thread, or no more threads are allowed"
                                : e.what());
  }
}

Result<void> EngineImpl::start() {
  std::promise<Result<void>> ready;
  auto loaded = ready.get_future();
  thread_ = std::thread([this, &ready] {
    name_thread("engine");
    run_on_fast_cores(cpu_info(), options_.device.threads > 0 ? options_.device.threads
                                                              : choose_threads(cpu_info()).threads);
    auto loop = load_safely();
    if (!loop) return ready.set_value(loop.error());
    ready.set_value({});
    (*loop)->run();
    loop->reset();  // the destructor of the cache writes its queued records
    model_.save_statistics();
  });
  return loaded.get();
}

// Every image id in the prompt must belong to one of the request's images.
Result<void> EngineImpl::check_images(const Request& request) const {
  if (!request.images.empty() && !model_.image_format())
    return make_error(ErrorKind::unsupported, "the model {} reads no images", info().name);
  if (!request.images.empty() && request.prompt_logprobs)
    return make_error(ErrorKind::unsupported, "log probabilities of a prompt with images cannot be returned");
  const int merge = request.images.empty() ? 1 : model_.tower()->spec().merge;
  for (const RequestImage& image : request.images)
    if (!image.image || image.image->tokens < 1 ||
        image.image->tokens != image.image->rows / merge * (image.image->columns / merge))
      return make_error(ErrorKind::invalid, "the image at {} does not fit the model's vision tower",
                        image.begin);
  auto image = request.images.begin();
  for (size_t i = 0; i < request.prompt.size();) {
    const bool here = image != request.images.end() && i == static_cast<size_t>(image->begin);
    const int tokens = here ? image->image->tokens : 0;
    for (int k = 0; k < tokens; k++)
      if (i + static_cast<size_t>(k) >= request.prompt.size() ||
          request.prompt[i + static_cast<size_t>(k)] != image_id(image->key, k))
        return make_error(ErrorKind::invalid, "the prompt has other tokens where its image at {} stands", i);
    if (!here && is_image_id(request.prompt[i]))
      return make_error(ErrorKind::invalid, "token id {} is outside the vocabulary of {}", request.prompt[i],
                        model_.model().spec().vocab);
    i += static_cast<size_t>(here ? tokens : 1);
    if (here) ++image;
  }
  if (image != request.images.end())
    return make_error(ErrorKind::invalid, "the prompt ends before its image at {}", image->begin);
  return {};
}

Result<void> EngineImpl::check_adapters(const Request& request) const {
  if (request.adapters.size() > kMaxAdapters)
    return make_error(ErrorKind::invalid, "{} adapters, but a request may have {}", request.adapters.size(),
                      kMaxAdapters);
  for (const AppliedAdapter& one : request.adapters) {
    if (!one.adapter || one.adapter->engine != this)
      return make_error(ErrorKind::invalid, "an adapter is not of the model {}", info().name);
    if (!std::isfinite(one.scale))
      return make_error(ErrorKind::invalid, "an adapter's scale is {}, but must be a number", one.scale);
  }
  if (adapter_salt_in(request.cache_salt) != adapter_salt(request.adapters))
    return make_error(ErrorKind::invalid, "the adapters are not those of the cache salt");
  return {};
}

Result<void> EngineImpl::check(const Request& request) const {
  const int length = static_cast<int>(request.prompt.size()), context = info().context_length;
  const ModelSpec& spec = model_.model().spec();
  if (length == 0) return make_error(ErrorKind::invalid, "the prompt is empty");
  if (length >= context)
    return make_error(
        ErrorKind::exhausted,
        "the prompt has {} tokens, but the context is {} tokens long and the answer needs room too{}", length,
        context, context_note_);
  TRY_VOID(check_images(request));
  TRY_VOID(check_adapters(request));
  for (const auto* ids : {&request.prompt, &request.classes, &request.output.stop_tokens})
    for (const int id : *ids)
      if (id < 0 || (id >= spec.vocab && !(is_image_id(id) && ids == &request.prompt)))
        return make_error(ErrorKind::invalid, "token id {} is outside the vocabulary of {}", id, spec.vocab);
  TRY_VOID(check_sampling(request, spec.vocab));
  const auto& speculation = request.speculation;
  if (speculation && !speculation->automatic && !model_.speculation().has(speculation->source))
    return cannot_draft(speculation->source, info(), spec);
  if (request.begun < 0 || request.begun > length)
    return make_error(ErrorKind::invalid, "{} of the prompt's {} tokens cannot begin the answer",
                      request.begun, length);
  return {};
}

Result<RequestId> EngineImpl::submit(Request request, Sink sink) {
  TRY_VOID(check(request));
  const int room = info().context_length - static_cast<int>(request.prompt.size());  // at least 1
  request.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
  if (request.pooling) {
    request.max_tokens = 1;
    request.cache = false;
    request.speculation = SpecMode{};
  }
  if (request.prompt_logprobs) request.cache = false;
  std::sort(request.output.stop_tokens.begin(), request.output.stop_tokens.end());
  auto sequence = std::make_unique<Sequence>(0, std::move(request), std::move(sink));
  std::unique_lock lock(inbox_.mutex);
  if (inbox_.stopping) return make_error(ErrorKind::busy, "the engine is stopping");
  const bool counts = !sequence->request.background;
  if (counts && inbox_.waiting >= info().max_running + options_.max_queue)
    return make_error(ErrorKind::busy, "{} requests are waiting already; try again later",
                      options_.max_queue);
  const RequestId id = sequence->id = inbox_.next_id++;
  inbox_.waiting += counts;
  inbox_.stats.requests += counts;
  if (fetcher_ && fetcher_->wants(sequence->request)) {
    lock.unlock();
    fetcher_->add(std::move(sequence));
    return id;
  }
  inbox_.arrivals.push_back(std::move(sequence));
  inbox_.wake.notify_one();
  return id;
}

// Runs `work` on the engine's thread between two steps, and waits for it.
Result<void> EngineImpl::between_steps(const std::function<void()>& work) {
  std::promise<Result<void>> promise;
  auto done = promise.get_future();
  {
    std::lock_guard lock(inbox_.mutex);
    if (inbox_.stopping) return make_error(ErrorKind::busy, "the engine is stopping");
    inbox_.jobs.push_back([&] {
      try {
        work();
        promise.set_value({});
      } catch (const std::exception& e) {  // no memory on the device
        promise.set_value(make_error(ErrorKind::exhausted, "{}", e.what()));
      }
    });
    inbox_.wake.notify_one();
  }
  return done.get();
}

// Adapters take memory from running requests, at most half of it.
Result<void> EngineImpl::check_memory(const AdapterFile& file) const {
  const uint64_t others = inbox_.adapter_bytes->load();
  if (others + file.bytes <= adapter_room_) return {};
  return make_error(ErrorKind::exhausted,
                    "{} takes {:.1f} GB; adapters may take {:.1f} GB here, and others have {:.1f} GB: unload "
                    "some, or start with --memory or --overcommit",
                    file.path, file.bytes / 1e9, adapter_room_ / 1e9, others / 1e9);
}

Result<std::shared_ptr<const LoadedAdapter>> EngineImpl::load_adapter(const std::string& path) {
  try {
    TRY(const AdapterFile file, read_adapter(path, model_.loaded().config));
    TRY_VOID(check_adapter(model_.model(), file));
    TRY_VOID(check_memory(file));
    // Whoever releases it last, its device is still there.
    const std::shared_ptr<LoadedAdapter> adapter(
        new LoadedAdapter, [device = model_.loaded().device, sum = inbox_.adapter_bytes](LoadedAdapter* one) {
          *sum -= one->bytes;
          delete one;
        });
    const auto weights = std::make_shared<nn::Adapter>();
    adapter->weights = weights;
    adapter->path = path, adapter->digest = file.digest, adapter->base = file.base, adapter->engine = this;
    for (const auto& [module, matrices] : file.modules)
      adapter->rank = std::max(adapter->rank, matrices.down.shape(0));
    adapter->bytes = file.bytes;
    *inbox_.adapter_bytes += file.bytes;
    for (const auto& layers : adapted_inputs(model_.model(), file))  // requests wait for one input's at most
      TRY_VOID(between_steps([&] { add_to_adapter(*weights, model_.model(), file, layers); }));
    TRY_VOID(between_steps([&] { model_.prepare_adapters(*weights, file); }));
    return std::shared_ptr<const LoadedAdapter>(adapter);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::exhausted, "{} could not be loaded: out of memory", path);
  }
}

void EngineImpl::cancel(RequestId id) {
  if (fetcher_ && fetcher_->cancel(id)) return;
  std::lock_guard lock(inbox_.mutex);
  inbox_.cancels.push_back(id);
  inbox_.wake.notify_one();
}

EngineStats EngineImpl::stats() const {
  std::lock_guard lock(inbox_.mutex);
  EngineStats stats = inbox_.stats;
  stats.queued += static_cast<int>(inbox_.arrivals.size());
  stats.grammars = model_.grammars().stats();
  if (!fetcher_ || !stats.cache) return stats;
  const PeerStates::Stats peers = fetcher_->stats();
  stats.cache->has_peers = true;
  stats.cache->peer_lookups = peers.lookups;
  stats.cache->peer_hits = peers.fetched;
  stats.cache->peer_failed = peers.failed;
  stats.cache->peer_tokens = peers.tokens;
  stats.cache->peer_bytes = peers.bytes;
  return stats;
}

std::vector<std::vector<uint64_t>> EngineImpl::expert_rows() const {
  try {
    return model_.device().expert_rows();
  } catch (const std::exception&) {  // the device failed; device_lost() reports it
    return {};
  }
}

std::optional<DeviceMemory> EngineImpl::device_memory() const {
  const Device& device = model_.device();
  if (!device.has_own_memory()) return std::nullopt;
  try {
    return DeviceMemory{device.name(), device.memory_bytes(), device.free_bytes()};
  } catch (const std::exception&) {  // the device failed
    return std::nullopt;
  }
}

}  // namespace

Result<std::unique_ptr<Engine>> create_engine(const EngineOptions& options, LoadFunction load) {
  auto engine = std::make_unique<EngineImpl>(options, std::move(load));
  TRY_VOID(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  const LoadOptions wanted{.overcommit = options.overcommit, .progress = options.loading};
  return create_engine(options, [path = options.model_path, wanted](std::shared_ptr<Device> device) {
    return load_model(path, std::move(device), wanted);
  });
}

}  // namespace anabranch
