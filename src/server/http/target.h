// The parts of a request that name a place: its target, and the Host and Origin headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch::server {

// A request's target.
struct Target {
  std::optional<std::string> authority;  // from "http://authority/path", as clients send it to proxies
  std::string path;  // decoded; a final slash (except in "/") and doubled slashes are removed
};

// "//v1/models/a%20b/?x=1" -> "/v1/models/a b". An escaped slash is not a separator. Errors: invalid (no
// path, a bad escape, a NUL byte).
Result<Target> parse_target(std::string_view target);

// The decoded value of a parameter in the target's query ("?name=a%20b" or "a+b"), the first of several;
// nothing if there is none or its value has a bad escape or a NUL byte.
std::optional<std::string> query_value(std::string_view target, std::string_view name);

// The lower-case host name of "name", "name:port", "[v6]" or "[v6]:port"; the brackets stay. Nothing when
// malformed.
std::optional<std::string> host_name(std::string_view authority);

// The host name of an address to listen on, which may be a bare IPv6 one ("::1" -> "[::1]"); empty when
// malformed.
std::string listening_name(const std::string& host);

// Whether pages of this origin ("scheme://authority") are served under this authority, whatever the scheme.
// The default port of the origin's scheme may be omitted in either argument.
bool is_origin_of(std::string_view origin, std::string_view authority);

// Whether a host name always means this machine: localhost, *.localhost, 127.x.y.z, [::1].
bool is_loopback_name(std::string_view name);

// An IPv4 address in four plain numbers, or an IPv6 one in brackets.
bool is_ip_address(std::string_view name);

}  // namespace anabranch::server
