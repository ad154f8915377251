// HTTP requests on the calling thread (libcurl): several at a time, or one that is waited for and can be
// cancelled at any moment.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch::net {

// How a transfer ended.
enum class End {
  complete,
  not_taken,  // on_body returned false
  stopped,    // `stop` returned true
  barred,     // may_connect returned false
  late,       // a limit of time was reached
  untrusted,  // the server's certificate is not trusted
  broken,     // no connection, a broken one, or headers beyond their limit
};

struct Response {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // by lower-case name; if repeated, the last one
  std::string location;                        // absolute address of a redirect's target
  std::string body;                            // what on_body put there
  End end = End::complete;
  std::string problem;  // why it is incomplete; "": it is complete

  bool good() const { return problem.empty() && status >= 200 && status < 300; }
  // Why it is not good(), as a clause.
  std::string failure() const { return problem.empty() ? fmt::format("HTTP {}", status) : problem; }
  std::string header(const std::string& lower_case_name) const;
  // This response if it is complete, or on_body ended it. Errors: exhausted (late), busy (stopped), invalid
  // (barred), io (the other ends).
  Result<Response> checked() &&;
};

// A request, and the limits of its answer. Redirects are not followed.
struct Transfer {
  std::string url;
  std::string method = "GET";  // or POST, DELETE
  std::map<std::string, std::string> headers;
  std::string body;     // of a POST
  double seconds = 60;  // limit for the whole transfer; infinity: none. Connecting has at most 15 of them
  // The transfer ends if it is slower than `least_rate` bytes per second for this many seconds; 0: no limit.
  int stall_seconds = 0;
  int least_rate = 1;
  size_t max_header_bytes = 64 << 10;
  std::string ca_file;  // certificates to trust; "": the system's
  // A server of this machine that is known to be ours: connect without a proxy, and accept any certificate.
  bool own_server = false;
  // Called with each numeric address before connecting to it; false refuses. If set, no proxy is used,
  // because that would hide the address. Transfers without it leave connections that may be reused, so a
  // client should set it always or never.
  std::function<bool(const std::string& address)> may_connect;
  // Receives the body piece by piece, whatever the status, and may keep it in `so_far`. False ends the
  // transfer. Without it, the body is dropped.
  std::function<bool(Response& so_far, std::string_view bytes)> on_body;
  // Called several times per second from the calling thread. True cancels the transfer.
  std::function<bool()> stop;
  int poll_milliseconds = 20;  // between two calls of `stop`, for a transfer that is waited for
};

// Transfers of one thread. Keeps connections open for later ones.
class Transfers {
 public:
  Transfers();
  ~Transfers();  // ends running transfers without calling back

  using Done = std::function<void(Response)>;
  void start(Transfer transfer, Done done);
  size_t running() const;
  // Sends and receives for at most this time; returns earlier when something happened.
  void run(int milliseconds);
  // Starts a transfer, and runs until it has ended.
  Response wait_for(Transfer transfer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Transfers of many threads, each on its caller's thread. Keeps connections open for later ones. Thread-safe.
// Writing to a connection that the other side has closed raises no SIGPIPE.
class HttpClient {
 public:
  HttpClient() = default;
  ~HttpClient();
  // Returns when the transfer has ended.
  Response run(Transfer transfer);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Transfers>> idle_;
};

}  // namespace anabranch::net
