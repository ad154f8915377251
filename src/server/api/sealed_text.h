// Encrypted text that clients store for us and cannot read or change: thoughts and summaries in the Responses
// API's "encrypted_content".
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace anabranch::server {

inline constexpr std::string_view kSealedThought = "thought";  // a kind, see Sealer

// AES-256-GCM. Thread-safe.
class Sealer {
 public:
  // The key is stored in the file, which is made at the first use if it is missing. With "" or an unusable
  // file the object makes its own key, so sealed text cannot be opened after the object is gone.
  explicit Sealer(std::string key_file) : key_file_(std::move(key_file)) {}
  // Returns letters, digits, + / =. kind: a word for the kind of text. owner: the name of the key whose
  // requests may open it; empty: no key.
  std::string seal(std::string_view text, std::string_view kind, std::string_view owner) const;
  // Decrypts a sealed text; nothing if it was not sealed with this key, for this kind and owner.
  std::optional<std::string> open(std::string_view sealed, std::string_view kind,
                                  std::string_view owner) const;

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
