// A weight in the panel layout: PackedMatrix and the memory it points into.
//
// 16 consecutive rows form a panel, so one vector lane is one output row: there are no horizontal sums, and
// the result is the same at any vector width. A panel of a coded weight is a sequence of records, which are
// each read once, front to back: the codes of a group of inputs (of 32 inputs when the group is 16; of
// kScaleBlock inputs for block scales), then their scales [groups][16], then biases, unless symmetric. Block
// scales store f16 factors d [16] (and dmin [16]) before int8 scales (and uint8 mins).
// Affine and table codes are stored in blocks of 32 inputs (8 quads of 4): the code of row r, input k is at
// byte r * 4 + k % 4 of a 64-byte vector, and bit planes hold the quads:
//   4-bit plane: 4 vectors, quads 2i (low nibble) and 2i+1 (high nibble);   2-bit plane: 2 vectors of 4
//   quads; 1-bit plane: 1 vector of 8 quads;   8-bit plane: 8 vectors.
// bits 2 = {2}, 3 = {2,1}, 4 = {4}, 5 = {4,1}, 6 = {4,2}, 8 = {8}. E4M3 codes are [inputs][16], dense
// f32/f16/bf16 panels [k][16].
// Rows are padded to a multiple of 16, inputs to a multiple of 32 or the record.
#pragma once

#include <memory>

#include "ops/cpu/device.h"
#include "ops/weight.h"

namespace anabranch::ops::cpu {

struct PackedWeight : Weight::Storage {
  PackedMatrix matrix;
  std::shared_ptr<void> memory;  // 2 MiB aligned when large, huge pages asked for
};

std::shared_ptr<const PackedWeight> pack(CpuDevice& device, const WeightSource& source);

inline const PackedMatrix& packed(const Weight& w) {
  return static_cast<const PackedWeight&>(w.storage()).matrix;
}

}  // namespace anabranch::ops::cpu
