// All configured servers. A server is started at the first request for it, and restarted after it has ended.
// Thread-safe. Calls block until they have an answer, are cancelled, or their time is over: the server's
// `timeout`, or Limits::call_seconds, for everything that a call requires. Only starting a process first may
// take up to Limits::start_seconds in addition.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/rotating_log.h"
#include "mcp/client.h"
#include "mcp/config.h"
#include "mcp/limits.h"

namespace anabranch::mcp {

// The result of a call, or an error, as text for the model.
struct CallResult {
  std::string text;
  bool is_error = false;   // the tool reports a failure, or it could not be called
  bool truncated = false;  // text was longer than Limits::output_bytes
  double seconds = 0;
};

// A record of a call, for people.
struct CallRecord {
  int64_t at = 0;  // Unix seconds of the start
  std::string server, tool;
  double seconds = 0;
  size_t output_bytes = 0;
  std::string error;  // one line; empty: it succeeded
  std::string owner;  // the name of the key that made the request; empty: none
};

// The current state of a server; reading it sends nothing to the server.
struct ServerState {
  enum class State { idle, connected, failed };
  std::string name, title, instructions;
  bool http = false;
  State state = State::idle;  // idle: not started yet, or ended regularly
  std::string error;          // of the last failed start or list
  // The last list; empty if it was never requested.
  Listed<Tool> tools;
  Listed<Resource> resources;
  Listed<PromptInfo> prompts;
};

class Servers {
 public:
  Servers(std::vector<ServerConfig> configs, const Limits& limits);
  ~Servers();  // ends all servers, in parallel
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // In the configuration's order.
  std::vector<std::string> names() const;
  bool has(const std::string& server) const;
  // From now on writes each call as a line of JSON, with its arguments: {"at","server","tool","arguments",
  // "seconds","output_bytes","error"}. The file is readable by its owner only. Errors: io.
  Result<void> log_calls_to(const std::string& path);

  // The tools, resources or prompts that a server offers: the last list, unless the server has reported a
  // change since. Errors: not_found (no such server), busy (cancelled, or it failed a moment ago), and those
  // of Client.
  Result<std::vector<Tool>> tools(const std::string& server, const Cancelled& cancelled);
  Result<std::vector<Resource>> resources(const std::string& server, const Cancelled& cancelled);
  Result<std::vector<PromptInfo>> prompts(const std::string& server, const Cancelled& cancelled);

  // Never throws: an error becomes the result's text. tool: as listed; a tool whose description or schema the
  // server has changed since is not called. arguments: an object. owner: see CallRecord.
  CallResult call(const Tool& tool, const Json& arguments, const Cancelled& cancelled,
                  const std::string& owner = "");
  Result<Output> read_resource(const std::string& server, const std::string& uri, const Cancelled& cancelled);
  // Messages of the chat API.
  Result<Json> get_prompt(const std::string& server, const std::string& name,
                          const std::map<std::string, std::string>& arguments, const Cancelled& cancelled);

  std::vector<ServerState> states() const;
  // The latest calls of this owner, newest first. One key never sees the calls of another.
  std::vector<CallRecord> recent_calls(const std::string& owner = "") const;

 private:
  struct Slot;
  Slot* find(const std::string& server) const;
  Patience time_for(const std::string& server, const Cancelled& cancelled) const;
  Result<std::shared_ptr<Client>> client(Slot& slot, Patience& patience);
  template <class T, class Ask>
  Result<T> with_client(const std::string& server, Patience& patience, const Ask& ask);
  template <class T, class Ask>
  Result<std::vector<T>> listed(const std::string& server, Patience& patience, const Ask& ask);
  Result<std::vector<Tool>> tools(const std::string& server, Patience& patience);
  Result<Output> call_checked(const Tool& tool, const Json& arguments, const Cancelled& cancelled);
  void record(CallRecord call, const Json& arguments);

  const Limits limits_;
  std::vector<std::unique_ptr<Slot>> slots_;
  mutable std::mutex calls_mutex_;
  std::deque<CallRecord> calls_;      // newest first
  std::unique_ptr<RotatingLog> log_;  // null: none
};

}  // namespace anabranch::mcp
