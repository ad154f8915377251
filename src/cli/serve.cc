// `serve`: the OpenAI API over one model until Ctrl-C.
#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "cli/conversation.h"
#include "server/api_keys.h"
#include "server/http_target.h"
#include "server/server.h"

namespace anabranch::cli {
namespace {

// The first SIGINT or SIGTERM lets answers under way finish for a moment, the second cuts them off.
class SignalThread {
 public:
  // Must run before any other thread starts, so that all of them leave these signals to ours.
  SignalThread() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this] { watch(); });
  }
  // While there is no server to stop (the model loads, or the last step ends), a signal ends the process.
  void serve(server::Server* server) {
    std::lock_guard lock(mutex_);
    server_ = server;
  }
  ~SignalThread() {
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }

 private:
  void watch() {
    for (int signal = 0; sigwait(&set_, &signal) == 0 && signal != SIGUSR2;) {
      std::lock_guard lock(mutex_);
      if (!server_) _exit(130);
      server_->stop();
    }
  }

  sigset_t set_{};
  std::mutex mutex_;
  server::Server* server_ = nullptr;
  std::thread thread_;
};

Result<std::vector<text::VolatileRule>> volatile_rules(const ServeOptions& options) {
  std::vector<text::VolatileRule> rules;
  for (const bool drop : {true, false})
    for (const std::string& pattern : drop ? options.volatile_drop : options.volatile_move) {
      auto regex = text::Regex::compile(pattern);
      if (!regex.ok())
        return make_error(ErrorKind::invalid, "--volatile-{} '{}': {}", drop ? "drop" : "move", pattern,
                          regex.error().message);
      rules.push_back({std::move(*regex), drop});
    }
  return rules;
}

Result<std::vector<std::string>> api_keys(const ServeOptions& options) {
  std::vector<std::string> keys = options.api_keys;
  if (const char* key = std::getenv("ANABRANCH_API_KEY"); key && *key) keys.push_back(key);
  if (!options.api_key_file.empty()) {
    TRY(const auto more, server::read_key_file(options.api_key_file));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

Result<int> serve(const ServeOptions& options) {
  SignalThread signals;
  server::ServerOptions server_options;
  server_options.host = options.host;
  server_options.port = static_cast<uint16_t>(options.port);
  server_options.tls = {options.tls_certificate, options.tls_key};
  server_options.stop_grace_s = options.drain_seconds;
  TRY(server_options.api_keys, api_keys(options));
  TRY(server_options.volatile_text, volatile_rules(options));
  server_options.thinking = thinking_wish(options.thinking);
  TRY(EngineOptions wanted, engine_options(options.model, options.spec, options.cache));
  wanted.max_running = options.parallel;
  wanted.max_queue = options.queue;
  wanted.max_gap_s = options.max_gap_ms / 1000;
  wanted.memory_bytes = options.memory_bytes;
  TRY(const auto engine, make_engine(wanted));
  const auto keep = cache_options(options.cache);
  if (keep.enabled && !keep.directory.empty()) server_options.turns_path = keep.directory + "/turns.db";
  TRY(const auto server, server::Server::start(*engine, server_options));
  signals.serve(server.get());
  if (server_options.api_keys.empty() && !server::is_loopback_name(server::listening_name(options.host)))
    log_warning(
        "{} is not this machine alone, and no API key was given: everybody who reaches port {} may use the "
        "model (--api-key-file, or --host 127.0.0.1)",
        options.host, server->port());
  fmt::print("{} on http{}://{}:{}/v1\n", engine->info().name, options.tls_certificate.empty() ? "" : "s",
             options.host, server->port());
  std::fflush(stdout);
  server->run();
  signals.serve(nullptr);
  return 0;
}

}  // namespace

int run_serve(const ServeOptions& options) {
  auto result = serve(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
