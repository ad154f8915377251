#include "server/http/access.h"

#include <fmt/core.h>

#include <algorithm>

namespace anabranch::server {
namespace {

// Names that never belong to a site on the internet: containers and machines of the local network have them.
bool is_private_name(std::string_view name) {
  for (const std::string_view suffix : {".internal", ".local"})
    if (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix) return true;
  return false;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Schemes other than http are applications, not pages from the web.
bool is_web_origin(std::string_view origin) {
  return origin == "null" || origin.rfind("http://", 0) == 0 || origin.rfind("https://", 0) == 0;
}

bool is_allowed_origin(std::string_view origin, const AccessRules& rules) {
  return contains(rules.cors_origins, "*") || contains(rules.cors_origins, lower_case(origin));
}

std::optional<ApiError> check_host(std::string_view authority, const AccessRules& rules) {
  const auto name = host_name(authority);
  if (!name)
    return ApiError{400, "Malformed Host header, or malformed host in the request target", "", "bad_request"};
  const std::string bound = listening_name(rules.bound_host);
  if (is_loopback_name(*name) || *name == bound || contains(rules.allowed_hosts, *name)) return std::nullopt;
  if (is_loopback_name(bound)) {
    if (is_private_name(*name)) return std::nullopt;
    return ApiError{
        403,
        fmt::format("Host '{}' is not this machine: the server listens on {} only and answers to localhost, "
                    "127.0.0.1, [::1], *.internal and *.local (protection against DNS rebinding). A proxy in "
                    "front must send such a Host header, or 'serve --allow-host {}' must allow this one",
                    *name, bound, *name),
        "", "host_not_allowed"};
  }
  if (rules.allowed_hosts.empty() || is_ip_address(*name)) return std::nullopt;
  return ApiError{403, fmt::format("Host '{}' is none of those that 'serve --allow-host' names", *name), "",
                  "host_not_allowed"};
}

// Browsers name the page that asks (Origin), and say how it is related to the server (Sec-Fetch-Site). A page
// can forge neither.
std::optional<ApiError> check_page(const HttpRequest& request, std::string_view authority,
                                   const AccessRules& rules) {
  const std::string* origin = request.header("origin");
  const std::string* site = request.header("sec-fetch-site");
  if (origin && (!is_web_origin(*origin) || is_allowed_origin(*origin, rules))) return std::nullopt;
  if (site && (*site == "same-origin" || *site == "none")) return std::nullopt;
  if (origin && !site && is_origin_of(*origin, authority)) return std::nullopt;  // older browsers
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!origin && (!site || reads)) return std::nullopt;  // a program, or a link that was followed
  return ApiError{
      403,
      fmt::format("Requests from web pages of other sites, or of other ports, are not allowed{}{}",
                  origin ? "; to allow them: serve --cors-origin " : "", origin ? *origin : ""),
      "", "origin_not_allowed"};
}

}  // namespace

Result<AccessRules> make_access_rules(const std::string& bound_host, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& origins) {
  AccessRules rules{bound_host, {}, {}};
  for (const std::string& host : hosts) {
    const auto name = host_name(host);
    if (!name || *name != lower_case(host))
      return make_error(ErrorKind::invalid,
                        "--allow-host '{}' is not a host's name (without scheme and port, such as "
                        "llm.example.com)",
                        host);
    rules.allowed_hosts.push_back(*name);
  }
  for (const std::string& origin : origins) {
    const size_t at = origin.find("://");
    const bool named = at != origin.npos && at > 0 && host_name(origin.substr(at + 3));
    if (!named && origin != "*" && origin != "null")
      return make_error(ErrorKind::invalid,
                        "--cors-origin '{}' is not an origin: scheme, host and port without a path, such as "
                        "http://localhost:3000, or *",
                        origin);
    rules.cors_origins.push_back(lower_case(origin));
  }
  return rules;
}

std::optional<ApiError> check_access(const HttpRequest& request, const Target& target,
                                     const AccessRules& rules) {
  const std::string* host = request.header("host");
  // The target's own authority takes precedence over Host (RFC 9112, 3.2.2); Host must still be well-formed.
  if (host && !host_name(*host)) return ApiError{400, "Malformed Host header", "", "bad_request"};
  const std::string authority = target.authority ? *target.authority : host ? *host : "";
  if (target.authority || host)
    if (auto error = check_host(authority, rules)) return error;
  return check_page(request, authority, rules);
}

bool is_from_page(const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  return origin ? is_web_origin(*origin) : request.header("sec-fetch-site") != nullptr;
}

Headers cors_headers(const HttpRequest& request, const AccessRules& rules) {
  Headers headers;
  if (rules.cors_origins.empty()) return headers;
  const bool all = contains(rules.cors_origins, "*");
  if (!all) headers.emplace_back("Vary", "Origin");
  const std::string* origin = request.header("origin");
  if (!origin || !is_allowed_origin(*origin, rules)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", all ? "*" : *origin);
  headers.emplace_back("Access-Control-Expose-Headers",
                       "x-request-id, request-id, retry-after, x-anabranch-ignored-fields");
  return headers;
}

std::optional<HttpResponse> preflight_response(const HttpRequest& request, const AccessRules& rules) {
  const std::string* origin = request.header("origin");
  if (request.method != "OPTIONS" || !origin || !is_allowed_origin(*origin, rules) ||
      !request.header("access-control-request-method"))
    return std::nullopt;
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST");
  if (const std::string* wanted = request.header("access-control-request-headers"))
    response.headers.emplace_back("Access-Control-Allow-Headers", *wanted);
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace anabranch::server
