// The key of a token prefix: a chain of hashes over blocks of its tokens. It starts from a fingerprint of
// everything that makes a state valid, and from a salt that separates tenants. Equal prefixes have equal
// keys. XXH3-128 does not resist attackers, so the tokens, which records contain, are compared as well.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"

namespace anabranch {

constexpr int kBlockTokens = kKvBlock;

struct PrefixKey {
  uint64_t high = 0, low = 0;
  auto operator<=>(const PrefixKey&) const = default;
};

// A hash of everything that makes a state valid: weights, quantisation, numerics, format version. States are
// shared only under the same fingerprint.
using Fingerprint = PrefixKey;
Fingerprint fingerprint_of(std::string_view text);

// The key of the empty prefix. An entry is found only under the salt with which it was stored.
PrefixKey root_key(const Fingerprint& fingerprint, std::string_view salt);
// The key of `parent` followed by up to kBlockTokens tokens. Fewer than kBlockTokens (even none) make the key
// of a snapshot.
PrefixKey next_key(PrefixKey parent, std::span<const int> block_tokens);

// 32 hexadecimal digits, lower case, the high half first.
std::string to_hex(const PrefixKey& key);
std::optional<PrefixKey> key_from_hex(std::string_view text);

}  // namespace anabranch

template <>
struct std::hash<anabranch::PrefixKey> {
  size_t operator()(const anabranch::PrefixKey& key) const noexcept {
    return static_cast<size_t>(key.high ^ key.low);
  }
};
