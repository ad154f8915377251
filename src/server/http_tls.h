// A server's certificate and key.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <optional>

#include "base/result.h"
#include "server/http_server.h"

namespace anabranch::server {

// TLS 1.2 or newer with these files; nothing without files. Errors: invalid (names the file).
Result<std::optional<boost::asio::ssl::context>> tls_context(const TlsFiles& files);

}  // namespace anabranch::server
