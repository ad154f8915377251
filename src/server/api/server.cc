#include "server/api/server.h"

#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"
#include "base/rotating_log.h"
#include "base/thread_name.h"
#include "server/api/api.h"
#include "server/api/request_span.h"
#include "server/http/access_log.h"
#include "server/otlp/span_exporter.h"

namespace anabranch::server {
namespace {

constexpr int kWorkers = 2;
constexpr double kLastWordsSeconds = 1;  // time for errors to reach the clients of cancelled requests

// The path for PrepareOptions::turns_path.
std::string turns_path(const ServerOptions& options) {
  return options.directories.cache.empty() ? "" : options.directories.cache + "/turns.db";
}

class ServerImpl final : public Server {
 public:
  ServerImpl(ServerModels models, const ServerOptions& options, AccessRules access, ApiKeys keys,
             std::shared_ptr<SessionStores> sessions, std::unique_ptr<HttpServer> http,
             std::unique_ptr<RotatingLog> access_log)
      : options_(options),
        spans_(options.otlp.url.empty() ? nullptr
                                        : std::make_unique<SpanExporter>(options.otlp, ANABRANCH_VERSION)),
        http_(std::move(http)),
        api_(std::move(models),
             {options.volatile_text, turns_path(options), options.read_ahead, options.keep_thinking},
             workers_, *http_, std::move(access), std::move(keys), std::move(sessions), options.tools,
             options.seal_key_path, options.request_timeout_s, options.requests_per_minute,
             options.share_states, options.directories, spans_.get()),
        access_log_(std::move(access_log)),
        thread_([this] {
          name_thread("connections");
          serve();
        }) {}

  ~ServerImpl() override {
    http_->post()([this] { cut_off(); });
    run();
    workers_.close();  // its jobs refer to api_
  }

  uint16_t port() const override { return http_->port(); }

  ServerEnd run() override {
    std::lock_guard lock(join_);
    if (thread_.joinable()) thread_.join();
    return end_;
  }

  void stop() override {
    http_->post()([this] { begin_stop(); });
  }

  Result<void> set_api_keys(const std::vector<ApiKey>& keys) override {
    TRY(auto made, ApiKeys::make(keys, options_.cache_scope));
    http_->post()([this, keys = std::move(made)] { api_.set_keys(keys); });
    return {};
  }

  Result<void> reopen_access_log() override { return access_log_ ? access_log_->reopen() : Result<void>(); }

  Result<void> reload_tls() override { return http_->reload_tls(); }

  void report() override {
    http_->post()([this] { api_.report(); });
  }

 private:
  void serve() {
    HttpHandlers handlers;
    handlers.handle = [this](HttpRequest request, std::shared_ptr<ResponseStream> out) {
      api_.handle(std::move(request), std::move(out));
    };
    handlers.refuse = [this](const HttpRequest& head, const std::string& client) {
      return api_.refusal(head, client);
    };
    handlers.error = [this](const RequestName& request, const ApiError& error) {
      return api_.error(request, error);
    };
    handlers.headers = [this](const HttpRequest& head) { return api_.headers(head); };
    handlers.responded = [this](const RequestName& request, int status) { api_.responded(request, status); };
    handlers.key_of = [this](const HttpRequest& head) { return api_.key_of(head); };
    handlers.ended = [this](const EndedRequest& request) {
      if (access_log_) access_log_->write(access_line(request));
      if (!spans_) return;
      if (auto span = request_span(request, {unix_nanoseconds(), now_seconds()}))
        spans_->add(std::move(*span));
    };
    http_->after(options_.device_check_s, [this] { watch_devices(); });
    http_->serve(std::move(handlers));
  }

  // The functions below run on the I/O thread.
  void begin_stop() {
    if (stopping_) return cut_off();
    stopping_ = true;
    log_info("stopping: waiting up to {} s for answers under way", options_.stop_grace_s);
    api_.begin_stop();
    http_->after(options_.stop_grace_s, [this] { cut_off(); });
    http_->begin_stop();
  }

  void cut_off() {
    stopping_ = true;
    api_.begin_stop();
    api_.cancel_all();
    http_->after(kLastWordsSeconds, [this] { http_->close_all(); });
    http_->begin_stop();
  }

  void watch_devices() {
    if (stopping_) return;
    if (!api_.device_lost()) return http_->after(options_.device_check_s, [this] { watch_devices(); });
    log_error("stopping, because the device failed: only a new process can use it again");
    end_ = ServerEnd::device_lost;
    stopping_ = true;
    api_.begin_stop();
    http_->after(kLastWordsSeconds, [this] { cut_off(); });
    http_->begin_stop();
  }

  const ServerOptions options_;
  const std::unique_ptr<SpanExporter> spans_;  // null: no traces
  std::unique_ptr<HttpServer> http_;
  WorkerPool workers_{{.name = "requests", .threads = kWorkers}};
  Api api_;
  const std::unique_ptr<RotatingLog> access_log_;  // may be null
  bool stopping_ = false;
  ServerEnd end_ = ServerEnd::stopped;  // written on the I/O thread, read after it has ended
  std::mutex join_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerModels models, const ServerOptions& options) {
  TRY(auto keys, ApiKeys::make(options.api_keys, options.cache_scope));
  TRY(auto access, make_access_rules(options.host, options.allowed_hosts, options.cors_origins));
  access.pages = {"/", "/docs", "/status"};
  std::unique_ptr<RotatingLog> access_log;
  if (!options.access_log.empty()) {
    TRY(access_log, RotatingLog::open(options.access_log, options.access_log_bytes));
  }
  if (!options.directories.slots.empty())
    if (const int error = make_private_directory(options.directories.slots))
      return make_error(ErrorKind::io, "cannot make the directory {} for slots: {}",
                        options.directories.slots, std::strerror(error));
  TRY(auto sessions, SessionStores::open(options.sessions));
  TRY(auto http, HttpServer::listen(options.host, options.port, options.limits, options.tls));
  return std::unique_ptr<Server>(std::make_unique<ServerImpl>(std::move(models), options, std::move(access),
                                                              std::move(keys), std::move(sessions),
                                                              std::move(http), std::move(access_log)));
}

}  // namespace anabranch::server
