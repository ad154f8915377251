// An HTTP/1.1 server on one I/O thread: connections, limits, timeouts, keep-alive, streaming. It does not
// interpret the content. The handler runs on the I/O thread and must not block it.
//
// Ownership: the server owns its sockets; a connection lives until its client leaves or the server closes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/api_error.h"
#include "server/http/client_address.h"
#include "server/http/types.h"

namespace anabranch::server {

struct HttpLimits {
  size_t header_bytes = 32u << 10;  // request line and headers; more is answered 431
  size_t body_bytes = 32u << 20;    // more is answered 413
  size_t all_body_bytes =
      256u << 20;  // of all requests being read or prepared together; more is answered 503
  size_t output_queue_bytes = 8u << 20;  // a stream's unsent bytes; a client with more is dropped
  int connections = 256;                 // at once; more are answered 503 (admission.h)
  int connections_per_address = 64;      // maximum from one address; loopback addresses are exempt
  double give_way_s = 1;  // at the limit, a connection is closed if its request takes longer to arrive
  double header_s = 10;   // from the first byte of a request to the end of its headers
  double body_s = 60;     // for a request's body
  double idle_s = 75;     // the longest time that a connection stays open without a request
  double stall_s = 20;  // a client is dropped if it takes fewer than stall_bytes in this time while more wait
  size_t stall_bytes = 16u << 10;
  TrustedProxies proxies;   // their connections count as those of many clients
  double heartbeat_s = 10;  // a stream sends a heartbeat after this time of silence
};

// Files in PEM form; both or none. The certificate file may hold the chain up to the root.
struct TlsFiles {
  std::string certificate, key;
};

// The callbacks of a server. All are called on the I/O thread.
struct HttpHandlers {
  Handler handle;
  // Called before a request's body is read: the answer to send instead of reading it, if any. client: its
  // address.
  std::function<std::optional<HttpResponse>(const HttpRequest& head, const std::string& client)> refuse;
  // The answer for an error that the HTTP layer found. Parts of the request that could not be read are empty.
  std::function<HttpResponse(const RequestName& request, const ApiError& error)> error;
  // Headers to add to every answer to the request, including those of the HTTP layer itself.
  std::function<Headers(const HttpRequest& head)> headers;
  // Called when an answer begins.
  std::function<void(const RequestName& request, int status)> responded;
  // The name of the key that the request shows; empty: no known key.
  std::function<std::string(const HttpRequest& head)> key_of;
  // Called after each request, whether it was answered or not. Connections beyond the limit have none.
  std::function<void(const EndedRequest& request)> ended;
};

class HttpServer {
 public:
  // Binds and listens; port 0 takes a free one. With TLS files it speaks TLS 1.2 or newer and nothing else.
  // Errors: io (the address is in use or not ours), invalid (the host, or the TLS files).
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, uint16_t port,
                                                    const HttpLimits& limits, const TlsFiles& tls);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  virtual Post post() = 0;
  // Serves until begin_stop() was called and the last connection is gone. The calling thread is the I/O
  // thread.
  virtual void serve(HttpHandlers handlers) = 0;
  // From any thread: reads the TLS files again, for later connections. Errors: invalid (the old ones stay).
  virtual Result<void> reload_tls() = 0;

  // On the I/O thread only:
  // Accepts no new connections, closes idle ones now and busy ones after their current answer.
  virtual void begin_stop() = 0;
  // Drops every connection at once.
  virtual void close_all() = 0;
  virtual void after(double seconds, std::function<void()> run) = 0;
};

}  // namespace anabranch::server
