// The models that a server answers with. A model is loaded when a request names it, within a memory budget
// for weights. When there is no room, the model that was idle for longest is unloaded; if all are busy, the
// one that was requested least recently, after its running answers have ended. A model that cannot be loaded
// evicts no other: its files are checked first, and if loading fails all the same, the evicted models are
// loaded again.
//
// All members are used on the I/O thread. Loading and unloading run on a thread of their own, one at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "chat/preparer.h"
#include "server/api/common_fields.h"
#include "server/api/model_source.h"
#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// A loaded model with the objects that its requests need. Workers use the Preparer.
struct ServedModel {
  ServedModel(std::string model_name, ReadyModel ready, const PrepareOptions& prompts, WebFetch fetch)
      : name(std::move(model_name)),
        engine(std::move(ready.engine)),
        defaults(request_defaults(*engine, ready.sampling, ready.thinking)),
        fetch_image(std::move(fetch)),
        preparer(*engine, prompts) {}

  const std::string name;
  const std::shared_ptr<Engine> engine;
  const RequestDefaults defaults;  // without fetch_image, which each request sets itself
  const WebFetch fetch_image;      // see ServerModels
  Preparer preparer;
};
// The data about a model that routes report, as of the last time it was loaded.
struct ModelFacts {
  explicit ModelFacts(const ServedModel& model);
  ModelInfo info;
  SamplingParams sampling;  // the defaults of its requests
  bool chat = false;        // it has a chat template
  bool thinks = false;      // requests may turn thinking on and off
  std::string bos, eos;     // the texts of these tokens; "": it has none
};
// The model stays loaded as long as this exists.
using ModelLease = std::shared_ptr<ServedModel>;

// Ollama's clients add this to names without a tag.
inline constexpr std::string_view kLatest = ":latest";
std::string without_latest(const std::string& name);

enum class ModelState { unloaded, waiting, loading, loaded, draining, unloading };
std::string_view name_of(ModelState state);

class ModelPool {
 public:
  using TakeModel = std::function<void(ApiResult<ModelLease>)>;
  using Unloaded = std::function<void(std::optional<ApiError>)>;

  // adapter_directories: where the adapters that clients add must lie.
  ModelPool(ServerModels models, PrepareOptions prompts, Post post, After after,
            std::vector<std::string> adapter_directories = {});
  ~ModelPool();

  // Gives `take` the model that a request's "model" means, at once or when it is loaded. Errors: 404
  // model_not_found; 503 model_not_loaded (with the reason).
  void acquire(const std::string& wanted, TakeModel take);
  // The model of this name if it is loaded and not about to be unloaded; null: it is not. Does not count as a
  // request.
  ModelLease borrow(const std::string& name);
  // Like acquire(), and sets how long the model stays loaded from now on.
  void load(const std::string& wanted, std::optional<bool> pinned, std::optional<double> unload_after_s,
            TakeModel take);
  // How long the model stays loaded after its last request, unless a later request comes, which has the usual
  // time again. Negative: for ever.
  void keep_once(const std::string& name, double seconds);
  // Answers when its running requests have ended and its memory is free. Errors: 404; 409 (it is being
  // loaded).
  void unload(const std::string& wanted, Unloaded done);
  // The name of the model that `wanted` means, loaded or not; none: no such model. An adapter's name means
  // its model.
  std::optional<std::string> find(const std::string& wanted) const;
  // The name of the adapter that `wanted` means, loaded or not; none: it means a model, or nothing.
  std::optional<std::string> find_adapter(const std::string& wanted) const;
  // Whether a model of exactly this name can be loaded.
  bool is_model(const std::string& name) const { return find_exactly(name).has_value(); }
  // The models' adapters. Those that clients add come back, as those of ServerModels, when the model was
  // unloaded and is loaded again.
  AdapterRegistry& adapters() { return adapters_; }
  const AdapterRegistry& adapters() const { return adapters_; }

  // A model that is, was or will be loaded.
  struct Entry {
    std::string name;
    ModelState state = ModelState::unloaded;
    KeepLoaded keep;
    std::optional<double> keep_once_s;  // instead of keep.unload_after_s: the latest request asked for it
    uint64_t bytes = 0;                 // of weights; estimated from the files if it was never loaded
    int leases = 0;                     // requests that use it
    double last_used = 0;               // monotonic seconds
    uint64_t loads = 0;                 // number of times that it was loaded
    uint64_t failed_loads = 0;          // number of times that it could not be loaded
    uint64_t idle_unloads = 0, evictions = 0, asked_unloads = 0;  // number of unloads, by reason
    std::shared_ptr<ServedModel> model;                           // while it is loaded or draining
    std::shared_ptr<const ModelFacts> facts;                      // null: it was never loaded

    // After how long without a request it is unloaded, unless it is pinned; 0: never.
    double unload_after_s() const { return keep_once_s.value_or(keep.unload_after_s); }

   private:
    friend class ModelPool;
    std::deque<TakeModel> waiting;
    std::vector<Unloaded> on_unload;
    uint64_t Entry::*reason = nullptr;  // counter for the unload under way
    bool measured = false;              // whether its files were read since it was last wanted
    double looked_at = 0;               // when a timer looks whether it is idle; 0: none runs
  };
  // In the order in which they were first named.
  std::vector<const Entry*> entries() const;
  // Those whose model is here whatever is stored: the loaded ones, and the first model.
  std::vector<const Entry*> own_entries() const;
  // Null: the model was never named.
  const Entry* find_entry(const std::string& name) const;
  // The entry of the first model, or without one that of the model that was used last. Null: none was ever
  // loaded.
  const Entry* main_entry() const;
  // The first model, or without one the model that was used last. Null: none is loaded.
  const ServedModel* main_model() const;
  // True once the device of a loaded model has failed for good.
  bool device_lost() const;
  const ModelSource& source() const { return models_.source; }
  // Stops loading models: requests that wait for a model get an error.
  void begin_stop();

 private:
  using Outcome = std::function<void()>;
  std::optional<std::string> find_exactly(const std::string& wanted) const;
  Entry& entry(const std::string& name);
  const Entry* most_recent() const;
  ModelLease lease(Entry& entry, bool for_request = true);
  void released(const std::string& name, bool by_request);
  void want(Entry& entry, TakeModel take);
  void advance();
  bool unload_drained();
  bool bring(Entry& entry);
  Entry* choose_victim();
  bool has_room_for(const Entry& entry) const;
  void run(std::function<Outcome()> job);
  void start_measuring(Entry& entry);
  void start_loading(Entry& entry);
  void take_model(Entry& entry, ReadyModel model);
  void start_unloading(Entry& entry);
  void fail(Entry& entry, const Error& error);
  void drain(Entry& entry, uint64_t Entry::*reason);
  void watch_idleness(Entry& entry);
  void settled(const Entry& entry);

  ServerModels models_;
  const PrepareOptions prompts_;
  const Post post_;
  const After after_;
  const std::vector<std::string> adapter_directories_;
  std::map<std::string, Entry> entries_;
  AdapterRegistry adapters_;          // after entries_: adapters are destroyed before their engines
  std::vector<std::string> order_;    // of entries_
  std::string first_;                 // empty: there is none
  std::deque<std::string> wanted_;    // names of models to load, in this order
  std::vector<std::string> evicted_;  // names of models that were unloaded for the first one in wanted_
  bool busy_ = false;                 // the loader has a job
  bool stopping_ = false;
  std::unique_ptr<WorkerPool> loader_;
};

}  // namespace anabranch::server
