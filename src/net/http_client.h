// HTTP requests on the calling thread (libcurl) that can be cancelled at any moment.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch::net {

struct HttpExchange {
  std::string method = "POST";  // or GET, DELETE
  std::string url;
  std::map<std::string, std::string> headers;
  std::string body;
  double seconds = 60;  // limit for the whole exchange
  // Called with each numeric address before connecting to it; false refuses. If set, no proxy is used,
  // because that would hide the address. Exchanges without it leave connections that may be reused, so a
  // client should set it always or never.
  std::function<bool(const std::string& address)> may_connect;

  struct Head {
    int status = 0;
    std::map<std::string, std::string> headers;  // by lower-case name; if repeated, the last one
    std::string location;                        // absolute address of a redirect's target
    std::string header(const std::string& lower_case_name) const;
  };
  // Receives the body piece by piece, whatever the status. False ends the exchange without an error.
  std::function<bool(const Head& head, std::string_view bytes)> on_body;
  // Called every `poll_milliseconds`, from the calling thread. True cancels the exchange.
  std::function<bool()> stop;
  int poll_milliseconds = 20;
};

// Keeps connections open for later exchanges. Thread-safe; each exchange runs on its caller's thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  // Runs the exchange. Returns the head of the response once the response is complete, or on_body returned
  // false. Errors: exhausted (not within `seconds`), busy (`stop`), invalid (`may_connect`), io (no
  // connection, a broken one, a certificate).
  Result<HttpExchange::Head> run(const HttpExchange& exchange);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https://host:port" of an address, in lower case; empty: not an address.
std::string origin_of_address(const std::string& url);

}  // namespace anabranch::net
