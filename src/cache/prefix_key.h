// The name of a token prefix: a chain of hashes over blocks of its tokens, which starts from a fingerprint of
// all that makes a state valid and from a salt that keeps tenants apart. Equal prefixes have equal keys.
// XXH3-128 is not made against attackers: whoever matches a key also compares the tokens (records hold them).
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

// What makes a state valid: weights, quantisation, numerics, format version. States of one fingerprint only
// are ever exchanged.
using Fingerprint = PrefixKey;
Fingerprint fingerprint_of(std::string_view text);

// The empty prefix. The same salt is needed to find a state again.
PrefixKey root_key(const Fingerprint& fingerprint, std::string_view salt);
// `parent` and up to kBlockTokens more tokens; fewer than that (even none) make the key of a checkpoint.
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
