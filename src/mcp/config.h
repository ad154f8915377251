// The configuration of MCP servers: the JSON file {"mcpServers": {...}} that MCP clients share.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch::mcp {

struct ServerConfig {
  std::string name;
  bool http = false;                           // streamable HTTP at `url`; otherwise the process `command`
  std::string command;                         // a path, or a name that is looked up in PATH
  std::vector<std::string> args;               // without the command
  std::map<std::string, std::string> env;      // in addition to a minimal environment (child_process.h)
  std::string cwd;                             // empty: our directory
  std::string url;                             // http:// or https://
  std::map<std::string, std::string> headers;  // sent with each HTTP request
  double call_timeout_s = 0;                   // for one request; 0: Limits::call_seconds
};

// Identifies a server by what is run or contacted: command, arguments, directory and environment, or address
// and headers. It may contain secrets, so it is compared but never shown.
std::string origin_of(const ServerConfig& server);

// Looks up an environment variable; none if it is not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// The servers of a file, in its order, without those that are "disabled". ${VAR} and ${VAR:-default} are
// replaced in command, args, env, cwd, url and headers. Unknown fields are ignored. Errors: not_found, io,
// invalid (no JSON, a field of a wrong type, a variable that is not set), unsupported (the SSE transport that
// came before streamable HTTP); all name the file and the server.
Result<std::vector<ServerConfig>> read_config(const std::string& path);
// Like read_config(), from the text of a file; errors name `where`.
Result<std::vector<ServerConfig>> parse_config(std::string_view text, const std::string& where,
                                               const Variables& variables);

}  // namespace anabranch::mcp
