// A weight matrix [out, in] as stored in a file, read a few rows at a time; checkpoint/ passes it to ops/.
// Coded kinds divide each row into groups of `group` consecutive inputs, which share a scale (and a bias):
//
//   affine  w = scale * q + bias, unsigned codes q in [0, 2^bits). MLX's affine formats, AWQ, GPTQ, and
//           GGUF's Q types (Q4_0: scale d, bias -8d; Q6_K: group 16, bias -32 * scale; ...).
//   table   w = scale * table[q], 4-bit codes q and a table of 16 integers for the whole matrix. GGUF's IQ
//           types from 2 to 4 bits, MXFP4 and NVFP4 (a table of 0, 1, 2, 3, 4, 6, 8, 12 with both signs:
//           twice the E2M1 numbers).
//   fp8     w = scale * value(q), codes of 8 bits that are E4M3 numbers (e4m3_to_float in base/float8.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anabranch {

enum class WeightKind { affine, table, fp8, f32, f16, bf16 };
// Whether weights of this kind are codes with scales; otherwise they are plain values.
constexpr bool is_coded(WeightKind kind) {
  return kind == WeightKind::affine || kind == WeightKind::table || kind == WeightKind::fp8;
}
// e8m0 (a power of two) and e4m3 take one byte.
enum class ScaleType { f32, f16, bf16, e8m0, e4m3 };
using CodeTable = std::array<int8_t, 16>;

constexpr int kScaleBlock = 256;

// The output of read_block_scales: d and dmin [count, cols / kScaleBlock] as f16 bits; scales and mins
// [count, cols / group]. dmin and mins are not written if the weight is symmetric.
struct BlockScales {
  uint16_t *d, *dmin;
  int8_t* scales;
  uint8_t* mins;
};

// Reads a matrix, about 16 rows at a time, from wherever it is stored (a mapped file). Called from several
// threads at once; must be pure.
struct WeightSource {
  int64_t rows = 0, cols = 0;  // out features, in features
  WeightKind kind = WeightKind::f32;
  // Coded kinds only:
  int bits = 0;   // affine: 2 3 4 5 6 8; table: 4; fp8: 8
  int group = 0;  // affine: 16 32 64 128; table: 16 32; fp8: 32 64 128; divides cols
  // The narrowest type that holds the scales (divided by scale_factor) and biases exactly. e8m0 and e4m3 only
  // for table and fp8.
  ScaleType scale_type = ScaleType::f16;
  // A scale is a number of scale_type, or an integer times a factor (read_block_scales); it is multiplied by
  // scale_factor and rounded to fp32. 1 for affine.
  float scale_factor = 1;
  // bias == -zero_point * scale for every group: no biases are stored. True for table and fp8, with
  // zero_point 0.
  bool symmetric = false;
  int zero_point = 0;
  CodeTable table{};  // for kind table
  // Writes codes [count, cols], scales (scale_factor included) and biases [count, cols / group] (biases are
  // not written if symmetric).
  std::function<void(int64_t first_row, int64_t count, uint8_t* codes, float* scales, float* biases)>
      read_codes;
  // For K-quants and IQ types, in addition to read_codes: within blocks of kScaleBlock inputs every scale is
  // d * an integer * scale_factor and every bias -dmin * an integer (products rounded to fp32), which takes
  // less space than scale_type. Null otherwise.
  std::function<void(int64_t first_row, int64_t count, const BlockScales& out)> read_block_scales;
  // Writes values [count, cols], for the dense kinds.
  std::function<void(int64_t first_row, int64_t count, float* values)> read_dense;
  // Name of the tensor in its checkpoint; empty: it is not a checkpoint's tensor.
  std::string name = {};
};

// The values of a coded source's codes, before scale and bias; zero for codes with more bits than it has.
std::array<float, 256> code_values(const WeightSource& source);

// Decodes rows of a source to `values` [count, cols].
void read_values(const WeightSource& source, int64_t first_row, int64_t count, float* values);

// The source, decoded to kind f32.
WeightSource decoded(WeightSource source);

// The rows of a source in a new order: row i of the result is row rows[i] of `source`.
WeightSource select_rows(WeightSource source, std::vector<int64_t> rows);

// Columns [first, last) of a source; must be whole groups.
WeightSource select_columns(WeightSource source, int64_t first, int64_t last);

// Pads every block of `rows` rows of the source with zero rows to `padded` rows. rows divides source.rows.
WeightSource pad_blocks(WeightSource source, int64_t rows, int64_t padded);

}  // namespace anabranch
