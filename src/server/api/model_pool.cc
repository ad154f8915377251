#include "server/api/model_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/adapter_path.h"

namespace anabranch::server {
namespace {

uint64_t weights_of(const Engine& engine) {
  return engine.info().weight_bytes + engine.info().draft_model_bytes;
}

ApiError not_found(const std::string& wanted) {
  return {404,
          wanted.empty()
              ? "The request names no model, and none is loaded: GET /v1/models lists those that are here"
              : fmt::format("There is no model '{}' here: GET /v1/models lists those that are", wanted),
          "model", "model_not_found"};
}

std::string token_text(const Tokenizer& tokenizer, std::optional<int> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

Result<std::shared_ptr<const LoadedAdapter>> load_again(Engine& engine, const ServedAdapter& adapter,
                                                        const std::vector<std::string>& directories) {
  std::string path = adapter.path;
  if (adapter.from_client) {  // a link may lie there by now
    auto allowed = allowed_adapter_path(path, directories);
    if (!allowed)
      return make_error(ErrorKind::invalid,
                        "adapter '{}': {} is gone, or leads out of the directories of --lora-dir now",
                        adapter.name, path);
    path = std::move(*allowed);
  }
  TRY(const auto loaded, load_adapters(engine, {{adapter.name, path}}));
  return loaded.front().loaded;
}

// Loads the adapters that the registry has for the model. A client's that cannot be loaded any more is left
// out; one of the operator's is an error.
Result<void> add_adapters(ReadyModel& model, const std::vector<ServedAdapter>& known,
                          const std::vector<std::string>& directories) {
  for (const ServedAdapter& adapter : known) {
    auto loaded = load_again(*model.engine, adapter, directories);
    if (!loaded && !adapter.from_client) {
      Error error = loaded.error();
      if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::invalid;  // the model is there
      return error;
    }
    if (!loaded) {
      log_warning("the model is loaded again without one: {}", loaded.error().message);
      continue;
    }
    model.adapters.push_back(adapter);
    model.adapters.back().loaded = std::move(*loaded);
  }
  return {};
}

}  // namespace

ModelFacts::ModelFacts(const ServedModel& model)
    : info(model.engine->info()),
      sampling(model.defaults.sampling),
      chat(model.engine->chat_template() != nullptr),
      thinks(chat && model.engine->chat_template()->mentions("enable_thinking")),
      bos(token_text(model.engine->tokenizer(), model.engine->tokenizer().bos())),
      eos(token_text(model.engine->tokenizer(), model.engine->tokenizer().eos())) {}

ModelSource no_models() {
  const Error none = make_error(ErrorKind::not_found, "this server has one model");
  return {[](const std::string&) { return std::nullopt; },
          [] { return std::vector<std::string>(); },
          [none](const std::string&) -> Result<ModelSize> { return none; },
          [none](const std::string&) -> Result<ModelDescription> { return none; },
          [none](const std::string&) -> Result<ReadyModel> { return none; },
          [none](const std::string&, const auto&, const auto&) -> Result<PulledModel> { return none; }};
}

std::string_view name_of(ModelState state) {
  switch (state) {
    case ModelState::unloaded:
      return "unloaded";
    case ModelState::waiting:
      return "waiting";
    case ModelState::loading:
      return "loading";
    case ModelState::loaded:
      return "loaded";
    case ModelState::draining:
      return "draining";
    case ModelState::unloading:
      break;
  }
  return "unloading";
}

ModelPool::ModelPool(ServerModels models, PrepareOptions prompts, Post post, After after,
                     std::vector<std::string> adapter_directories)
    : models_(std::move(models)),
      prompts_(std::move(prompts)),
      post_(std::move(post)),
      after_(std::move(after)),
      adapter_directories_(std::move(adapter_directories)),
      adapters_(models_.adapters),
      loader_(std::make_unique<WorkerPool>(PoolLimits{.name = "model loader"})) {
  if (!models_.first) return;
  first_ = models_.first->engine->info().name;
  entry(first_).keep = models_.first_keep;
  for (const ServedAdapter& adapter : models_.first->adapters) adapters_.put(first_, adapter);
  take_model(entry(first_), *std::exchange(models_.first, std::nullopt));
}

ModelPool::~ModelPool() {
  loader_.reset();  // its job refers to the source
}

// ---- names

std::string without_latest(const std::string& name) {
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

std::optional<std::string> ModelPool::find_exactly(const std::string& wanted) const {
  if (wanted.empty()) return std::nullopt;
  if (wanted.ends_with(kLatest))
    if (auto name = find_exactly(without_latest(wanted))) return name;
  if (entries_.contains(wanted)) return wanted;
  for (const std::string& name : order_)
    if (const auto& facts = entries_.at(name).facts; facts && facts->info.path == wanted) return name;
  return models_.source.find(wanted);
}

std::optional<std::string> ModelPool::find(const std::string& wanted) const {
  if (auto name = find_exactly(wanted)) return name;
  if (const auto adapter = find_adapter(wanted)) return adapters_.model_of(*adapter);
  const bool usual = wanted.empty() || wanted == "default" || wanted == "main" || wanted == "default_model";
  if (!usual && models_.strict_names) return std::nullopt;
  if (!first_.empty()) return first_;
  const Entry* recent = most_recent();
  return recent ? std::optional(recent->name) : std::nullopt;
}

std::optional<std::string> ModelPool::find_adapter(const std::string& wanted) const {
  const std::string name = without_latest(wanted);
  if (!adapters_.model_of(name) || find_exactly(wanted)) return std::nullopt;
  return name;
}

ModelPool::Entry& ModelPool::entry(const std::string& name) {
  const auto [it, added] = entries_.try_emplace(name);
  if (added) {
    it->second.name = name;
    order_.push_back(name);
  }
  return it->second;
}

const ModelPool::Entry* ModelPool::most_recent() const {
  const Entry* found = nullptr;
  for (const std::string& name : order_) {
    const Entry& e = entries_.at(name);
    if (e.model && (!found || e.last_used > found->last_used)) found = &e;
  }
  return found;
}

std::vector<const ModelPool::Entry*> ModelPool::entries() const {
  std::vector<const Entry*> out;
  for (const std::string& name : order_) out.push_back(&entries_.at(name));
  return out;
}

std::vector<const ModelPool::Entry*> ModelPool::own_entries() const {
  std::vector<const Entry*> own;
  for (const Entry* e : entries())
    if (e->model || e->name == first_) own.push_back(e);
  return own;
}

const ModelPool::Entry* ModelPool::find_entry(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const ModelPool::Entry* ModelPool::main_entry() const {
  if (!first_.empty()) return find_entry(first_);
  if (const Entry* recent = most_recent()) return recent;
  const Entry* found = nullptr;
  for (const Entry* e : entries())
    if (e->facts && (!found || e->last_used > found->last_used)) found = e;
  return found;
}

const ServedModel* ModelPool::main_model() const {
  if (!first_.empty() && entries_.at(first_).model) return entries_.at(first_).model.get();
  const Entry* recent = most_recent();
  return recent ? recent->model.get() : nullptr;
}

bool ModelPool::device_lost() const {
  return std::ranges::any_of(entries_, [](const auto& named) {
    return named.second.model && named.second.model->engine->device_lost();
  });
}

// ---- requests

void ModelPool::acquire(const std::string& wanted, TakeModel take) {
  const auto name = find(wanted);
  if (!name) return take(not_found(wanted));
  want(entry(*name), std::move(take));
}

ModelLease ModelPool::borrow(const std::string& name) {
  const auto it = entries_.find(name);
  if (it == entries_.end() || it->second.state != ModelState::loaded) return nullptr;
  return lease(it->second, false);
}

void ModelPool::load(const std::string& wanted, std::optional<bool> pinned,
                     std::optional<double> unload_after_s, TakeModel take) {
  const auto name = find_exactly(wanted);
  if (!name) return take(not_found(wanted));
  want(entry(*name), [this, name = *name, pinned, unload_after_s, take = std::move(take)](auto taken) {
    KeepLoaded& keep = entry(name).keep;
    if (taken) keep = {pinned.value_or(keep.pinned), unload_after_s.value_or(keep.unload_after_s)};
    take(std::move(taken));
  });
}

void ModelPool::keep_once(const std::string& name, double seconds) {
  constexpr double kAtOnce = 1e-3, kForEver = 1e9;  // a timer takes no longer times
  Entry& e = entry(name);
  e.keep_once_s = seconds >= 0 && seconds < kForEver ? std::max(seconds, kAtOnce) : 0;
  watch_idleness(e);
}

void ModelPool::unload(const std::string& wanted, Unloaded done) {
  const auto name = find_exactly(wanted);
  if (!name) return done(not_found(wanted));
  Entry& e = entry(*name);
  if (e.state == ModelState::waiting || e.state == ModelState::loading)
    return done(
        ApiError{409, fmt::format("The model '{}' is being loaded", *name), "model", "model_loading"});
  if (e.state == ModelState::unloaded) return done(std::nullopt);
  e.on_unload.push_back(std::move(done));
  if (e.state == ModelState::loaded) drain(e, &Entry::asked_unloads);
  advance();
}

void ModelPool::want(Entry& e, TakeModel take) {
  if (stopping_) return take(ApiError{503, "The server is shutting down", "", "shutting_down"});
  e.last_used = now_seconds();
  e.keep_once_s.reset();
  if (e.state == ModelState::loaded) return take(lease(e));
  e.waiting.push_back(std::move(take));
  if (std::ranges::find(wanted_, e.name) == wanted_.end()) wanted_.push_back(e.name);
  if (e.state == ModelState::unloaded) e.state = ModelState::waiting;
  advance();
}

ModelLease ModelPool::lease(Entry& e, bool for_request) {
  e.leases++;
  return {e.model.get(), [this, post = post_, name = e.name, for_request](ServedModel*) {
            post([this, name, for_request] { released(name, for_request); });
          }};
}

void ModelPool::released(const std::string& name, bool by_request) {
  Entry& e = entry(name);
  e.leases--;
  if (by_request) e.last_used = now_seconds();
  watch_idleness(e);
  advance();
}

// Unloads the model if it has been idle for long enough. Otherwise checks again when that may be the case.
void ModelPool::watch_idleness(Entry& e) {
  const double unload_after_s = e.unload_after_s();
  if (e.state != ModelState::loaded || e.leases > 0 || e.keep.pinned || unload_after_s == 0) return;
  const double left = e.last_used + unload_after_s - now_seconds();
  if (left <= 0) {
    drain(e, &Entry::idle_unloads);
    return advance();
  }
  const double at = now_seconds() + left;
  if (e.looked_at > 0 && e.looked_at <= at) return;
  e.looked_at = at;
  after_(left, [this, name = e.name, at] {
    Entry& e = entry(name);
    if (e.looked_at != at) return;  // an earlier timer has taken the place of this one
    e.looked_at = 0;
    watch_idleness(e);
  });
}

void ModelPool::begin_stop() {
  stopping_ = true;
  for (auto& [name, e] : entries_)
    for (TakeModel& take : std::exchange(e.waiting, {}))
      take(ApiError{503, "The server is shutting down", "", "shutting_down"});
}

// ---- loading

void ModelPool::advance() {
  if (busy_ || stopping_ || unload_drained()) return;
  while (!wanted_.empty() && bring(entry(wanted_.front()))) {
  }
}

// Unloads one draining model that is not used any more. Returns whether there was one.
bool ModelPool::unload_drained() {
  for (const std::string& name : order_) {
    Entry& e = entry(name);
    if (e.state != ModelState::draining || e.leases > 0) continue;
    start_unloading(e);
    return true;
  }
  return false;
}

// Takes the next step to load the first model in wanted_. Returns whether its requests are settled.
bool ModelPool::bring(Entry& e) {
  if (e.state == ModelState::draining) return false;  // its answers still run
  if (e.state == ModelState::loaded) {
    settled(e);
    for (TakeModel& take : std::exchange(e.waiting, {})) take(lease(e));
    return true;
  }
  if (!e.measured) {
    start_measuring(e);
    return false;
  }
  if (has_room_for(e)) {
    start_loading(e);
    return false;
  }
  Entry* victim = choose_victim();
  if (!victim) {
    fail(e, make_error(ErrorKind::exhausted,
                       "its {:.1f} GB of weights do not fit beside the pinned models into the {:.1f} GB that "
                       "models may take (--model-memory)",
                       e.bytes / 1e9, models_.weight_bytes / 1e9));
    return true;
  }
  if (victim->state == ModelState::draining) return false;
  evicted_.push_back(victim->name);
  log_info("{} gives way to {}", victim->name, e.name);
  drain(*victim, &Entry::evictions);
  unload_drained();
  return false;
}

bool ModelPool::has_room_for(const Entry& wanted) const {
  uint64_t taken = 0;
  for (const auto& [name, e] : entries_)
    if (e.model) taken += e.bytes;
  return models_.weight_bytes == 0 || taken + wanted.bytes <= models_.weight_bytes;
}

// The model to unload when there is no room. Null: all loaded models are pinned.
ModelPool::Entry* ModelPool::choose_victim() {
  Entry* found = nullptr;
  const auto rank = [](const Entry& e) {
    return std::tuple(e.state != ModelState::draining, e.leases > 0, e.last_used);
  };
  for (const std::string& name : order_) {
    Entry& e = entry(name);
    if (e.model && !e.keep.pinned && (!found || rank(e) < rank(*found))) found = &e;
  }
  return found;
}

void ModelPool::drain(Entry& e, uint64_t Entry::*reason) {
  e.state = ModelState::draining;
  e.reason = reason;
}

// Runs the job on the loader's thread, and the function that it returns on the I/O thread.
void ModelPool::run(std::function<Outcome()> job) {
  busy_ = true;
  loader_->submit([this, post = post_, job = std::move(job)] {
    post([this, outcome = job()] {
      busy_ = false;
      outcome();
      advance();
    });
  });
}

void ModelPool::start_measuring(Entry& e) {
  run([this, name = e.name]() -> Outcome {
    auto size = models_.source.measure(name);
    return [this, name, size = std::move(size)] {
      Entry& e = entry(name);
      e.measured = true;
      if (size) {
        e.bytes = size->bytes;
        if (e.loads == 0) e.keep = size->keep;
      }
      const bool too_large = size && models_.weight_bytes > 0 && size->bytes > models_.weight_bytes;
      if (size && !too_large) return;
      fail(e, !size
                  ? size.error()
                  : make_error(ErrorKind::exhausted,
                               "it has {:.1f} GB of weights, and models may take {:.1f} GB (--model-memory)",
                               size->bytes / 1e9, models_.weight_bytes / 1e9));
    };
  });
}

void ModelPool::start_loading(Entry& e) {
  e.state = ModelState::loading;
  log_info("loading {}", e.name);
  run([this, name = e.name, adapters = adapters_.of(e.name)]() -> Outcome {
    const auto load = [&]() -> Result<ReadyModel> {
      TRY(ReadyModel model, models_.source.load(name));
      TRY_VOID(add_adapters(model, adapters, adapter_directories_));
      return model;
    };
    auto loaded = std::make_shared<Result<ReadyModel>>(load());
    return [this, name, loaded] {
      Entry& e = entry(name);
      if (loaded->ok()) return take_model(e, std::move(**loaded));
      const auto gave_way = evicted_;
      fail(e, loaded->error());
      for (const std::string& other : gave_way) {
        if (std::ranges::find(wanted_, other) != wanted_.end()) continue;
        entry(other).state = ModelState::waiting;
        wanted_.push_front(other);
      }
    };
  });
}

void ModelPool::take_model(Entry& e, ReadyModel model) {
  adapters_.restore(e.name, std::exchange(model.adapters, {}));
  e.model = std::make_shared<ServedModel>(e.name, std::move(model), prompts_, models_.fetch_image);
  e.state = ModelState::loaded;
  e.bytes = weights_of(*e.model->engine);
  e.facts = std::make_shared<const ModelFacts>(*e.model);
  e.last_used = now_seconds();
  e.loads++;
  watch_idleness(e);
}

// Removes the model, which was the first in wanted_.
void ModelPool::settled(const Entry& e) {
  std::erase(wanted_, e.name);
  evicted_.clear();
}

void ModelPool::start_unloading(Entry& e) {
  e.state = ModelState::unloading;
  e.keep_once_s.reset();
  struct Last {
    std::shared_ptr<ServedModel> model;
    std::vector<std::shared_ptr<const LoadedAdapter>> adapters;
  };
  auto last = std::make_shared<Last>(std::exchange(e.model, nullptr), adapters_.release(e.name));
  run([this, name = e.name, last]() -> Outcome {
    last->adapters.clear();  // before their engine
    last->model.reset();
    return [this, name] {
      Entry& e = entry(name);
      log_info("{} is unloaded", name);
      (e.*e.reason)++;
      e.state = e.waiting.empty() ? ModelState::unloaded : ModelState::waiting;
      e.measured = false;
      for (Unloaded& done : std::exchange(e.on_unload, {})) done(std::nullopt);
    };
  });
}

// Tells those who wait for the model why it cannot be loaded.
void ModelPool::fail(Entry& e, const Error& error) {
  log_error("cannot load {}: {}", e.name, error.message);
  e.state = ModelState::unloaded;
  e.measured = false;
  e.failed_loads++;
  settled(e);
  const ApiError answer{error.kind == ErrorKind::not_found ? 404 : 503,
                        fmt::format("The model '{}' cannot be loaded: {}", e.name, error.message), "model",
                        error.kind == ErrorKind::not_found ? "model_not_found" : "model_not_loaded"};
  for (TakeModel& take : std::exchange(e.waiting, {})) take(answer);
}

}  // namespace anabranch::server
