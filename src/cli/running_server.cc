#include "cli/running_server.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "cli/server_access.h"
#include "hub/http.h"

namespace anabranch::cli {
namespace {

constexpr double kAnswerSeconds = 3;
constexpr size_t kMaxAnswerBytes = 8 << 20;

// The server's report about itself; null if it does not answer.
Json health_of(const ServerRecord& server, const std::string& key) {
  const net::Response response = ask_server(reachable(server.address) + "/health", key);
  const auto json = parse_json(response.body);
  const bool ours = response.header("server") == "anabranch";
  return response.end != net::End::late && ours && json && json->is_object() ? *json : Json();
}

// A server that runs in the foreground has no pid file, but answers on its port. No key is sent to it,
// because until it answers as Anabranch does, it may be any program.
std::optional<RunningServer> foreground_server(int port) {
  RunningServer seen{{.address = fmt::format("http://127.0.0.1:{}", port)}, {}};
  seen.health = health_of(seen.record, "");
  if (!seen.health.is_object() || string_at(seen.health, "status").empty()) return std::nullopt;
  return seen;
}

}  // namespace

Result<std::string> pid_file_of(const std::string& named, int port) {
  return named.empty() ? usual_pid_file(port) : Result<std::string>(named);
}

std::string reachable(std::string address) {
  for (const auto& [wildcard, loopback] : {std::pair{"//0.0.0.0:", "//127.0.0.1:"}, {"//[::]:", "//[::1]:"}})
    if (const size_t at = address.find(wildcard); at != address.npos)
      return address.replace(at, std::strlen(wildcard), loopback);
  return address;
}

net::Response ask_server(const std::string& url, const std::string& key) {
  hub::HttpRequest request{.url = url, .token = key, .own_server = true};
  request.max_body = kMaxAnswerBytes;
  net::Transfer transfer = hub::transfer_of(std::move(request), hub::Settings());
  transfer.seconds = kAnswerSeconds;
  return net::Transfers().wait_for(std::move(transfer));
}

Result<std::optional<RunningServer>> see_server(const ServerAddress& address) {
  TRY(const std::string pid_file, pid_file_of(address.pid_file, address.port));
  TRY(const auto server, find_server(pid_file));
  if (!server) {
    if (address.pid_file.empty() && address.port > 0) return foreground_server(address.port);
    return std::optional<RunningServer>();
  }
  RunningServer seen{*server, {}};
  if (!server->address.empty()) {
    TRY(const std::string key, key_to_show(address.api_key_file));
    seen.health = health_of(*server, key);
  }
  return std::optional(std::move(seen));
}

}  // namespace anabranch::cli
