// A weight matrix [out, in] as a file holds it, readable a few rows at a time: what checkpoint/ hands to
// ops/.
//
// Affine quantisation: each row is cut into groups of `group` consecutive inputs; w = scale * q + bias with
// unsigned codes q in [0, 2^bits). This covers MLX's affine formats and, re-expressed, every GGUF type we
// load (Q4_0: scale d, bias -8d; Q6_K: group 16, bias -32 * scale; ...).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anabranch {

enum class WeightKind { affine, f32, f16, bf16 };
enum class ScaleType { f32, f16, bf16 };

constexpr int kScaleBlock = 256;

// d and dmin [count, cols / kScaleBlock] as f16 bits; scales and mins [count, cols / group]. dmin and mins
// are left alone when the weight is symmetric.
struct BlockScales {
  uint16_t *d, *dmin;
  int8_t* scales;
  uint8_t* mins;
};

// How to read a matrix, 16 rows at a time or so, from wherever it lies (a mapped file). Called from several
// threads at once; must be pure.
struct WeightSource {
  int64_t rows = 0, cols = 0;  // out features, in features
  WeightKind kind = WeightKind::f32;
  // affine only:
  int bits = 0;                           // 2 3 4 5 6 8
  int group = 0;                          // 16 32 64 128; divides cols
  ScaleType scale_type = ScaleType::f16;  // the narrowest type that holds the scales and biases exactly
  bool symmetric = false;                 // bias == -zero_point * scale for every group: no biases are stored
  int zero_point = 0;
  // codes [count, cols], scales and biases [count, cols / group] (biases untouched when symmetric).
  std::function<void(int64_t first_row, int64_t count, uint8_t* codes, float* scales, float* biases)>
      read_codes;
  // K-quants, beside read_codes: within blocks of kScaleBlock inputs every scale is d * an integer and every
  // bias -dmin * an integer (products rounded to fp32), which take less room than scale_type does. Null
  // otherwise.
  std::function<void(int64_t first_row, int64_t count, const BlockScales& out)> read_block_scales;
  // values [count, cols], for the dense kinds.
  std::function<void(int64_t first_row, int64_t count, float* values)> read_dense;
  // Of the tensor in its checkpoint; empty: it is of none.
  std::string name = {};
};

// Rows of another source in a new order: row i of the result is row rows[i] of `source`.
WeightSource select_rows(WeightSource source, std::vector<int64_t> rows);

// Columns [first, last) of another source; whole groups.
WeightSource select_columns(WeightSource source, int64_t first, int64_t last);

// Every block of `rows` rows of the source becomes one of `padded` rows: zeros follow. rows divides
// source.rows.
WeightSource pad_blocks(WeightSource source, int64_t rows, int64_t padded);

}  // namespace anabranch
