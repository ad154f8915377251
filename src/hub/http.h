// Requests to the hub and to servers like ours, as transfers of net/http_client.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/settings.h"
#include "net/http_client.h"

namespace anabranch::hub {

struct HttpRequest {
  std::string url;
  std::string token;  // sent as a bearer token; "": none
  struct Range {
    uint64_t from = 0, to = 0;  // `to` is exclusive
  };
  std::optional<Range> range;
  std::string body;         // JSON to POST; "": GET
  bool own_server = false;  // see net::Transfer
  // Limit of net::Response::body. A longer one ends the transfer; of an error page it is cut.
  size_t max_body = 1 << 20;
  // Receives the body of a 200 or 206 piece by piece, instead of net::Response::body. False ends the
  // transfer.
  std::function<bool(const net::Response& head, std::string_view bytes)> on_body;
};

// Without a limit for the whole transfer.
net::Transfer transfer_of(HttpRequest request, const Settings& settings);

// The absolute target of a redirect. Error (invalid): no target, another protocol than HTTP, or from https to
// http.
Result<std::string> redirect_target(const std::string& from, const net::Response& response);

}  // namespace anabranch::hub
