// Writes a matrix, or each expert of a stack, as E4M3 codes "<name>" with a scale for each block of
// kFp8Block x kFp8Block weights in "<name>_scale_inv" (F32 [rows / 128, cols / 128], rounded up): a weight is
// code * scale.
#pragma once

#include <vector>

#include "checkpoint/tensor_conversion.h"

namespace anabranch {

constexpr int64_t kFp8Block = 128;

std::vector<Piece> fp8_pieces(const TensorConversion& job);

// A block's largest weight becomes 448, the largest number of E4M3; the others are rounded to the nearest.
// Adds to `stats`. Errors: invalid (values that are not finite), io.
Result<void> write_fp8(const TensorConversion& job, Checkpoint& source, ShardWriter& writer,
                       QuantizeStats& stats);

}  // namespace anabranch
