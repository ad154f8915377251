// The keys that clients must show, if any were given.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/types.h"

namespace anabranch::server {

// Keeps digests only (SHA-256).
class ApiKeys {
 public:
  ApiKeys() = default;
  // Errors: invalid (a key that is empty or that a header cannot hold: only visible ASCII can).
  static Result<ApiKeys> make(const std::vector<std::string>& keys);

  // True if no keys are set, so that every request is allowed.
  bool empty() const { return digests_.empty(); }
  // Whether the request shows one, as "Authorization: Bearer KEY" or "x-api-key: KEY". Takes the same time
  // for every wrong key of a length.
  bool admit(const HttpRequest& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);
  std::vector<Digest> digests_;
};

// Reads keys from a file, one per line; empty lines and lines that begin with # are ignored. It must be a
// regular file of at most 1 MiB. Errors: those of read_file(), invalid (there is none in it).
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace anabranch::server
