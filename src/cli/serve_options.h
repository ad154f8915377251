// The options of `serve`, and of the commands that look after a server.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "server/api/server.h"

namespace anabranch::cli {

// Flags set the options of the engine and the server themselves, where no file has to be read first.
struct ServeOptions {
  EngineOptions engine;  // without a path: models are loaded when requests name them
  SpecFlags spec;
  CacheFlags cache;
  std::vector<std::string> adapters;  // NAME=PATH: those that requests may name as their model
  server::ServerOptions server;
  std::string sessions;             // a directory, or a word for on or off
  std::string state_peer_key_file;  // with the API key for other workers; "": ANABRANCH_API_KEY
  McpFlags mcp;                     // `allow` is not used: requests say what needs approval
  ThinkFlags thinking;              // where requests say nothing
  SamplingOptions sampling;         // where requests say nothing
  int connections = 0;              // 0: as many as the requests need
  std::vector<std::string> trusted_proxies;
  std::vector<std::string> image_hosts;  // hosts from which images that requests name may be fetched
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::vector<std::string> volatile_drop, volatile_move;  // patterns of text in system prompts
  bool keep_volatile = false;                             // known volatile text is not dropped
  bool strict_model_names = false;                        // refuse requests for models that are not here
  uint64_t model_bytes = 0;              // limit for the weights of all loaded models together; 0: chosen
  std::optional<double> unload_after_s;  // time without a request; unset: chosen; 0: never
  bool mlock = false;                    // lock loaded models into memory
  bool lean = false;                     // leave most of the machine to other programs
  bool pin = false;                      // the model is never unloaded for another one
  std::vector<std::string> configured;   // names of [model.NAME]
  // The options for another model, with its path: the command line without the flags of its own model, plus
  // the settings of [model.NAME].
  std::function<Result<ServeOptions>(const std::string& name)> for_model;
  std::string log_format = "text";  // or "json"
  std::string log_file;             // "": stderr, or with `detach` the usual one (pid_file.h)
  bool detach = false;              // run in the background
  std::string pid_file;             // "": none, or with `detach` the usual one
};

struct StopOptions {
  int port = server::ServerOptions().port;
  std::string pid_file;  // "": the usual one of the port
};

// Where to look for a server, and with which key.
struct ServerAddress {
  int port = server::ServerOptions().port;
  std::string pid_file;  // see StopOptions
  std::string api_key_file;
};

struct StatusOptions : ServerAddress {
  bool json = false;
};

struct LaunchOptions : ServerAddress {
  std::string program;                 // a name in the table of launch_programs.h
  std::string model;                   // "": the first one of the server
  std::vector<std::string> arguments;  // of the program
  bool print = false;                  // show what would be done
};

// Exit codes as in options.h, and 75: the device was lost.
int run_serve(const ServeOptions& options);
int run_stop(const StopOptions& options);
// Exit codes: 0 a server runs, 3 none does.
int run_status(const StatusOptions& options);
// The exit code is the program's. flags: those of all commands that a server of ours is started with.
int run_launch(const LaunchOptions& options, const std::vector<std::string>& flags);

}  // namespace anabranch::cli
