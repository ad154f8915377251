// The hashes that name blobs: SHA-256 of files in LFS, and git's SHA-1 of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace anabranch::hub {

class Digest {
 public:
  // For content of `size` bytes. The length of the hexadecimal hash `oid` selects the algorithm: 64 or 40
  // digits.
  Digest(std::string_view oid, uint64_t size);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::string_view bytes);
  // The hash in hexadecimal digits. The digest cannot be used afterwards.
  std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch::hub
