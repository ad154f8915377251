// From a request's body to the engine's input: chooses the threads that read it, and fetches what it refers
// to.
#include <algorithm>
#include <atomic>
#include <utility>

#include "base/memory_info.h"
#include "server/api/answer.h"
#include "server/api/answer_parts.h"
#include "server/api/awaited.h"
#include "server/api/web_images.h"

namespace anabranch::server {
namespace {

// Whether reading the request takes long enough to keep it apart from others.
bool is_long(size_t bytes) {
  constexpr size_t kShortBody = 256u << 10;
  return bytes > kShortBody;
}

// Returns freed memory to the system when it is destroyed, after the objects made from a long body.
struct ReturnMemory {
  explicit ReturnMemory(bool wanted) : wanted(wanted) {}
  ~ReturnMemory() {
    if (wanted) return_free_memory();
  }
  const bool wanted;
};

// See PrepareContext::keep_model. Any thread may call the function.
std::function<void(double)> model_keeper(AnswerServices& services, const std::string& name) {
  return [post = services.post, &services, name](double seconds) {
    post([&services, name, seconds] { services.models.keep_once(name, seconds); });
  };
}

}  // namespace

Callback<RequestHints> Answer::read_hints(std::shared_ptr<const HttpRequest> request) {
  return Callback<RequestHints>([this, request](auto done) {
    if (!is_long(request->body.size())) return done(server::read_hints(head_.kind, request->body));
    services_.long_workers.submit(job(request->body.size()), [post = services_.post, kind = head_.kind,
                                                              request, done, alive = alive()] {
      if (alive.expired()) return;
      post([done, hints = server::read_hints(kind, request->body)] { done(hints); });
    });
  });
}

// A request that is being read, on several threads one after the other. The client may leave meanwhile.
struct Answer::Reading {
  const AnswerKind kind;
  const std::weak_ptr<const void> alive;
  const ModelLease model;
  std::shared_ptr<const HttpRequest> request;
  const std::string owner;
  const std::string space;  // of the cache, see RequestDefaults
  const bool may_use_tools;
  const std::function<void(double)> keep_model;
  const AvailableAdapters adapters;
  WebImages images;
  // Tools of MCP servers. Shared, because the parsed request may outlive this object and ask for tools later.
  const std::shared_ptr<Awaited<std::vector<mcp::Tool>>> offers =
      std::make_shared<Awaited<std::vector<mcp::Tool>>>();

