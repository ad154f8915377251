// `serve`: the OpenAI API over one model until Ctrl-C.
#include <fmt/core.h>
#include <pthread.h>

#include <csignal>
#include <thread>

#include "cli/conversation.h"
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
  }
  void watch(server::Server& server) {
    thread_ = std::thread([this, &server] {
      for (int signal = 0; sigwait(&set_, &signal) == 0 && signal != SIGUSR2;) server.stop();
    });
  }
  ~SignalThread() {
    if (!thread_.joinable()) return;
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }

 private:
  sigset_t set_{};
  std::thread thread_;
};

Result<int> serve(const ServeOptions& options) {
  SignalThread signals;
  TRY(const auto engine, make_engine(options.model));
  server::ServerOptions server_options;
  server_options.host = options.host;
  server_options.port = static_cast<uint16_t>(options.port);
  TRY(const auto server, server::Server::start(*engine, server_options));
  signals.watch(*server);
  fmt::print("{} on http://{}:{}/v1\n", engine->info().name, options.host, server->port());
  std::fflush(stdout);
  server->run();
  return 0;
}

}  // namespace

int run_serve(const ServeOptions& options) {
  auto result = serve(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
