// From a request's body to what the engine takes: which threads read it, and what is fetched for it
// meanwhile.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/memory_info.h"
#include "server/api/generation.h"
#include "server/api/generation_parts.h"
#include "server/api/web_images.h"

namespace anabranch::server {
namespace {

// Whether the request may use tools of MCP servers, which are asked for them while it is prepared.
bool may_use_mcp(AnswerKind kind, const HttpRequest& request) {
  const bool takes_tools = kind == AnswerKind::response || kind == AnswerKind::input_count ||
                           kind == AnswerKind::message || kind == AnswerKind::token_count;
  return takes_tools && request.body.find("\"mcp") != std::string::npos;
}

// The MCP servers that it may ask. A long body is not searched.
std::vector<std::string> servers_named(const HttpRequest& request, const mcp::Servers& servers) {
  std::vector<std::string> named;
  if (is_long(request)) return named;
  for (const std::string& server : servers.names())
    if (request.body.find(dump_json(server)) != std::string::npos) named.push_back(server);
  return named;
}

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
  bool asks_servers, may_use_tools;
  std::function<void(double)> keep_model;
  std::shared_ptr<WebImages> images = {};  // null: the server fetches none
};

void Generations::prepare_request(uint64_t key, std::shared_ptr<HttpRequest> request) {
  const Generation& generation = *find(key);
  const AnswerKind kind = generation.head.kind;
  const bool asks_servers = responses_->servers && may_use_mcp(kind, *request);
  auto reading = std::make_shared<Reading>(
      Reading{key, kind, generation.client, generation.model, std::move(request), generation.use.name(),
              generation.sender, generation.use.cache_space(), asks_servers, generation.use.may(Role::tools),
              generation.use.may(Role::models) ? model_keeper(generation.model->name) : [](double) {}});
  if (generation.model->fetch_image) reading->images = std::make_shared<WebImages>();
  read(std::move(reading));
}

// From any thread.
void Generations::read(std::shared_ptr<Reading> reading) {
  const HttpRequest& request = *reading->request;
  auto job = [this, reading, responses = responses_] {
    const ReturnMemory after(is_long(*reading->request));
    Reading& r = *reading;
    if (r.client.expired()) return r.request.reset();
    RequestDefaults defaults = r.model->defaults;
    defaults.cache_space = r.space;
    if (r.images)
      defaults.fetch_image = [&](const std::string& url, size_t bytes) { return r.images->take(url, bytes); };
    // What is read without its images is read again.
    const auto given_up = [&] { return r.client.expired() || (r.images && r.images->lacks_any()); };
    auto prepared = std::make_shared<PreparedRequest>(safely([&] {
      return prepare(r.kind, r.request->body,
                     {*r.model->engine, defaults, r.model->preparer, responses, given_up, agent_limits_,
                      r.model->name, r.owner, r.may_use_tools, r.keep_model});
    }));
    if (r.images && r.images->lacks_any() && !r.client.expired()) return fetch_images(reading);
    r.request.reset();
    const auto* made = std::get_if<ReadyRequest>(prepared.get());
    if (!made || !made->prepared.constrained) return taker(r.key)(std::move(*prepared));
    if (r.client.expired()) return;
    form_workers_.submit({r.sender}, [this, reading, prepared] {
      if (!reading->client.expired())
        compile(reading->key, {reading->client, reading->sender}, reading->model,
                std::get<ReadyRequest>(std::move(*prepared)));
    });
  };
  if (reading->asks_servers)
    return mcp_workers_.submit(reading->sender, servers_named(request, *responses_->servers), std::move(job));
  (is_long(request) ? long_workers_ : workers_)
      .submit({reading->sender, request.body.size()}, std::move(job));
}

// From any thread. Waits for each host apart, and then reads the request again.
void Generations::fetch_images(const std::shared_ptr<Reading>& reading) {
  const auto hosts = reading->images->begin_fetching();
  const auto missing = std::make_shared<std::atomic<size_t>>(hosts.size());
  for (const auto& [host, urls] : hosts)
    image_workers_.submit(reading->sender, {host}, [this, reading, missing, urls = urls] {
      reading->images->fetch(urls, reading->model->fetch_image, [&] { return reading->client.expired(); });
      if (--*missing > 0) return;
      if (reading->client.expired()) return reading->request.reset();
      read(reading);
    });
}

// Runs on a worker. The grammar may be compiled on another thread afterwards.
void Generations::compile(uint64_t key, const GrammarClient& client, ModelLease model, ReadyRequest ready) {
  const auto take = taker(key);
  try {
    Prepared prepared = std::exchange(ready.prepared, {});
    model->preparer.compile(std::move(prepared), client,
                            [take, rest = std::move(ready)](std::variant<Prepared, RequestError> made) {
                              if (const auto* error = std::get_if<RequestError>(&made))
                                return take(to_api_error(*error));
                              ReadyRequest whole = rest;
                              whole.prepared = std::get<Prepared>(std::move(made));
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
      models_.load(name, std::nullopt, unload_after_s, [](const std::variant<ModelLease, ApiError>&) {});
    });
  };
}

}  // namespace anabranch::server
