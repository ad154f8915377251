// From a request's body to what the engine takes: which threads read it, and what is fetched for it
// meanwhile.
#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "base/memory_info.h"
#include "server/api/awaited.h"
#include "server/api/generation.h"
#include "server/api/generation_parts.h"
#include "server/api/web_images.h"

namespace anabranch::server {
namespace {

// Returns freed memory to the system when it is destroyed, after the objects made from a long body.
struct ReturnMemory {
  explicit ReturnMemory(bool wanted) : wanted(wanted) {}
  ~ReturnMemory() {
    if (wanted) return_free_memory();
  }
  const bool wanted;
};

}  // namespace

// A request that is being read. The client may leave meanwhile, so it is held weakly.
struct Generations::Reading {
  uint64_t key;
  AnswerKind kind;
  std::weak_ptr<const void> client;
  ModelLease model;
  std::shared_ptr<HttpRequest> request;
  std::string owner, sender;
  std::string space;  // of the cache, as of RequestDefaults
  bool may_use_tools;
  std::function<void(double)> keep_model;
  const std::shared_ptr<WebImages> images = std::make_shared<WebImages>();
  const std::shared_ptr<Awaited<std::vector<mcp::Tool>>> offers =
      std::make_shared<Awaited<std::vector<mcp::Tool>>>();  // of MCP servers
  bool lacks_any() const { return images->lacks_any() || offers->lacks_any(); }
  size_t bytes() const { return request->body.size() + images->bytes(); }
};

void Generations::prepare_request(uint64_t key, std::shared_ptr<HttpRequest> request) {
  const Generation& generation = *find(key);
  read(std::make_shared<Reading>(Reading{
      key, generation.head.kind, generation.client, generation.model, std::move(request),
      generation.use.name(), generation.sender, generation.use.cache_space(), generation.use.may(Role::tools),
      generation.use.may(Role::models) ? model_keeper(generation.model->name) : [](double) {}}));
}

// From any thread.
void Generations::read(std::shared_ptr<Reading> reading) {
  const size_t bytes = reading->bytes();
  const bool goes_on = reading->kind == AnswerKind::response || reading->kind == AnswerKind::input_count;
  WorkerPool& pool = is_long(bytes) ? long_workers_ : goes_on ? stored_workers_ : workers_;
  pool.submit({reading->sender, bytes}, [this, reading, bytes, responses = responses_] {
    const ReturnMemory after(is_long(bytes));
    Reading& r = *reading;
    if (r.client.expired()) return r.request.reset();
    RequestDefaults defaults = r.model->defaults;
    defaults.cache_space = r.space;
    if (r.model->fetch_image)
      defaults.fetch_image = [&](const std::string& url, size_t most) { return r.images->take(url, most); };
    defaults.list_tools = [offers = r.offers](const std::string& server) {
      auto tools = offers->take(server);
      return tools ? std::move(*tools) : Result<std::vector<mcp::Tool>>(std::vector<mcp::Tool>());
    };
    // What is read without all that it needs is read again.
    const auto given_up = [&] { return r.client.expired() || r.lacks_any(); };
    auto prepared = std::make_shared<PreparedRequest>(safely([&] {
      return prepare(r.kind, r.request->body,
                     {*r.model->engine, defaults, r.model->preparer, responses, given_up, agent_limits_,
                      r.model->name, r.owner, r.may_use_tools, r.keep_model});
    }));
    if (r.lacks_any() && !r.client.expired()) return wait_for_others(reading);
    r.request.reset();
    const auto* made = std::get_if<ReadyRequest>(prepared.get());
    if (!made || !made->prepared.constrained) return taker(r.key)(std::move(*prepared));
    if (r.client.expired()) return;
    form_workers_.submit({r.sender}, [this, reading, prepared] {
      const Reading& r = *reading;
      if (!r.client.expired())
        compile(r.key, {r.client, r.sender, r.space}, r.model, std::get<ReadyRequest>(std::move(*prepared)));
    });
  });
}

// From any thread. Waits for each server apart, and then reads the request again.
void Generations::wait_for_others(const std::shared_ptr<Reading>& reading) {
  const auto hosts = reading->images->begin_fetching();
  const auto servers = reading->offers->begin();
  const auto missing = std::make_shared<std::atomic<size_t>>(hosts.size() + servers.size());
  const auto submit = [&](WaitPool& pool, const std::string& place, std::function<void()> wait) {
    pool.submit(reading->sender, {place}, [this, reading, missing, wait = std::move(wait)] {
      wait();
      if (--*missing > 0) return;
      if (reading->client.expired()) return reading->request.reset();
      read(reading);
    });
  };
  for (const auto& [host, urls] : hosts)
    submit(image_workers_, host, [reading, urls = urls] {
      reading->images->fetch(urls, reading->model->fetch_image, [&] { return reading->client.expired(); });
    });
  for (const std::string& server : servers)
    submit(mcp_workers_, server, [reading, server, servers = responses_->servers] {
      reading->offers->put(server, servers->tools(server, [&] { return reading->client.expired(); }));
    });
}

// Runs on a worker. The grammar may be compiled on another thread afterwards.
void Generations::compile(uint64_t key, const GrammarClient& client, ModelLease model, ReadyRequest ready) {
  const auto take = taker(key);
  try {
    Prepared prepared = std::exchange(ready.prepared, {});
    model->preparer.compile(std::move(prepared), client,
                            [take, model, rest = std::move(ready)](Result<Prepared> made) {
                              if (!made) return take(ApiError(made.error()));
                              ReadyRequest whole = rest;
                              whole.prepared = std::move(*made);
                              take(std::move(whole));
                            });
  } catch (const std::exception& e) {
    take(internal_error(e));
  }
}

// Returns a function that any thread may call, even after this object is destroyed.
std::function<void(PreparedRequest)> Generations::taker(uint64_t key) {
  return [this, key, post = post_](PreparedRequest prepared) {
    auto shared = std::make_shared<PreparedRequest>(std::move(prepared));
    post([this, key, shared] {
      if (const auto* error = std::get_if<ApiError>(shared.get())) return fail(key, *error);
      if (auto* ready = std::get_if<ReadyRequest>(shared.get())) return submit(key, std::move(*ready));
      Generation* generation = find(key);
      if (!generation) return;  // the client has left
      if (auto* texts = std::get_if<EmbeddingRequest>(shared.get()))
        embedder_.start(key, std::move(generation->model), std::move(*texts), std::move(generation->use),
                        {generation->started, generation->head.load_s, generation->deadline},
                        std::move(generation->out));
      else
        generation->out->respond(std::get<HttpResponse>(std::move(*shared)));
      generations_.erase(key);
    });
  };
}

// Any thread may call it, as taker()'s.
std::function<void(double)> Generations::model_keeper(const std::string& name) {
  return [this, name, post = post_](double seconds) {
    post([this, name, seconds] {
      constexpr double kAtOnce = 1e-3;
      const double unload_after_s = seconds < 0 ? 0 : std::max(seconds, kAtOnce);
      models_.load(name, std::nullopt, unload_after_s, [](const ApiResult<ModelLease>&) {});
    });
  };
}

}  // namespace anabranch::server
