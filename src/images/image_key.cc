#include "images/image_key.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace anabranch {

ImageKey image_key(const ProcessedImage& image) {
  const std::array<int32_t, 5> arrangement = {image.width, image.height, image.rows, image.columns,
                                              image.tokens};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  CHECK(hash && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1 &&
            EVP_DigestUpdate(hash.get(), arrangement.data(), sizeof(arrangement)) == 1 &&
            EVP_DigestUpdate(hash.get(), image.rgb.data(), image.rgb.size()) == 1 &&
            EVP_DigestFinal_ex(hash.get(), digest, nullptr) == 1,
        "OpenSSL has no SHA-256");
  ImageKey key;
  std::memcpy(&key.high, digest, 8);
  std::memcpy(&key.low, digest + 8, 8);
  return key;
}

}  // namespace anabranch
