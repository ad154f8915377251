// HTTP requests on the calling thread (libcurl), which can be given up at any moment.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch::mcp {

struct HttpExchange {
  std::string method = "POST";  // or GET, DELETE
  std::string url;
  std::map<std::string, std::string> headers;
  std::string body;
  double seconds = 60;  // for all of it
  // Asked of each numeric address before a connection to it. Set: no proxy is used, which would hide the
  // address. Connections of exchanges that did not ask may be used again, so a client should ask always or
  // never.
  std::function<bool(const std::string& address)> may_connect;

  struct Head {
    int status = 0;
    std::map<std::string, std::string> headers;  // by lower-case name; of repeated ones the last
    std::string location;                        // where a redirect leads, as a whole address
    std::string header(const std::string& lower_case_name) const;
  };
  // Takes the body piece by piece, whatever the status. False ends the exchange, which is then no error.
  std::function<bool(const Head& head, std::string_view bytes)> on_body;
  // Asked every `poll_milliseconds`, from the calling thread. True gives the exchange up.
  std::function<bool()> stop;
  int poll_milliseconds = 20;
};

// Keeps connections for later exchanges. Thread-safe; each exchange runs on its caller's thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  // The answer's head, when the answer has come as a whole, or on_body wanted no more. Errors: exhausted (not
  // within `seconds`), busy (`stop`), invalid (`may_connect`), io (no connection, a broken one, a
  // certificate).
  Result<HttpExchange::Head> run(const HttpExchange& exchange);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https://host:port" of an address, in lower case; empty: it is none.
std::string origin_of_address(const std::string& url);

}  // namespace anabranch::mcp
