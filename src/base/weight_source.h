// A weight matrix [out, in] as a file holds it, readable a few rows at a time: what checkpoint/ hands to
// ops/. Coded kinds cut each row into groups of `group` consecutive inputs, which share a scale (and a bias):
//
//   affine  w = scale * q + bias, unsigned codes q in [0, 2^bits). MLX's affine formats, AWQ, GPTQ, and
//   GGUF's
//           Q types (Q4_0: scale d, bias -8d; Q6_K: group 16, bias -32 * scale; ...).
//   table   w = scale * table[q], 4-bit codes q and a table of 16 integers for the whole matrix. GGUF's IQ
//   types
//           from 2 to 4 bits, MXFP4 and NVFP4 (a table of 0, 1, 2, 3, 4, 6, 8, 12 with both signs, twice
//           E2M1).
//   fp8     w = scale * value(q), codes of 8 bits that are E4M3 numbers (e4m3_to_float in base/float8.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anabranch {

enum class WeightKind { affine, table, fp8, f32, f16, bf16 };
// Whether weights of this kind are codes with scales; the others are plain values.
constexpr bool is_coded(WeightKind kind) {
  return kind == WeightKind::affine || kind == WeightKind::table || kind == WeightKind::fp8;
}
// e8m0 (a power of two) and e4m3 take one byte.
enum class ScaleType { f32, f16, bf16, e8m0, e4m3 };
using CodeTable = std::array<int8_t, 16>;

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
  // Coded kinds only:
  int bits = 0;   // affine: 2 3 4 5 6 8; table: 4; fp8: 8
  int group = 0;  // affine: 16 32 64 128; table: 16 32; fp8: 32 64 128; divides cols
  // The narrowest type that holds the scales (divided by scale_factor) and biases exactly. e8m0 and e4m3 are
  // of table and fp8 only.
  ScaleType scale_type = ScaleType::f16;
  // A scale is a number of scale_type, or an integer times a factor (read_block_scales), times this, rounded
  // to fp32. 1 for affine.
  float scale_factor = 1;
  // bias == -zero_point * scale for every group: no biases are stored. True for table and fp8, with 0.
  bool symmetric = false;
  int zero_point = 0;
  CodeTable table{};  // of kind table
  // codes [count, cols], scales (scale_factor included) and biases [count, cols / group] (biases untouched
  // when symmetric).
  std::function<void(int64_t first_row, int64_t count, uint8_t* codes, float* scales, float* biases)>
      read_codes;
  // K-quants and IQ types, beside read_codes: within blocks of kScaleBlock inputs every scale is
  // d * an integer * scale_factor and every bias -dmin * an integer (products rounded to fp32), which take
  // less room than scale_type does. Null otherwise.
  std::function<void(int64_t first_row, int64_t count, const BlockScales& out)> read_block_scales;
  // values [count, cols], for the dense kinds.
  std::function<void(int64_t first_row, int64_t count, float* values)> read_dense;
  // Of the tensor in its checkpoint; empty: it is of none.
  std::string name = {};
};

// The values that codes of a coded source stand for, before scale and bias; zero beyond its bits.
std::array<float, 256> code_values(const WeightSource& source);

// All values of a source, [count, cols] in `values`.
void read_values(const WeightSource& source, int64_t first_row, int64_t count, float* values);

// The values of a source as one of kind f32.
WeightSource decoded(WeightSource source);

// Rows of another source in a new order: row i of the result is row rows[i] of `source`.
WeightSource select_rows(WeightSource source, std::vector<int64_t> rows);

// Columns [first, last) of another source; whole groups.
WeightSource select_columns(WeightSource source, int64_t first, int64_t last);

// Every block of `rows` rows of the source becomes one of `padded` rows: zeros follow. rows divides
// source.rows.
WeightSource pad_blocks(WeightSource source, int64_t rows, int64_t padded);

}  // namespace anabranch
