#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace anabranch::hub {

struct Digest::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Digest::Digest(std::string_view oid, uint64_t size) : impl_(std::make_unique<Impl>()) {
  const bool git = oid.size() == 40;
  CHECK(EVP_DigestInit_ex(impl_->context, git ? EVP_sha1() : EVP_sha256(), nullptr) == 1, "no such digest");
  if (git) add(fmt::format("blob {}", size) + '\0');
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::string_view bytes) {
  EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size());
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(impl_->context, bytes, &size);
  std::string text;
  for (unsigned i = 0; i < size; i++) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace anabranch::hub