  bool lacks_any() const { return images.lacks_any() || offers->lacks_any(); }
  size_t bytes() const { return request->body.size() + images.bytes(); }
};

Task<ApiResult<PreparedRequest>> Answer::prepare(std::shared_ptr<const HttpRequest> request) {
  const auto reading = std::make_shared<Reading>(
      head_.kind, alive(), model_, std::move(request), use_.name(), use_.cache_space(), use_.may(Role::tools),
      use_.may(Role::models) ? model_keeper(services_, model_->name) : [](double) {}, std::move(adapters_));
  for (;;) {
    ApiResult<PreparedRequest> prepared = co_await read(reading);
    if (reading->lacks_any()) {  // a request that was read before all its data had arrived is read again
      (void)co_await fetch(reading);
      continue;
    }
    auto* ready = prepared ? std::get_if<ReadyRequest>(&*prepared) : nullptr;
    if (ready) {
      auto compiled = co_await compile(std::move(ready->prepared));
      if (!compiled) co_return ApiError(compiled.error());
      ready->prepared = std::move(*compiled);
    }
    co_return prepared;
  }
}

Callback<ApiResult<PreparedRequest>> Answer::read(std::shared_ptr<Reading> reading) {
  return Callback<ApiResult<PreparedRequest>>([this, reading](auto done) {
    const size_t bytes = reading->bytes();
    const bool goes_on = reading->kind == AnswerKind::response || reading->kind == AnswerKind::input_count ||
                         reading->kind == AnswerKind::compaction;
    WorkerPool& pool = is_long(bytes) ? services_.long_workers
                       : goes_on      ? services_.stored_workers
                                      : services_.workers;
    pool.submit({sender_, bytes}, [reading, bytes, done, post = services_.post,
                                   responses = services_.responses, limits = services_.agent_limits] {
      const ReturnMemory after(is_long(bytes));
      Reading& r = *reading;
      if (r.alive.expired()) return r.request.reset();
      RequestDefaults defaults = r.model->defaults;
      defaults.cache_space = r.space;
      defaults.adapters = r.adapters;
      if (r.model->fetch_image)
        defaults.fetch_image = [&](const std::string& url, size_t most) { return r.images.take(url, most); };
      defaults.list_tools = [offers = r.offers](const std::string& server) {
        auto tools = offers->take(server);
        return tools ? std::move(*tools) : Result<std::vector<mcp::Tool>>(std::vector<mcp::Tool>());
      };
      const auto given_up = [&] { return r.alive.expired() || r.lacks_any(); };
      auto prepared = std::make_shared<ApiResult<PreparedRequest>>(safely([&] {
        return server::prepare(r.kind, r.request->body,
                               {*r.model->engine, defaults, r.model->preparer, responses, responses->servers,
                                given_up, limits, r.model->name, r.owner, r.may_use_tools, r.keep_model});
      }));
      if (!r.lacks_any() || r.alive.expired()) r.request.reset();
      post([done, prepared] { done(std::move(*prepared)); });
    });
  });
}

// Fetches the images and lists of tools that the request lacks, with one job for each server.
Callback<Nothing> Answer::fetch(std::shared_ptr<Reading> reading) {
  return Callback<Nothing>([this, reading](auto done) {
    const auto hosts = reading->images.begin_fetching();
    const auto servers = reading->offers->begin();
    const auto missing = std::make_shared<std::atomic<size_t>>(hosts.size() + servers.size());
    const auto submit = [&](WaitPool& pool, const std::string& place, std::function<void()> wait) {
      pool.submit(sender_, {place}, [reading, missing, done, post = services_.post, wait = std::move(wait)] {
        wait();
        if (--*missing > 0) return;
        if (reading->alive.expired()) return reading->request.reset();
        post([done] { done({}); });
      });
    };
    for (const auto& [host, urls] : hosts)
      submit(services_.image_workers, host, [reading, urls = urls] {
        reading->images.fetch(urls, reading->model->fetch_image, [&] { return reading->alive.expired(); });
      });
    for (const std::string& server : servers)
      submit(services_.mcp_workers, server, [reading, server, servers = services_.responses->servers] {
        reading->offers->put(server, servers->tools(server, [&] { return reading->alive.expired(); }));
      });
  });
}

// Adds the compiled grammar to the request, if anything restricts the answer. A worker makes the grammar's
// text; the engine compiles it on threads of its own.
Callback<Result<Prepared>> Answer::compile(Prepared prepared) {
  auto shared = std::make_shared<Prepared>(std::move(prepared));
  return Callback<Result<Prepared>>([this, shared](auto done) {
    if (!shared->constrained) return done(std::move(*shared));
    // The callback keeps the model loaded, because it uses the model's Preparer.
    const auto give = [done, model = model_, post = services_.post](Result<Prepared> made) {
      post([done, made = std::make_shared<Result<Prepared>>(std::move(made))] { done(std::move(*made)); });
    };
    services_.grammar_workers.submit(
        // The request has adapters, which must be destroyed before the lease: captures go in reverse order.
        job(), [give, model = model_, client = GrammarClient{alive(), sender_, use_.cache_space()}, shared] {
          if (client.waits.expired()) return;
          try {
            model->preparer.compile(std::move(*shared), client, give);
          } catch (const std::exception& e) {
            give(preparing_failed(e));
          }
        });
  });
}

}  // namespace anabranch::server
