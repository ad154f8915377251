// A connection to one server, whichever way its messages travel.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "mcp/config.h"
#include "mcp/limits.h"

namespace anabranch::mcp {

// Whether nobody waits any more. Asked now and then, from the calling thread.
using Cancelled = std::function<bool()>;

// How long somebody waits for an answer, whatever the answer takes: connecting, redirects, several requests.
struct Patience {
  Patience(double s, Cancelled c);
  bool over() const;

  double seconds;  // in all, for messages
  double until;    // monotonic seconds
  Cancelled cancelled;
};

// What a server says about its lists, counted up. Read and written by any thread.
struct Changes {
  std::atomic<unsigned> tools{0}, resources{0}, prompts{0};
  // A notification's method.
  void take(const std::string& method);
};

class Connection {
 public:
  // Closes it. Takes a few seconds at most, whatever the server does.
  virtual ~Connection() = default;
  // Sends a request and waits for its result. Errors: exhausted (no answer in time, too much of it), busy
  // (cancelled), invalid (the server's own error, or an answer that is none), io (the connection is lost). A
  // request that is given up is cancelled at the server, which nobody waits for. Thread-safe.
  virtual Result<Json> request(const std::string& method, const Json& params, const Patience& patience) = 0;
  // Errors: exhausted, busy, io. Thread-safe.
  virtual Result<void> notify(const std::string& method, const Json& params, const Patience& patience) = 0;
  // False once no request can succeed any more.
  virtual bool alive() const = 0;
  // What `initialize` agreed on, for transports that repeat it.
  virtual void set_protocol_version(const std::string&) {}
  // Listens to what the server says by itself, once `initialize` is done.
  virtual void listen() {}
  // Whether every change of a list is certain to be heard of.
  virtual bool hears_changes() const = 0;

  const Changes& changes() const { return changes_; }

 protected:
  Changes changes_;
};

// Starts the server's process. Errors: not_found (no such command), io.
Result<std::unique_ptr<Connection>> connect_stdio(const ServerConfig& config, const Limits& limits);
// Sends nothing yet.
Result<std::unique_ptr<Connection>> connect_http(const ServerConfig& config, const Limits& limits);

// The error of a request that the caller or the clock ended.
Error cancelled_error(const std::string& server, const std::string& method);
Error late_error(const std::string& server, const std::string& method, double seconds);
// The server's own error, shortened and without control characters.
Error server_error(const std::string& server, const std::string& method, int code, const std::string& text);

}  // namespace anabranch::mcp
