#include "server/api/sealed_text.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>

#include "base/base64.h"
#include "base/check.h"
#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr size_t kNonceBytes = 12, kTagBytes = 16;
constexpr size_t kMaxBytes = INT_MAX / 2;

using Context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

Context make_context() {
  return {EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};
}

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// The data that is authenticated with a text, but is not in it.
std::string bound_to(std::string_view kind, std::string_view owner) {
  return fmt::format("{}\n{}", kind, owner);
}

}  // namespace

// The key in the file, which is made if it is missing. Two servers that start at the same time agree on one
// key, because the complete file appears under its name at once.
std::optional<Sealer::Key> Sealer::kept_key(const std::string& file) {
  Key key;
  const auto read_key = [&] {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const bool whole = ::read(fd, key.data(), key.size()) == static_cast<ssize_t>(key.size());
    ::close(fd);
    return whole;
  };
  if (read_key()) return key;
  CHECK(RAND_bytes(key.data(), key.size()) == 1, "no random numbers");
  const std::string mine = fmt::format("{}.{}", file, ::getpid());
  const int fd = ::open(mine.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return std::nullopt;
  const bool written = ::write(fd, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  ::close(fd);
  const bool named = written && (::link(mine.c_str(), file.c_str()) == 0 || errno == EEXIST);
  ::unlink(mine.c_str());
  return named && read_key() ? std::optional(key) : std::nullopt;
}

const Sealer::Key& Sealer::key() const {
  std::call_once(once_, [this] {
    const auto kept = key_file_.empty() ? std::nullopt : kept_key(key_file_);
    if (!kept && !key_file_.empty())
      log_warning("{} cannot be used: what clients keep sealed is lost when the server ends", key_file_);
    if (kept)
      key_ = *kept;
    else
      CHECK(RAND_bytes(key_.data(), key_.size()) == 1, "no random numbers");
  });
  return key_;
}

// A sealed text is nonce, tag and ciphertext in base64.
std::string Sealer::seal(std::string_view text, std::string_view kind, std::string_view owner) const {
  CHECK(text.size() <= kMaxBytes, "too long to be sealed");
  const std::string bound = bound_to(kind, owner);
  std::string out(kNonceBytes + kTagBytes + text.size(), '\0');
  unsigned char* const nonce = bytes_of(out);
  unsigned char* const tag = nonce + kNonceBytes;
  int size = 0;
  const Context context = make_context();
  const bool sealed =
      context && RAND_bytes(nonce, kNonceBytes) == 1 &&
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key().data(), nonce) == 1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &size, bytes_of(std::string_view(bound)),
                        static_cast<int>(bound.size())) == 1 &&
      EVP_EncryptUpdate(context.get(), tag + kTagBytes, &size, bytes_of(text),
                        static_cast<int>(text.size())) == 1 &&
      EVP_EncryptFinal_ex(context.get(), tag + kTagBytes + size, &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag) == 1;
  CHECK(sealed, "AES-256-GCM failed");
  return to_base64(out);
}

std::optional<std::string> Sealer::open(std::string_view sealed, std::string_view kind,
                                        std::string_view owner) const {
  if (sealed.size() > kMaxBytes) return std::nullopt;
  auto bytes = from_base64(sealed);
  if (!bytes || bytes->size() < kNonceBytes + kTagBytes) return std::nullopt;
  unsigned char* const nonce = bytes_of(*bytes);
  unsigned char* const tag = nonce + kNonceBytes;
  const int length = static_cast<int>(bytes->size() - kNonceBytes - kTagBytes);
  std::string out(length + 1, '\0');
  const std::string bound = bound_to(kind, owner);
  int size = 0, rest = 0;
  const Context context = make_context();
  const bool opened =
      context && EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key().data(), nonce) == 1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, bytes_of(std::string_view(bound)),
                        static_cast<int>(bound.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), bytes_of(out), &size, tag + kTagBytes, length) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag) == 1 &&
      EVP_DecryptFinal_ex(context.get(), bytes_of(out) + size, &rest) == 1;
  if (!opened) return std::nullopt;
  out.resize(length);
  return out;
}

std::string random_id(const char* prefix) {
  unsigned char bytes[12];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1, "no random numbers");
  std::string id = prefix;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

}  // namespace anabranch::server
