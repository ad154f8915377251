#include "server/http/tls.h"

#include <boost/asio/buffer.hpp>

#include "base/mapped_file.h"

namespace anabranch::server {

namespace ssl = boost::asio::ssl;
constexpr size_t kFileBytes = 1u << 20;

Result<std::shared_ptr<ssl::context>> tls_context(const TlsFiles& files) {
  if (files.certificate.empty() && files.key.empty()) return std::shared_ptr<ssl::context>();
  const auto bad = [&](const char* what, const std::string& path, const std::string& why) {
    return make_error(ErrorKind::invalid, "cannot use '{}' as the TLS {} (PEM): {}", path, what, why);
  };
  const auto certificate = read_file(files.certificate, kFileBytes);
  if (!certificate) return bad("certificate", files.certificate, certificate.error().message);
  const auto key = read_file(files.key, kFileBytes);
  if (!key) return bad("key", files.key, key.error().message);
  auto tls = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  tls->use_certificate_chain(boost::asio::buffer(*certificate), error);
  if (error) return bad("certificate", files.certificate, error.message());
  tls->use_private_key(boost::asio::buffer(*key), ssl::context::pem, error);
  if (error) return bad("key", files.key, error.message());
  return tls;
}

}  // namespace anabranch::server
