// Which servers of tools there are: the JSON file {"mcpServers": {...}} that MCP clients share.
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
  bool http = false;                           // streamable HTTP at `url`; otherwise a process of `command`
  std::string command;                         // a path, or a name that is looked up in PATH
  std::vector<std::string> args;               // without the command
  std::map<std::string, std::string> env;      // on top of a minimal environment (child_process.h)
  std::string cwd;                             // empty: ours
  std::string url;                             // http:// or https://
  std::map<std::string, std::string> headers;  // of each HTTP request
  double call_timeout_s = 0;                   // of one request; 0: Limits::call_seconds
};

// Tells servers apart by what runs or is asked: command, arguments, directory and environment, or address and
// headers. It may hold secrets, so it is compared and never shown.
std::string origin_of(const ServerConfig& server);

// A variable of the environment; none if it is not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// The servers of a file, in its order, without those that are "disabled". ${VAR} and ${VAR:-default} are
// replaced in command, args, env, cwd, url and headers. Unknown fields are ignored. Errors: not_found, io,
// invalid (no JSON, a field of a wrong type, a variable that is not set), unsupported (the SSE transport that
// came before streamable HTTP); all name the file and the server.
Result<std::vector<ServerConfig>> read_config(const std::string& path);
// The same from text; `where` stands in errors.
Result<std::vector<ServerConfig>> parse_config(std::string_view text, const std::string& where,
                                               const Variables& variables);

}  // namespace anabranch::mcp
