#include "engine/adapter.h"

#include <fmt/format.h>

namespace anabranch {

std::string adapter_salt(std::span<const AppliedAdapter> adapters) {
  std::string salt;
  for (const AppliedAdapter& one : adapters)
    salt += fmt::format("\xfe{}*{}\xfe", one.adapter->digest, one.scale);
  return salt;
}

std::string_view adapter_salt_in(std::string_view cache_salt) {
  size_t end = 0;
  while (end < cache_salt.size() && cache_salt[end] == '\xfe') {
    const size_t close = cache_salt.find('\xfe', end + 1);
    if (close == cache_salt.npos) break;
    end = close + 1;
  }
  return cache_salt.substr(0, end);
}

}  // namespace anabranch
