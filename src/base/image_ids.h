// Token ids for the positions of images in a prompt.
//
// Such a position has no token of the vocabulary. Its id is computed from a hash of the image and the place
// within the image. So code that compares tokens (the prefix cache, records on disk, drafts copied from
// earlier tokens) distinguishes images without knowing about them: positions of two different images have the
// same id in one of 2^30 cases.
#pragma once

#include <compare>
#include <cstdint>

namespace anabranch {

// The first half of the SHA-256 of the vision tower's input for the image.
struct ImageKey {
  uint64_t high = 0, low = 0;
  auto operator<=>(const ImageKey&) const = default;
};

constexpr int kFirstImageId = 1 << 30;  // above every vocabulary
constexpr bool is_image_id(int id) {
  return id >= kFirstImageId;
}

// The id of the image's position `index`: the key and the index mixed by splitmix64's finaliser (Steele,
// Lea & Flood 2014).
constexpr int image_id(const ImageKey& key, int index) {
  uint64_t x = key.high + (key.low ^ (key.low >> 32)) * (2 * static_cast<uint64_t>(index) + 1) +
               0x9e3779b97f4a7c15u * (static_cast<uint64_t>(index) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return kFirstImageId + static_cast<int>(x % kFirstImageId);
}

}  // namespace anabranch
