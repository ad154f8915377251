// A connection to one server, independent of the transport.
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

// Returns true if nobody waits any more. Called now and then, from the calling thread.
using Cancelled = std::function<bool()>;

// How long to wait for an answer in total: including connecting, redirects, several requests.
struct Patience {
  Patience(double s, Cancelled c);
  bool over() const;

  double seconds;  // in total, for messages
  double until;    // monotonic seconds
  Cancelled cancelled;
};

// Counts a server's notifications about changes of its lists. Read and written by any thread.
struct Changes {
  std::atomic<unsigned> tools{0}, resources{0}, prompts{0};
  // method: the notification's method.
  void take(const std::string& method);
};

class Connection {
 public:
  // Closes the connection. Takes a few seconds at most, whatever the server does.
  virtual ~Connection() = default;
  // Sends a request and waits for its result. Errors: exhausted (no answer in time, or a too large one), busy
  // (cancelled), invalid (the server's own error, or an invalid answer), io (the connection is lost). If we
  // give up, the server is sent a cancellation, without waiting for that. Thread-safe.
  virtual Result<Json> request(const std::string& method, const Json& params, const Patience& patience) = 0;
  // Errors: exhausted, busy, io. Thread-safe.
  virtual Result<void> notify(const std::string& method, const Json& params, const Patience& patience) = 0;
  // Whether requests can still succeed. Once false, it stays false.
  virtual bool alive() const = 0;
  // Sets the version that `initialize` agreed on, for transports that repeat it.
  virtual void set_protocol_version(const std::string&) {}
  // Receives messages that the server sends on its own, once `initialize` is done.
  virtual void listen() {}
  // Whether every notification about a changed list is certain to arrive.
  virtual bool hears_changes() const = 0;

  const Changes& changes() const { return changes_; }

 protected:
  Changes changes_;
};

// Starts the server's process. Errors: not_found (no such command), io.
Result<std::unique_ptr<Connection>> connect_stdio(const ServerConfig& config, const Limits& limits);
// Makes no connection yet.
Result<std::unique_ptr<Connection>> connect_http(const ServerConfig& config, const Limits& limits);

// The error of a request that was cancelled, or whose time was over.
Error cancelled_error(const std::string& server, const std::string& method);
Error late_error(const std::string& server, const std::string& method, double seconds);
// The server's own error, shortened and without control characters.
Error server_error(const std::string& server, const std::string& method, int code, const std::string& text);

}  // namespace anabranch::mcp
