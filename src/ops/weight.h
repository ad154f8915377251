// A weight matrix [out, in] in the layout its backend streams (base/weight_source.h says where it comes
// from).
//
// CPU layout ("panels"): 16 consecutive rows form a panel, so one vector lane is one output row: no
// horizontal sums, and the same result at any vector width. A panel of an affine weight is a row of records,
// each one piece of memory that is read once, front to back: the codes of a group of inputs (of 32 inputs
// when the group is 16; of kScaleBlock inputs for K-quants), then their scales [groups][16], then biases,
// unless symmetric. K-quants keep f16 factors d [16] (and dmin [16]) before int8 scales (and uint8 mins).
// Codes run in blocks of 32 inputs (8 quads of 4): the code of row r, input k lies at byte r * 4 + k % 4 of a
// 64-byte vector, and bit planes hold the quads:
//   4-bit plane: 4 vectors, quads 2i (low nibble) and 2i+1 (high nibble);   2-bit plane: 2 vectors of 4
//   quads; 1-bit plane: 1 vector of 8 quads;   8-bit plane: 8 vectors.
// bits 2 = {2}, 3 = {2,1}, 4 = {4}, 5 = {4,1}, 6 = {4,2}, 8 = {8}. Dense f32/f16/bf16 panels are [k][16].
// Rows are padded to a multiple of 16, inputs to a multiple of 32 or the record.
#pragma once

#include <cstdint>
#include <memory>

#include "base/weight_source.h"
#include "ops/backend.h"

namespace anabranch::ops {

class Weight {
 public:
  // Reads every row once and packs it for the current backend, on all threads. Aborts on a source that breaks
  // the rules above; sources are checked where files are read.
  static Weight make(const WeightSource& source);

  int64_t out_features() const { return rows_; }
  int64_t in_features() const { return cols_; }
  WeightKind kind() const { return kind_; }
  int bits() const { return bits_; }
  int group() const { return group_; }
  // Bytes that one pass over the whole matrix reads.
  uint64_t bytes() const { return bytes_; }

  // Backend-private storage (ops/cpu/packed.h or ops/reference/weight.h knows what is inside).
  struct Storage {
    virtual ~Storage() = default;
  };
  const Storage& storage() const { return *storage_; }

 private:
  int64_t rows_ = 0, cols_ = 0;
  WeightKind kind_ = WeightKind::f32;
  int bits_ = 0, group_ = 0;
  uint64_t bytes_ = 0;
  std::shared_ptr<const Storage> storage_;
};

}  // namespace anabranch::ops
