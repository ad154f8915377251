// Codes packed without gaps into little-endian 32-bit words, the lowest bits first; a code may lie in two
// words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace anabranch {

inline uint32_t word_at(const std::byte* words, int64_t i) {
  uint32_t word;
  std::memcpy(&word, words + i * 4, 4);
  return word;
}

// Code `i` of a stream whose words are `stride` words apart.
inline uint8_t code_at(const std::byte* words, int64_t stride, int bits, int64_t i) {
  const int64_t bit = i * bits, shift = bit % 32;
  uint64_t pair = word_at(words, bit / 32 * stride);
  if (shift + bits > 32) pair |= uint64_t{word_at(words, (bit / 32 + 1) * stride)} << 32;
  return static_cast<uint8_t>((pair >> shift) & ((1u << bits) - 1));
}

// The same where a word holds as many whole codes as fit, and its highest bits are not used.
inline uint8_t whole_code_at(const std::byte* words, int64_t stride, int bits, int64_t i) {
  const int64_t per_word = 32 / bits;
  return static_cast<uint8_t>(word_at(words, i / per_word * stride) >> (i % per_word * bits) &
                              ((1u << bits) - 1));
}
inline int64_t whole_word_count(int64_t count, int bits) {
  return (count + 32 / bits - 1) / (32 / bits);
}

// Words that `count` codes of a stream take.
inline int64_t word_count(int64_t count, int bits) {
  return (count * bits + 31) / 32;
}

}  // namespace anabranch
