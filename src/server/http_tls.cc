#include "server/http_tls.h"

namespace anabranch::server {

namespace ssl = boost::asio::ssl;

Result<std::optional<ssl::context>> tls_context(const TlsFiles& files) {
  if (files.certificate.empty() && files.key.empty()) return std::optional<ssl::context>();
  std::optional<ssl::context> tls(ssl::context::tls_server);
  boost::system::error_code error;
  const auto bad = [&](const char* what, const std::string& path) {
    return make_error(ErrorKind::invalid, "cannot use '{}' as the TLS {} (PEM): {}", path, what,
                      error.message());
  };
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  tls->use_certificate_chain_file(files.certificate, error);
  if (error) return bad("certificate", files.certificate);
  tls->use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return bad("key", files.key);
  return tls;
}

}  // namespace anabranch::server
