// `stop` and `status`: for servers that have a pid file (pid_file.h), such as those of `serve --detach`.
#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "cli/conversation.h"
#include "cli/pid_file.h"
#include "cli/print.h"
#include "cli/running_server.h"
#include "cli/serve_options.h"

namespace anabranch::cli {
namespace {

constexpr int kNotRunning = 3;      // as for systemctl status
constexpr double kAfterDrain = 5;   // seconds until a second SIGTERM
constexpr double kAfterSecond = 5;  // seconds until SIGKILL

std::string nothing_runs(const std::string& pid_file) {
  return fmt::format("no server runs that has the pid file {}", pid_file);
}

// Waits for the process to end, up to `seconds`. Returns whether it no longer holds its pid file.
Result<bool> wait_for_end(const std::string& pid_file, pid_t pid, double seconds) {
  const double end = now_seconds() + seconds;
  while (true) {
    TRY(const auto server, find_server(pid_file));
    if (!server || server->pid != pid) return true;
    if (now_seconds() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<void> send_signal(pid_t pid, int signal) {
  if (::kill(pid, signal) != 0 && errno != ESRCH)
    return make_error(ErrorKind::io, "cannot send a signal to process {}: {}", pid, std::strerror(errno));
  return {};
}

Result<void> stop(const StopOptions& options) {
  TRY(const std::string pid_file, pid_file_of(options.pid_file, options.port));
  TRY(const auto server, find_server(pid_file));
  if (!server) {
    say("{}\n", nothing_runs(pid_file));
    return {};
  }
  const pid_t pid = server->pid;
  const double began = now_seconds();
  const auto tell = [&](const char* how) {
    say("process {} ended after {:.1f} s: {}\n", pid, now_seconds() - began, how);
    return Result<void>();
  };
  TRY_VOID(send_signal(pid, SIGTERM));
  TRY(const bool drained, wait_for_end(pid_file, pid, server->drain_seconds + kAfterDrain));
  if (drained && server->address.empty()) return tell("it was still starting");
  if (drained)
    return tell(now_seconds() - began < server->drain_seconds ? "answers under way were let finish"
                                                              : "answers that took too long were cut off");
  TRY_VOID(send_signal(pid, SIGTERM));
  TRY(const bool cut_off, wait_for_end(pid_file, pid, kAfterSecond));
  if (cut_off) return tell("answers under way were cut off");
  TRY_VOID(send_signal(pid, SIGKILL));
  TRY(const bool killed, wait_for_end(pid_file, pid, kAfterSecond));
  if (killed) return tell("it did not react and was killed");
  return make_error(ErrorKind::io, "process {} still runs, although it was killed", pid);
}

struct Load {
  int running = 0, queued = 0;
  std::string models;  // names of the loaded models
};

Load load_of(const Json& health) {
  Load load;
  if (!health.contains("models") || !health["models"].is_array()) return load;
  for (const Json& model : health["models"]) {
    if (!model.is_object() || !model.contains("engine")) continue;
    const Json& engine = model["engine"];
    load.running += engine.value("running", 0);
    load.queued += engine.value("queued", 0);
    load.models += (load.models.empty() ? "" : ", ") + string_at(model, "id");
  }
  return load;
}

std::string status_of(const ServerRecord& server, const Json& health) {
  if (server.address.empty()) return "loading";
  return health.is_object() ? string_at(health, "status") : "no answer";
}

std::string duration(int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} days", seconds / 86400);
}

Json status_json(const ServerRecord& server, const Json& health) {
  Json json = {{"running", true}, {"status", status_of(server, health)}};
  if (server.pid > 0) json["pid"] = server.pid;
  if (server.address.empty()) return json;
  json["address"] = server.address;
  if (server.pid > 0)
    json.update({{"version", server.version},
                 {"model", server.model},
                 {"uptime_s", unix_seconds() - server.started},
                 {"log", server.log}});
  if (health.is_object() && health.contains("models")) {
    const Load load = load_of(health);
    json["requests"] = {{"running", load.running}, {"queued", load.queued}};
  }
  json["health"] = health;
  return json;
}

void print_status(const ServerRecord& server, const Json& health) {
  const bool foreground = server.pid <= 0;
  say("{}: {}\n", foreground ? "a server in the foreground" : fmt::format("process {}", server.pid),
      status_of(server, health));
  if (server.address.empty()) return;
  say("address  {}/v1\n", server.address);
  if (!foreground)
    say("version  {}\nup       {}\n", server.version, duration(unix_seconds() - server.started));
  if (health.is_object() && health.contains("models")) {
    const Load load = load_of(health);
    say("models   {}\nrequests {} running, {} waiting\n",
        load.models.empty() ? "none is loaded" : load.models, load.running, load.queued);
  } else {
    if (!foreground) say("model    {}\n", server.model);
    if (health.is_object()) say("requests shown only with an API key (--api-key-file)\n");
  }
  if (!server.log.empty()) say("log      {}\n", server.log);
}

Result<int> status(const StatusOptions& options) {
  TRY(const std::string pid_file, pid_file_of(options.pid_file, options.port));
  TRY(const auto seen, see_server(options));
  if (!seen) {
    if (options.json)
      say_json({{"running", false}, {"pid_file", pid_file}});
    else
      say("{}\n", nothing_runs(pid_file));
    return kNotRunning;
  }
  if (options.json)
    say_json(status_json(seen->record, seen->health), 2);
  else
    print_status(seen->record, seen->health);
  return 0;
}

}  // namespace

int run_stop(const StopOptions& options) {
  const auto result = stop(options);
  return result ? 0 : fail(result.error());
}

int run_status(const StatusOptions& options) {
  const auto result = status(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
