// The HTTP server that `anabranch serve` runs: OpenAI's and Anthropic's APIs over an Engine. docs/api.md
// describes its answers.
//
// Ownership: a Server owns one I/O thread, the pools of workers (docs/READING.md lists all threads) and the
// loaded models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/volatile_text.h"
#include "server/api/agent_run.h"
#include "server/api/directories.h"
#include "server/api/model_source.h"
#include "server/api/session_stores.h"
#include "server/http/api_keys.h"
#include "server/http/http_server.h"
#include "server/otlp/endpoint.h"

namespace anabranch::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 11436;  // 0 = a free one
  HttpLimits limits;
  TlsFiles tls;                             // none: plain HTTP
  std::vector<std::string> allowed_hosts;   // further names of this server (access.h)
  std::vector<std::string> cors_origins;    // origins whose pages may send requests
  std::vector<ApiKey> api_keys;             // requests must show one of these; none: no key is needed
  std::optional<CacheScope> cache_scope;    // see ApiKeys::make
  std::vector<VolatileRule> volatile_text;  // rules for volatile text in system prompts
  bool read_ahead = true;                   // read the beginning of next prompts while no request waits
  bool keep_thinking = false;               // see PrepareOptions
  bool share_states = false;                // other workers may fetch cached states (state_pages.h)
  Directories directories;
  std::string seal_key_path;     // see Sealer
  SessionOptions sessions;       // stored conversations
  ServerTools tools;             // of MCP servers
  double request_timeout_s = 0;  // for each request, from its arrival to the end of its answer; 0: no limit
  int requests_per_minute = 0;   // for answers, from one client address; 0: no limit
  std::string access_log;        // a file with a line about each request (access_log.h); empty: none
  size_t access_log_bytes = 64u << 20;  // see RotatingLog
  OtlpEndpoint otlp;                    // gets a span for each request for an answer (request_span.h)
  double stop_grace_s = 30;             // for answers under way when stop() is called; then they are cut off
  double device_check_s = 1;            // between two checks whether a model's device has failed
};

enum class ServerEnd { stopped, device_lost };

class Server {
 public:
  // Listens and begins to serve. Errors: io (the port is in use, or the access log cannot be written),
  // invalid (the host, TLS files or keys), io or unsupported (the conversations on disk).
  static Result<std::unique_ptr<Server>> start(ServerModels models, const ServerOptions& options);
  // Cancels running requests.
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // Blocks until the server has stopped, because of stop() or because a device has failed for good. In the
  // latter case the server stops by itself after sending errors for the requests on that device.
  virtual ServerEnd run() = 0;
  // From any thread, returns at once. The server takes no new requests, and running ones get stop_grace_s. A
  // second call cuts them off now.
  virtual void stop() = 0;
  // From any thread: sets the keys for later requests. Errors: invalid (the old ones stay).
  virtual Result<void> set_api_keys(const std::vector<ApiKey>& keys) = 0;
  // From any thread: opens the access log again, for use after it was moved away. Errors: io (the old one
  // stays).
  virtual Result<void> reopen_access_log() = 0;
  // From any thread: reads the TLS files again, for later connections. Errors: invalid (the old ones stay).
  virtual Result<void> reload_tls() = 0;
  // From any thread: writes a line about each model to the log.
  virtual void report() = 0;
};

}  // namespace anabranch::server
