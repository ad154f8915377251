// A weight matrix [out, in] in the layout its backend streams, and where it comes from.
//
// Affine quantisation: each row is cut into groups of `group` consecutive inputs; w = scale * q + bias with
// unsigned codes q in [0, 2^bits). This covers MLX's affine formats and, re-expressed, every GGUF type we load
// (Q4_0: scale d, bias -8d; Q6_K: group 16, bias -32 * scale; ...).
//
// CPU layout ("panels"): 16 consecutive rows form a panel; within it, inputs run in blocks of 32 (8 quads of 4).
// The code of row r, input k lies at byte r * 4 + k % 4 of each 64-byte vector; bit planes hold the quads:
//   4-bit plane: 4 vectors, quads 2i (low nibble) and 2i+1 (high nibble);   2-bit plane: 2 vectors of 4 quads;
//   1-bit plane: 1 vector of 8 quads;   8-bit plane: 8 vectors.
// bits 2 = {2}, 3 = {2,1}, 4 = {4}, 5 = {4,1}, 6 = {4,2}, 8 = {8}. Scales and biases are [group][16] per panel.
// Dense f32/f16/bf16 panels are [k][16]. Rows are padded to a multiple of 16, inputs to a multiple of 32.
// So one vector lane is one output row: no horizontal sums, and the same result at any vector width.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/backend.h"

namespace anabranch::ops {

enum class WeightKind { affine, f32, f16, bf16 };
enum class ScaleType { f32, f16, bf16 };

// How to read a matrix, 16 rows at a time or so, from wherever it lies (a mapped file). Called from several
// threads at once; must be pure.
struct WeightSource {
  int64_t rows = 0, cols = 0;  // out features, in features
  WeightKind kind = WeightKind::f32;
  // affine only:
  int bits = 0;           // 2 3 4 5 6 8
  int group = 0;          // 16 32 64 128; divides cols
  ScaleType scale_type = ScaleType::f16;  // the narrowest type that holds the scales and biases exactly
  bool symmetric = false;                 // bias == -zero_point * scale for every group: no biases are stored
  int zero_point = 0;
  // codes [count, cols], scales and biases [count, cols / group] (biases untouched when symmetric).
  std::function<void(int64_t first_row, int64_t count, uint8_t* codes, float* scales, float* biases)> read_affine;
  // values [count, cols], for the dense kinds.
  std::function<void(int64_t first_row, int64_t count, float* values)> read_dense;
};

// Rows of another source in a new order: row i of the result is row rows[i] of `source`.
WeightSource select_rows(WeightSource source, std::vector<int64_t> rows);

class Weight {
 public:
  // Reads every row once and packs it for the current backend, on all threads. Aborts on a source that breaks the
  // rules above; sources are checked where files are read.
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
