// MLX's affine quantisation as stored in files: codes packed as a little-endian bit stream per row (u32
// words), one scale and one bias per `group` consecutive inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/weight_source.h"

namespace anabranch {

bool affine_bits_ok(int64_t bits);    // 2 3 4 5 6 8
bool affine_group_ok(int64_t group);  // 32 64 128 (16 too: GGUF's K-quants have it)

// `count` codes (a multiple of 8) from count * bits / 8 bytes, and back.
void unpack_codes(int bits, const std::byte* packed, int64_t count, uint8_t* codes);
void pack_codes(int bits, const uint8_t* codes, int64_t count, std::byte* packed);

struct AffineTensor {
  int64_t rows = 0, cols = 0;
  int bits = 0, group = 0;
  WeightKind scale_kind = WeightKind::bf16;  // of scales and biases: f32, f16 or bf16
  const std::byte* codes = nullptr;          // [rows, cols * bits / 8] bytes
  const std::byte* scales = nullptr;         // [rows, cols / group]
  const std::byte* biases = nullptr;
};
WeightSource affine_source(const AffineTensor& tensor, std::shared_ptr<const void> keep);

}  // namespace anabranch
