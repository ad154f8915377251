// `serve`: the OpenAI API over one model until Ctrl-C.
#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "base/private_file.h"
#include "base/thread_name.h"
#include "base/user_directory.h"
#include "cli/background.h"
#include "cli/conversation.h"
#include "cli/model_source.h"
#include "cli/pid_file.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/reports.h"
#include "cli/serve_options.h"
#include "cli/settings.h"
#include "cli/supervisor.h"
#include "ops/open.h"
#include "server/api/image_fetch.h"
#include "server/api/server.h"
#include "server/http/api_keys.h"
#include "server/http/target.h"

namespace anabranch::cli {
namespace {

// The signals of a process that serves. SIGINT and SIGTERM: the first lets answers under way finish for a
// moment, the second cuts them off. SIGHUP: reload(), or a stop if it means that the terminal was closed.
// SIGUSR1: report(). Of these, only SIGHUP counts if it was ignored when the program began: nohup means the
// terminal's.
class SignalThread {
 public:
  struct Actions {
    std::function<void()> stop, reload, report;
  };

  // Must run before any other thread starts, so that all of them leave these signals to this thread.
  // detached: the server has no terminal to lose.
  explicit SignalThread(bool detached) : owns_terminal_(!detached && has_terminal() && !is_ignored(SIGHUP)) {
    sigemptyset(&set_);
    for (const int signal : {SIGHUP, SIGUSR2}) sigaddset(&set_, signal);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
      if (!is_ignored(signal)) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this] { watch(); });
  }
  // While there is no server to stop (the model is loading, or the server has ended), SIGINT and SIGTERM end
  // the process.
  void serve(std::optional<Actions> actions) {
    std::lock_guard lock(mutex_);
    actions_ = std::move(actions);
  }
  ~SignalThread() {
    done_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }

 private:
  static bool has_terminal() {
    const int fd = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  }

  void watch() {
    name_thread("signals");
    for (int signal = 0; sigwait(&set_, &signal) == 0 && !done_;) {
      std::lock_guard lock(mutex_);
      const bool stop =
          signal == SIGINT || signal == SIGTERM || (signal == SIGHUP && owns_terminal_ && !has_terminal());
      if (!actions_) {
        if (stop) _exit(130);
      } else if (stop) {
        actions_->stop();
      } else if (signal == SIGHUP) {
        actions_->reload();
      } else if (signal == SIGUSR1) {
        actions_->report();
      }
    }
  }

  const bool owns_terminal_;
  sigset_t set_{};
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::optional<Actions> actions_;
  std::thread thread_;
};

Result<std::vector<VolatileRule>> volatile_rules(const ServeOptions& options) {
  std::vector<VolatileRule> rules;
  if (!options.keep_volatile) rules = known_volatile_text();
  for (const bool drop : {true, false})
    for (const std::string& pattern : drop ? options.volatile_drop : options.volatile_move) {
      auto regex = Regex::compile(pattern);
      if (!regex.ok())
        return make_error(ErrorKind::invalid, "--volatile-{} '{}': {}", drop ? "drop" : "move", pattern,
                          regex.error().message);
      rules.push_back({std::move(*regex), drop});
    }
  return rules;
}

