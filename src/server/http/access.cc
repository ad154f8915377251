#include "server/http/access.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/lower_case.h"

namespace anabranch::server {
namespace {

// Names by which containers and virtual machines reach their host. Other names with the same endings may
// belong to anybody on the local network, or to a web site that was rebound to 127.0.0.1.
constexpr std::string_view kHostsOfContainers[] = {"host.docker.internal",
                                                   "gateway.docker.internal",
                                                   "docker.for.mac.host.internal",
                                                   "host.containers.internal",
                                                   "host.lima.internal",
                                                   "host.orb.internal",
                                                   "host.rancher-desktop.internal",
                                                   "host.minikube.internal",
                                                   "host.k3d.internal",
                                                   "host.wsl.internal"};

// Whether it is this machine's own name, alone or followed by .local (multicast DNS).
bool is_own_name(std::string_view name) {
  char own[256] = {};
  if (::gethostname(own, sizeof own - 1) != 0) return false;
  const std::string whole = lower_case(own), first = whole.substr(0, whole.find('.'));
  return !first.empty() && (name == whole || name == first || name == first + ".local");
}

bool is_private_name(std::string_view name) {
  return std::ranges::find(kHostsOfContainers, name) != std::end(kHostsOfContainers) || is_own_name(name);
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Whether a page from the web has this origin. An application's origin has a scheme of its own and a host
// ("app://desktop"); all other origins are those of web pages.
bool is_web_origin(std::string_view origin) {
  constexpr std::string_view kWebSchemes[] = {"http",  "https",      "ws",         "wss",
                                              "ftp",   "file",       "blob",       "data",
                                              "about", "javascript", "filesystem", "view-source"};
  const size_t end = origin.find("://");
  if (end == origin.npos || end == 0 || end + 3 == origin.size()) return true;
  const std::string scheme = lower_case(origin.substr(0, end));
  const bool letters = std::ranges::all_of(scheme, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  return !letters || std::ranges::find(kWebSchemes, scheme) != std::end(kWebSchemes);
}

// Whether the user followed a link to one of our pages, or typed its address.
bool opens_page(const HttpRequest& request, const Target& target, const AccessRules& rules) {
  const auto is = [&](const char* name, const char* value) {
    const std::string* header = request.header(name);
    return header && *header == value;
  };
  return (request.method == "GET" || request.method == "HEAD") && is("sec-fetch-mode", "navigate") &&
         is("sec-fetch-dest", "document") && contains(rules.pages, target.path);
}

// Applications count as programs, which may send requests from anywhere.
bool is_allowed_origin(std::string_view origin, const AccessRules& rules) {
  return !is_web_origin(origin) || contains(rules.cors_origins, "*") ||
         contains(rules.cors_origins, lower_case(origin));
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
        fmt::format(
            "Host '{}' is not this machine: the server listens on {} only and answers to localhost, "
            "127.0.0.1, [::1], this machine's name and the names that containers have for it (protection "
            "against DNS rebinding). A proxy in "
            "front must send such a Host header, or 'serve --allow-host {}' must allow this one",
            *name, bound, *name),
        "", "host_not_allowed"};
  }
  if (rules.allowed_hosts.empty() || is_ip_address(*name)) return std::nullopt;
  return ApiError{403, fmt::format("Host '{}' is none of those that 'serve --allow-host' names", *name), "",
                  "host_not_allowed"};
}

// Checks whether a page in a browser may send the request. Browsers name the page that asks (Origin), and say
// how it is related to the server (Sec-Fetch-Site). A page can forge neither.
std::optional<ApiError> check_page(const HttpRequest& request, const Target& target,
                                   std::string_view authority, const AccessRules& rules) {
  const auto refused = [](const std::string* origin) {
    return ApiError{
        403,
        fmt::format("Requests from web pages of other sites, or of other ports, are not allowed{}{}",
                    origin ? "; to allow them: serve --cors-origin " : "", origin ? *origin : ""),
        "", "origin_not_allowed"};
  };
  if (request.count("origin") > 1 || request.count("sec-fetch-site") > 1) return refused(nullptr);
  const std::string* origin = request.header("origin");
  const std::string* site = request.header("sec-fetch-site");
  if (origin && is_allowed_origin(*origin, rules)) return std::nullopt;
  if (site && (*site == "same-origin" || *site == "none")) return std::nullopt;
  if (origin && !site && is_origin_of(*origin, authority)) return std::nullopt;  // older browsers
  if (!origin && (!site || opens_page(request, target, rules)))
    return std::nullopt;  // without Sec-Fetch-Site: a program
  return refused(origin);
}

}  // namespace

Result<AccessRules> make_access_rules(const std::string& bound_host, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& origins) {
  AccessRules rules{bound_host, {}, {}, {}};
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
  return check_page(request, target, authority, rules);
}

bool is_from_page(const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  return origin ? is_web_origin(*origin) : request.header("sec-fetch-site") != nullptr;
}

Headers cors_headers(const HttpRequest& request, const AccessRules& rules) {
  Headers headers;
  const bool all = contains(rules.cors_origins, "*");
  const std::string* origin = request.header("origin");
  const bool allowed = origin && is_allowed_origin(*origin, rules);
  if (!all && (allowed || !rules.cors_origins.empty())) headers.emplace_back("Vary", "Origin");
  if (!allowed) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", all ? "*" : *origin);
  headers.emplace_back("Access-Control-Expose-Headers",
                       "x-request-id, request-id, retry-after, x-anabranch-ignored-fields");
  return headers;
}

std::optional<HttpResponse> preflight_response(const HttpRequest& request, const AccessRules& rules,
                                               const std::string& methods) {
  const std::string* origin = request.header("origin");
  if (request.method != "OPTIONS" || !origin || !is_allowed_origin(*origin, rules) ||
      !request.header("access-control-request-method"))
    return std::nullopt;
  HttpResponse response;
  response.status = 204;
  // A page sees the answer 404 only if the method is allowed.
  response.headers.emplace_back("Access-Control-Allow-Methods",
                                methods.empty() ? "GET, HEAD, POST, DELETE" : methods);
  if (const std::string* wanted = request.header("access-control-request-headers"))
    response.headers.emplace_back("Access-Control-Allow-Headers", *wanted);
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace anabranch::server
