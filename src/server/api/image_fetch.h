// Gets images that requests name by a web address, from the servers that the operator allows
// (serve --allow-image-urls).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/api/request_images.h"

namespace anabranch::server {

// Whether a numeric address is on the public internet: not this machine, its network, or a special purpose
// (the IANA's registries of special-purpose addresses).
bool is_public_address(const std::string& address);

// Gets a file from a web server, within a limit of bytes and of seconds, unless nobody waits for it any more.
// Errors say what to do.
using WebFetch = std::function<Result<std::string>(const std::string& url, size_t bytes, double seconds,
                                                   const std::function<bool()>& cancelled)>;

// hosts: "HOST" for http and https at their own ports, or "HOST:PORT". may_connect: decides on the numeric
// address of every connection. Redirects are not followed. Error: invalid (an entry is not a host).
Result<WebFetch> make_image_fetch(
    const std::vector<std::string>& hosts,
    std::function<bool(const std::string& address)> may_connect = is_public_address);

}  // namespace anabranch::server
