// Answers requests according to the table of routes (routes.h). docs/api.md describes the answers.
#pragma once

#include <memory>
#include <string>

#include "server/api/adapter_actions.h"
#include "server/api/answers.h"
#include "server/api/directories.h"
#include "server/api/llama/slots.h"
#include "server/api/metrics.h"
#include "server/api/model_actions.h"
#include "server/api/model_pages.h"
#include "server/api/model_pool.h"
#include "server/api/ollama/models.h"
#include "server/api/routes.h"
#include "server/api/session_actions.h"
#include "server/api/state_pages.h"
#include "server/http/access.h"
#include "server/http/address_limits.h"
#include "server/http/api_keys.h"
#include "server/http/http_server.h"
#include "server/http/types.h"

namespace anabranch::server {

// Used on the I/O thread only.
class Api {
 public:
  // timeout_s: see AnswerServices. spans: see Metrics.
  Api(ServerModels models, PrepareOptions prompts, WorkerPool& workers, HttpServer& http, AccessRules access,
      ApiKeys keys, std::shared_ptr<SessionStores> sessions, const ServerTools& tools,
      const std::string& seal_key_path, double timeout_s, int requests_per_minute, bool share_states,
      const Directories& directories, const SpanExporter* spans);

  // The error for a request that must be refused, judged by its head alone; nothing if it is served.
  // client: its address.
  std::optional<HttpResponse> refusal(const HttpRequest& request, const std::string& client);
  void handle(HttpRequest request, std::shared_ptr<ResponseStream> out);
  // The answer for an error that the HTTP layer found, in the format of the API that the client used.
  HttpResponse error(const RequestName& request, const ApiError& error) const;
  // Headers that every answer to the request carries.
  Headers headers(const HttpRequest& request) const { return cors_headers(request, access_); }
  // Counts an answer; called by HttpServer when it begins.
  void responded(const RequestName& request, int status);
  // The name of the key that the request shows, or "".
  std::string key_of(const HttpRequest& head) const;
  // Replaces the keys; later requests must show one of these.
  void set_keys(ApiKeys keys);
  // From now on new work is refused with 503.
  void begin_stop();
  bool device_lost() const { return pool_.device_lost(); }
  // Writes a line about each model to the log.
  void report() const;
  // Ends every answer under way with an error.
  void cancel_all() {
    answers_.fail_all();
    slots_.fail_all();
  }

 private:
  struct Call;
  Result<Call> read_head(const HttpRequest& request) const;
  std::optional<HttpResponse> refusal(const HttpRequest& request, const Result<Call>& call,
                                      const std::string& client);
  std::optional<ApiError> limit_reached(const Call& call, const std::string& client);
  // Whether clients on other machines can reach the server, and it asks for no key.
  bool is_open_to_all() const;
  std::optional<ApiError> find_fault(const HttpRequest& request, const Call& call) const;
  HttpResponse page(Page page, const Call& call) const;
  // Starts pages whose answers workers make. Returns whether the page is one of them.
  bool handle_slow_page(Page page, const HttpRequest& request, const Call& call,
                        const std::shared_ptr<ResponseStream>& out);
  HttpResponse cancel(const Call& call);
  void tell_tokenizer(std::shared_ptr<ResponseStream> out);
  HttpResponse of_main_model(Json (*describe)(const ModelPool::Entry&)) const;
  // "ok" while the server takes new work.
  std::string_view status() const;
  HttpResponse health() const;
  // For clients without a key, or without the role `admin`: only the status.
  HttpResponse short_health() const;
  HttpResponse welcome() const;
  HttpResponse metrics() const;

  const double started_;   // monotonic seconds
  const int64_t created_;  // Unix seconds
  WorkerPool& workers_;
  const Post post_;
  Metrics metrics_;
  ModelPool pool_;
  const std::shared_ptr<ResponseContext> responses_;
  TraceEraser traces_;
  Slots slots_;
  Answers answers_;
  ModelActions actions_;
  AdapterActions adapters_;
  const ModelPages models_;
  OllamaModels ollama_;
  SessionActions sessions_;
  StatePages states_;
  const AccessRules access_;
  ApiKeys keys_;
  // Key state for requests from other machines without a key: they may choose a model, but not how long it
  // stays loaded.
  const std::shared_ptr<KeyState> stranger_ = std::make_shared<KeyState>();
  AddressLimits addresses_;
  bool stopping_ = false;
};

}  // namespace anabranch::server
