#include "engine/adapter.h"

#include <fmt/format.h>

namespace anabranch {

std::string adapter_salt(std::span<const AppliedAdapter> adapters) {
  std::string salt;
  for (const AppliedAdapter& one : adapters)
    salt += fmt::format("\xfe{}*{}\xfe", one.adapter->digest, one.scale);
  return salt;
}

}  // namespace anabranch
