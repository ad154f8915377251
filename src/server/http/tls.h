// A server's certificate and key.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "base/result.h"
#include "server/http/http_server.h"

namespace anabranch::server {

// TLS 1.2 or newer with these files; null without files. Errors name the file.
Result<std::shared_ptr<boost::asio::ssl::context>> tls_context(const TlsFiles& files);

}  // namespace anabranch::server