Result<std::vector<server::ApiKey>> api_keys(const ServeOptions& options) {
  std::vector<server::ApiKey> keys;
  for (const std::string& key : options.api_keys) keys.push_back({key});
  for (const char* variable : {"ANABRANCH_API_KEY", "ANABRANCH_API_KEY_FILE", "ANABRANCH_CACHE_SCOPE"})
    if (const char* value = std::getenv(variable); value && !*value)
      return make_error(ErrorKind::invalid,
                        "{} is set and empty: unset it for a server without keys, or give it a value",
                        variable);
  if (const char* key = std::getenv("ANABRANCH_API_KEY")) keys.push_back({key});
  if (!options.api_key_file.empty()) {
    TRY(const auto more, server::read_key_file(options.api_key_file));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

// SIGHUP: the log files are opened again, keys and certificates are read again. Whatever cannot be read stays
// as it was.
void reload(const ServeOptions& options, server::Server& server) {
  if (!options.log_file.empty())
    if (const auto opened = log_to_file(options.log_file); !opened)
      log_error("SIGHUP: the log stays where it was: {}", opened.error().message);
  if (const auto opened = server.reopen_access_log(); !opened)
    log_error("SIGHUP: the access log stays where it was: {}", opened.error().message);
  const auto read = [&]() -> Result<size_t> {
    TRY(const auto keys, api_keys(options));
    TRY_VOID(server.set_api_keys(keys));
    return keys.size();
  };
  const auto keys = read();
  if (keys)
    log_info("SIGHUP: {} API keys are in force now", *keys);
  else
    log_error("SIGHUP: the API keys stay as they were: {}", keys.error().message);
  if (options.server.tls.certificate.empty()) return;
  const auto tls = server.reload_tls();
  if (tls)
    log_info("SIGHUP: new connections get the certificate that is in '{}' now",
             options.server.tls.certificate);
  else
    log_error("SIGHUP: the TLS certificate and key stay as they were: {}", tls.error().message);
}

void stop(server::Server& server) {
  tell_supervisor("STOPPING=1");
  server.stop();
}

// Raises the process's limit of file descriptors, which is usually 1,024, because each connection takes one.
Result<void> allow_descriptors(int connections) {
  const auto wanted = static_cast<rlim_t>(connections) + 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return {};
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted)
    return make_error(
        ErrorKind::invalid,
        "--max-connections {} needs {} file descriptors, and this process may have {} (ulimit -n)",
        connections, wanted, limit.rlim_max);
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return make_error(ErrorKind::io, "cannot raise the limit of file descriptors to {}", wanted);
  return {};
}

server::SessionOptions session_options(const ServeOptions& options) {
  server::SessionOptions sessions = options.server.sessions;
  const auto wanted = as_switch(options.sessions);
  if (wanted == false) return sessions;
  sessions.keep_responses = !options.sessions.empty();
  sessions.directory = sessions.keep_responses && !wanted ? options.sessions : default_session_directory();
  return sessions;
}

Result<server::ServerTools> server_tools(const ServeOptions& options, bool has_keys) {
  server::ServerTools tools{nullptr, options.mcp.limits};
  if (options.mcp.config.empty()) return tools;
  if (!has_keys && !server::is_loopback_name(server::listening_name(options.server.host)))
    return make_error(
        ErrorKind::invalid,
        "--mcp-config with --host {}: clients of other machines may use tools only with an API key "
        "(--api-key-file)",
        options.server.host);
  if (!has_keys && std::ranges::find(options.server.cors_origins, "*") != options.server.cors_origins.end())
    return make_error(
        ErrorKind::invalid,
        "--cors-origin '*' with --mcp-config: pages of all sites may use tools only with an API key "
        "(--api-key-file), or name the origins");
  TRY(auto configs, mcp::read_config(options.mcp.config));
  tools.servers = std::make_shared<mcp::Servers>(std::move(configs), options.mcp.server_limits);
  if (!options.mcp.log.empty()) TRY_VOID(tools.servers->log_calls_to(options.mcp.log));
  return tools;
}

// Opens the store of the users' decisions about tools. Null: it cannot be opened, so decisions are forgotten
// when the server ends.
std::shared_ptr<ConsentStore> open_consent(const std::string& directory) {
  make_private_directory(directory);  // if it cannot be made, opening says so
  auto store = ConsentStore::open(directory + "/consent.db");
  if (store) return std::move(*store);
  log_warning("what users are asked before tools run is remembered in memory only: {}",
              store.error().message);
  return nullptr;
}

// Each request that may run or wait needs a connection; others read pages and metrics.
int connections_of(const ServeOptions& options) {
  constexpr int kUsual = 256, kOthers = 64;
  if (options.connections > 0) return options.connections;
  const int64_t requests = int64_t{options.engine.max_running} + options.engine.max_queue;
  return static_cast<int>(std::clamp<int64_t>(requests + kOthers, kUsual, 1 << 16));
}

// The collector of traces. Its headers, which may be secret, come from OpenTelemetry's variables.
Result<server::OtlpEndpoint> otlp_options(const ServeOptions& options) {
  const std::string& url = options.server.otlp.url;
  if (url.empty()) return server::OtlpEndpoint();
  const char* headers = std::getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
  if (!headers) headers = std::getenv("OTEL_EXPORTER_OTLP_HEADERS");
  return server::otlp_endpoint(url, headers ? headers : "");
}

Result<server::ServerOptions> server_options(const ServeOptions& options) {
  if (!options.engine.cache.events.empty() && options.engine.model_path.empty())
    return make_error(ErrorKind::invalid, "--kv-events tells of one model: name it with --model");
  server::ServerOptions result = options.server;
  result.limits.connections = connections_of(options);
  result.limits.all_body_bytes = std::max(result.limits.all_body_bytes, 2 * result.limits.body_bytes);
  TRY(result.limits.proxies, server::TrustedProxies::make(options.trusted_proxies));
  TRY_VOID(peer_options(options));
  TRY_VOID(named_adapters(options));
  if (options.engine.model_path.empty() && !options.adapters.empty())
    return make_error(ErrorKind::invalid,
                      "--lora adds to the model of --model: name it, or write lora below [model.NAME]");
  TRY_VOID(allow_descriptors(result.limits.connections));
  TRY(result.api_keys, api_keys(options));
  TRY(result.volatile_text, volatile_rules(options));
  TRY(result.otlp, otlp_options(options));
  TRY(result.tools, server_tools(options, !result.api_keys.empty()));
  result.sessions = session_options(options);
  const auto keep = cache_options(options.engine.cache, options.cache);
  if (keep.enabled && !keep.directory.empty()) {
    result.directories.cache = keep.directory;
    result.seal_key_path = keep.directory + "/seal.key";
    if (result.tools.servers) result.tools.consent = open_consent(keep.directory);
  }
  return result;
}

// Reports a port that is in use before a model is loaded in vain.
Result<void> check_address(const server::ServerOptions& options) {
  if (options.port == 0) return {};
  TRY_VOID(server::HttpServer::listen(options.host, options.port, options.limits, options.tls));
  return {};
}

// The adapters of all models: their names are known before their models are loaded.
Result<void> add_adapters(const ServeOptions& options, const std::string& first,
                          server::ServerModels& models) {
  std::map<std::string, std::string> owners;
  const auto add = [&](const ServeOptions& of, const std::string& model) -> Result<void> {
    TRY(auto adapters, named_adapters(of));
    for (const auto& adapter : adapters) {
      const bool is_model =
          models.source.find(adapter.name).has_value();  // a stored one is found first as well
      const auto [owner, added] = owners.emplace(adapter.name, model);
      if (is_model || !added)
        return make_error(ErrorKind::invalid, "--lora {}={}: {} has this name already", adapter.name,
                          adapter.path,
                          is_model ? "a model" : fmt::format("an adapter of {}", owner->second));
    }
    if (!adapters.empty()) models.adapters[model] = std::move(adapters);
    return {};
  };
  if (!first.empty()) TRY_VOID(add(options, first));
  for (const std::string& name : options.configured) {
    if (name == first) continue;
    if (const auto its = options.for_model(name)) TRY_VOID(add(*its, name));  // else loading it tells why
  }
  return {};
}

Result<server::ServerModels> server_models(const ServeOptions& options) {
  server::ServerModels models;
  TRY(models.fetch_image, server::make_image_fetch(options.image_hosts));
  if (!options.engine.model_path.empty()) {
    TRY(models.first, load_for_serving(options));
  }
  models.first_keep = {options.pin, options.unload_after_s.value_or(0)};
  const std::string first = models.first ? models.first->engine->info().name : "";
  models.source = model_source(options, first);
  TRY_VOID(add_adapters(options, first, models));
  if (models.first) {
    TRY(models.first->adapters, server::load_adapters(*models.first->engine, models.adapters[first]));
  }
  models.strict_names = options.strict_model_names;
  TRY(const auto device, ops::open_device({options.engine.device.name}));
  models.weight_bytes = options.model_bytes > 0 ? options.model_bytes : memory_of(*device) / 4 * 3;
  return models;
}

// Reports where the server listens: on stdout for people, in the log for programs that read JSON.
void announce(const ServerRecord& server, Background* background) {
  const auto text = line_of("{} on {}/v1", server.model, server.address);
  const bool json = log_format() == LogFormat::json;
  if (background || json)
    log_fields(LogLevel::info, json ? "listening" : text,
               {{"model", server.model}, {"address", server.address}});
  if (background) return background->ready(line_of("{}\nprocess {}, log {}", text, server.pid, server.log));
  if (json) return;
  say("{}\npage for chatting: {}/   APIs of OpenAI, Anthropic, Ollama and llama.cpp: {}/docs\n", text,
      server.address, server.address);
  std::fflush(stdout);
}

constexpr int kDeviceLost = 75;    // EX_TEMPFAIL of sysexits.h: a supervisor should start the server again
constexpr int kLeanPriority = 10;  // a value for nice(1)

// background: for a detached server, whose stderr is already the log; otherwise null.
Result<int> serve(const ServeOptions& options, Background* background) {
  if (!background && !options.log_file.empty()) TRY_VOID(log_to_file(options.log_file));
  std::optional<PidFile> pid_file;
  if (!options.pid_file.empty()) {
    TRY(auto taken, PidFile::take(options.pid_file));
    pid_file.emplace(std::move(taken));
  }
  if (options.lean) ::setpriority(PRIO_PROCESS, 0, kLeanPriority);  // threads inherit it
  SignalThread signals(background != nullptr);
  TRY(const auto wanted, server_options(options));
  TRY_VOID(check_address(wanted));
  TRY(auto models, server_models(options));
  const std::string name = models.first ? models.first->engine->info().name : "models on demand";
  TRY(const auto server, server::Server::start(std::move(models), wanted));
  signals.serve(SignalThread::Actions{[&] { stop(*server); }, [&] { reload(options, *server); },
                                      [&] { server->report(); }});
  if (wanted.api_keys.empty() && !server::is_loopback_name(server::listening_name(options.server.host)))
    log_warning(
        "{} is not this machine alone, and no API key was given: everybody who reaches port {} may use the "
        "model (--api-key-file, or --host 127.0.0.1)",
        options.server.host, server->port());
  const ServerRecord record = {
      .pid = ::getpid(),
      .model = name,
      .address = fmt::format("http{}://{}:{}", options.server.tls.certificate.empty() ? "" : "s",
                             server::listening_name(options.server.host), server->port()),
      .log = options.log_file,
      .version = ANABRANCH_VERSION,
      .drain_seconds = options.server.stop_grace_s,
      .started = unix_seconds()};
  if (pid_file) TRY_VOID(pid_file->write(record));
  announce(record, background);
  tell_supervisor("READY=1");
  const server::ServerEnd end = server->run();
  signals.serve(std::nullopt);
  if (end == server::ServerEnd::stopped) return 0;
  tell_supervisor("STOPPING=1");
  return kDeviceLost;
}

// Sets the default file names of a detached server.
Result<void> name_files(ServeOptions& options) {
  if (!options.detach) return {};
  if (options.server.port == 0 && (options.pid_file.empty() || options.log_file.empty()))
    return make_error(ErrorKind::invalid,
                      "--detach names its files by the port: with --port 0 give --pid-file and --log-file");
  std::error_code ignored;  // what cannot be made cannot be written to
  if (options.pid_file.empty() || options.log_file.empty())
    std::filesystem::create_directories(user_state_directory(), ignored);
  if (options.pid_file.empty()) {
    TRY(options.pid_file, usual_pid_file(options.server.port));
  }
  if (options.log_file.empty()) {
    TRY(options.log_file, usual_log_file(options.server.port));
  }
  return {};
}

}  // namespace

int run_serve(const ServeOptions& given) {
  keep_little_freed_memory();
  ServeOptions options = given;
  if (const auto named = name_files(options); !named) return fail(named.error());
  std::optional<Background> background;
  if (options.detach) {
    background.emplace();
    if (const auto status = background->start(options.log_file)) return *status;
  }
  auto result = serve(options, background ? &*background : nullptr);
  if (result) return *result;
  if (!background) return fail(result.error());
  log_error("{}", result.error().message);
  background->failed(result.error().message);
  return 1;
}

}  // namespace anabranch::cli
