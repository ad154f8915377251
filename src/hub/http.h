// HTTP requests, several at a time, on the calling thread (libcurl).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/settings.h"

namespace anabranch::hub {

struct HttpResponse {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // by lower-case name; if repeated, the last one
  std::string location;                        // absolute address of a redirect's target
  std::string body;                            // the body, unless on_body received it
  std::string problem;                         // why the answer is incomplete; "": it is complete
  bool ended_here = false;  // the problem is that on_body returned false, or that max_body was reached
  bool certificate_problem = false;  // the problem is that the server's certificate is not trusted

  bool good() const { return problem.empty() && status >= 200 && status < 300; }
  std::string header(const std::string& lower_case_name) const;
};

struct HttpRequest {
  std::string url;
  std::string token;  // sent as a bearer token; "": none
  struct Range {
    uint64_t from = 0, to = 0;  // `to` is exclusive
  };
  std::optional<Range> range;
  std::string body;  // JSON to POST; "": GET
  // A server of this machine that is known to be ours: connect without a proxy, and accept any certificate.
  bool own_server = false;
  int least_rate = 1;         // bytes per second; less for Settings::stall_seconds is an error
  size_t max_body = 1 << 20;  // limit of HttpResponse::body; a longer one is an error
  // Receives the body of a 200 or 206 piece by piece, instead of HttpResponse::body. False ends the request.
  std::function<bool(const HttpResponse& head, std::string_view bytes)> on_body;
};

// Does not follow redirects.
class HttpClient {
 public:
  explicit HttpClient(const Settings& settings);
  ~HttpClient();  // ends running requests without calling back

  using Done = std::function<void(const HttpResponse&)>;
  void start(HttpRequest request, Done done);
  size_t running() const;
  // Sends and receives for at most this time; returns earlier when something happened.
  void run(int milliseconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https://host", with ":port" unless it is the protocol's default; "": not an address.
std::string origin_of(const std::string& url);
// The absolute target of a redirect. Error (invalid): no target, another protocol than HTTP, or from https to
// http.
Result<std::string> redirect_target(const std::string& from, const HttpResponse& response);

}  // namespace anabranch::hub
