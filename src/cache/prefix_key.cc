#include "cache/prefix_key.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/check.h"

namespace anabranch {

static_assert(std::endian::native == std::endian::little, "keys and records are little-endian");

namespace {

// Takes the position of the parent's key in the hash of a root. A hash seed is no substitute: XXH3 absorbs it
// for short inputs, so a root of one fingerprint could equal a child of another.
constexpr std::string_view kRootTag = "anabranch's root";
static_assert(kRootTag.size() == sizeof(PrefixKey));

PrefixKey hashed(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

}  // namespace

Fingerprint fingerprint_of(std::string_view text) {
  return hashed(text.data(), text.size());
}

PrefixKey root_key(const Fingerprint& fingerprint, std::string_view salt) {
  std::string bytes(kRootTag);
  bytes.append(reinterpret_cast<const char*>(&fingerprint), sizeof(PrefixKey));
  bytes += salt;
  return hashed(bytes.data(), bytes.size());
}

PrefixKey next_key(PrefixKey parent, std::span<const int> block_tokens) {
  static_assert(sizeof(int) == 4 && sizeof(PrefixKey) == 16);
  CHECK(block_tokens.size() <= kBlockTokens, "{} tokens in a block", block_tokens.size());
  std::array<std::byte, sizeof(PrefixKey) + 4 * kBlockTokens> bytes;
  std::memcpy(bytes.data(), &parent, sizeof(PrefixKey));
  if (!block_tokens.empty())
    std::memcpy(bytes.data() + sizeof(PrefixKey), block_tokens.data(), block_tokens.size_bytes());
  return hashed(bytes.data(), sizeof(PrefixKey) + block_tokens.size_bytes());
}

std::string to_hex(const PrefixKey& key) {
  return fmt::format("{:016x}{:016x}", key.high, key.low);
}

std::optional<PrefixKey> key_from_hex(std::string_view text) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != text.npos) return std::nullopt;
  PrefixKey key;
  std::from_chars(text.data(), text.data() + 16, key.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, key.low, 16);
  return key;
}

}  // namespace anabranch
