// Text that clients keep for us without being able to read or change it: thoughts in the Responses API's
// "encrypted_content".
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace anabranch::server {

// AES-256-GCM. Thread-safe.
class Sealer {
 public:
  // The key is kept in the file, which is made at the first use when it is missing. "" or a file that cannot
  // be used: the key is this object's own, so nobody opens later what it sealed.
  explicit Sealer(std::string key_file) : key_file_(std::move(key_file)) {}
  std::string seal(std::string_view text) const;  // letters, digits, + / =
  // Nothing if this sealer did not make it.
  std::optional<std::string> open(std::string_view sealed) const;

 private:
  using Key = std::array<unsigned char, 32>;
  static std::optional<Key> kept_key(const std::string& file);
  const Key& key() const;

  const std::string key_file_;
  mutable std::once_flag once_;
  mutable Key key_;
};

// The prefix and 24 hexadecimal digits that nobody can guess.
std::string random_id(const char* prefix);

}  // namespace anabranch::server
