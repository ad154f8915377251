// Decides by Host and Origin whether a request may be served. A web page in the user's browser can reach a
// server that listens only on this machine; these rules keep such pages out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/api_error.h"
#include "server/http/target.h"
#include "server/http/types.h"

namespace anabranch::server {

struct AccessRules {
  std::string bound_host;                  // the address that the server listens on
  std::vector<std::string> allowed_hosts;  // further names of this server, as host_name() gives them
  std::vector<std::string> pages;          // paths of web pages, which links of other sites may open
  std::vector<std::string> cors_origins;   // origins whose pages may send requests, in lower case; "*" is all
};

// Errors: invalid (a malformed name or origin).
Result<AccessRules> make_access_rules(const std::string& bound_host, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& origins);

// The error if the request may not be served; nothing if it may.
std::optional<ApiError> check_access(const HttpRequest& request, const Target& target,
                                     const AccessRules& rules);

// Whether a page in a browser sends the request, rather than a program.
bool is_from_page(const HttpRequest& request);

// The headers by which a browser lets a page of an allowed origin, or an application, read the answer.
Headers cors_headers(const HttpRequest& request, const AccessRules& rules);

// The answer to a CORS preflight; nothing if the request is not a preflight or the page is not allowed.
// methods: those of the path's routes, separated by commas; empty: there is no such route.
std::optional<HttpResponse> preflight_response(const HttpRequest& request, const AccessRules& rules,
                                               const std::string& methods);

}  // namespace anabranch::server
