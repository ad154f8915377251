// FNV-1a, 64 bits (Fowler, Noll, Vo): for names and fingerprints, not against attackers.
#pragma once

#include <cstdint>

namespace anabranch {

class Fnv1a {
 public:
  void add(uint32_t unit) { value_ = (value_ ^ unit) * 0x100000001b3u; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace anabranch
