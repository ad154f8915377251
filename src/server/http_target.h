// The parts of a request that name a place: its target, and the Host and Origin headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch::server {

// The decoded path of a request target ("/v1/models/a%20b?x=1" -> "/v1/models/a b"); absolute targets
// ("http://host/path") give their path. Errors: invalid (no path, a bad escape, a NUL byte).
Result<std::string> target_path(std::string_view target);

// The lower-case host name of "name", "name:port", "[v6]" or "[v6]:port"; the brackets stay. Nothing when
// malformed.
std::optional<std::string> host_name(std::string_view authority);

// The host name of an address to listen on, which may be a bare IPv6 one ("::1" -> "[::1]"); empty when
// malformed.
std::string listening_name(const std::string& host);

// The host name of an origin "scheme://authority"; nothing when malformed ("null").
std::optional<std::string> origin_host(std::string_view origin);

// Whether a host name always means this machine: localhost, *.localhost, 127.x.y.z, [::1].
bool is_loopback_name(std::string_view name);

}  // namespace anabranch::server
