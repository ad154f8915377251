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
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // by lower-case name; of repeated ones the last
  std::string location;                        // where a redirect leads, as a whole address
  std::string body;                            // what on_body did not take
  std::string problem;                         // why the answer is not whole; "": it is
  bool ended_here = false;                     // the problem is that on_body took no more, or max_body
  bool certificate_problem = false;            // the problem is that the server's certificate is not trusted

  bool good() const { return problem.empty() && status >= 200 && status < 300; }
  std::string header(const std::string& lower_case_name) const;
};

struct HttpRequest {
  std::string url;
  std::string token;  // shown as a bearer token; "": none
  struct Range {
    uint64_t from = 0, to = 0;  // without `to`
  };
  std::optional<Range> range;
  std::string body;  // JSON to POST; "": GET
  // A server of this machine that is known to be ours: through no proxy, whatever its certificate says.
  bool own_server = false;
  int least_rate = 1;         // bytes a second; less for Settings::stall_seconds is a problem
  size_t max_body = 1 << 20;  // of HttpResponse::body; a longer one is a problem
  // Takes the body of a 200 or 206 piece by piece instead. False ends the request.
  std::function<bool(const HttpResponse& head, std::string_view bytes)> on_body;
};

// Follows no redirect by itself.
class HttpClient {
 public:
  explicit HttpClient(const Settings& settings);
  ~HttpClient();  // ends what runs, without calling back

  using Done = std::function<void(const HttpResponse&)>;
  void start(HttpRequest request, Done done);
  size_t running() const;
  // Sends and receives for at most so long; returns earlier when something happened.
  void run(int milliseconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https://host", with ":port" unless it is the protocol's own; "": not an address.
std::string origin_of(const std::string& url);
// Where a redirect leads. Error (invalid): nowhere, to another protocol than HTTP, or from https to http.
Result<std::string> redirect_target(const std::string& from, const HttpResponse& response);

}  // namespace anabranch::hub
