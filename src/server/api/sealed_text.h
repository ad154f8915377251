// Encrypted text that clients store for us and cannot read or change: thoughts in the Responses API's
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
  // The key is stored in the file, which is made at the first use if it is missing. With "" or an unusable
  // file the object makes its own key, so sealed text cannot be opened after the object is gone.
  explicit Sealer(std::string key_file) : key_file_(std::move(key_file)) {}
  std::string seal(std::string_view text) const;  // letters, digits, + / =
  // Decrypts a sealed text; nothing if it was not sealed with this key.
  std::optional<std::string> open(std::string_view sealed) const;

 private:
  using Key = std::array<unsigned char, 32>;
  static std::optional<Key> kept_key(const std::string& file);
  const Key& key() const;

  const std::string key_file_;
  mutable std::once_flag once_;
  mutable Key key_;
};

// The prefix, followed by 24 random hexadecimal digits that nobody can guess.
std::string random_id(const char* prefix);

}  // namespace anabranch::server
