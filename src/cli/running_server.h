// Finds a server of this machine, and asks it.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/pid_file.h"
#include "cli/serve_options.h"
#include "net/http_client.h"

namespace anabranch::cli {

// A server and its report about itself (null: it does not answer, or is still loading).
struct RunningServer {
  ServerRecord record;  // without a process id: a server in the foreground
  Json health;
};

// The named pid file, or the usual one of the port.
Result<std::string> pid_file_of(const std::string& named, int port);

// The server that holds the pid file, or one in the foreground that answers on the port.
Result<std::optional<RunningServer>> see_server(const ServerAddress& address);

// An address at which the server can be reached: replaces a wildcard address.
std::string reachable(std::string address);

// The answer of a server of this machine, which has a few seconds for it.
net::Response ask_server(const std::string& url, const std::string& key);

}  // namespace anabranch::cli
