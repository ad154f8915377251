// Weight matrices made of random codes or values, and the values that these stand for.
#pragma once

#include "base/float8.h"
#include "ops/linear.h"
#include "ops/testing.h"

namespace anabranch::ops {

struct Matrix {
  int rows = 0, cols = 0;
  WeightKind kind = WeightKind::f32;
  int bits = 0, group = 0, zero_point = 0;
  ScaleType scale_type = ScaleType::f32;
  bool symmetric = false;
  float scale_factor = 1;
  CodeTable table{};
  std::vector<uint8_t> codes;         // [rows, cols]
  std::vector<float> scales, biases;  // [rows, cols / group]; biases also when symmetric
  std::vector<float> values;          // dense kinds
  // K-quants: the factors of scales and biases.
  std::vector<uint16_t> d, dmin;  // f16, [rows, cols / kScaleBlock]
  std::vector<int8_t> integers;   // [rows, cols / group]
  std::vector<uint8_t> mins;

  int groups() const { return cols / group; }
  // What a code stands for.
  double code_value(int row, int k) const {
    const uint8_t code = codes[static_cast<size_t>(row * cols + k)];
    return kind == WeightKind::table ? table[code] : kind == WeightKind::fp8 ? e4m3_to_float(code) : code;
  }
  double value(int row, int k) const {
    if (!is_coded(kind)) return values[static_cast<size_t>(row * cols + k)];
    const auto g = static_cast<size_t>(row * groups() + k / group);
    return static_cast<double>(scales[g]) * code_value(row, k) + biases[g];
  }
  // The product with input k is rounded relative to this: scale * code and bias may cancel.
  double magnitude(int row, int k) const {
    if (!is_coded(kind)) return std::fabs(value(row, k));
    const auto g = static_cast<size_t>(row * groups() + k / group);
    return std::fabs(scales[g] * code_value(row, k)) + std::fabs(biases[g]);
  }

  WeightSource source() const {
    WeightSource s;
    s.rows = rows;
    s.cols = cols;
    s.kind = kind;
    s.bits = bits;
    s.group = group;
    s.scale_type = scale_type;
    s.symmetric = symmetric;
    s.zero_point = zero_point;
    s.scale_factor = scale_factor;
    s.table = table;
    s.read_codes = [this](int64_t first, int64_t count, uint8_t* to, float* to_scales, float* to_biases) {
      std::copy_n(codes.begin() + first * cols, count * cols, to);
      std::copy_n(scales.begin() + first * groups(), count * groups(), to_scales);
      if (!symmetric) std::copy_n(biases.begin() + first * groups(), count * groups(), to_biases);
    };
    if (!d.empty())
      s.read_block_scales = [this](int64_t first, int64_t count, const BlockScales& to) {
        const int64_t blocks = cols / kScaleBlock;
        std::copy_n(d.begin() + first * blocks, count * blocks, to.d);
        std::copy_n(integers.begin() + first * groups(), count * groups(), to.scales);
        if (symmetric) return;
        std::copy_n(dmin.begin() + first * blocks, count * blocks, to.dmin);
        std::copy_n(mins.begin() + first * groups(), count * groups(), to.mins);
      };
    s.read_dense = [this](int64_t first, int64_t count, float* to) {
      std::copy_n(values.begin() + first * cols, count * cols, to);
    };
    return s;
  }
};

// A number that the type holds exactly, of magnitude about `size`.
inline float exact(Random& random, ScaleType type, float size) {
  if (type == ScaleType::f32) return random.uniform() * size;
  if (type == ScaleType::e8m0) return size * static_cast<float>(1 << random.below(4)) / 8;
  if (type == ScaleType::e4m3) return e4m3_to_float(static_cast<uint8_t>(random.below(0x7F)));
  const int digits = type == ScaleType::f16 ? 11 : 8;
  const int limit = 1 << digits;
  return static_cast<float>(random.below(2 * limit) - limit) * (size / static_cast<float>(limit));
}

inline Matrix affine_matrix(int rows, int cols, int bits, int group, ScaleType type, bool symmetric,
                            uint64_t seed) {
  Random random(seed);
  Matrix m;
  m.rows = rows;
  m.cols = cols;
  m.kind = WeightKind::affine;
  m.bits = bits;
  m.group = group;
  m.scale_type = type;
  m.symmetric = symmetric;
  m.zero_point = symmetric ? 1 << (bits - 1) : 0;
  for (int i = 0; i < rows * cols; i++) m.codes.push_back(static_cast<uint8_t>(random.below(1 << bits)));
  for (int i = 0; i < rows * m.groups(); i++) {
    m.scales.push_back(exact(random, type, 0x1p-5f));
    m.biases.push_back(symmetric ? -static_cast<float>(m.zero_point) * m.scales.back()
                                 : exact(random, type, 0.5f));
  }
  return m;
}

constexpr CodeTable kIq4Table = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr CodeTable kIq3Table = {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
constexpr CodeTable kFp4Table = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// Of no format.
constexpr CodeTable kUnknownTable = {-128, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 127};

// Codes that are looked up, or E4M3 numbers (all but NaN).
inline Matrix coded_matrix(int rows, int cols, WeightKind kind, int group, ScaleType type, uint64_t seed,
                           const CodeTable& table = kIq4Table) {
  Random random(seed);
  Matrix m;
  m.rows = rows;
  m.cols = cols;
  m.kind = kind;
  m.bits = kind == WeightKind::fp8 ? 8 : 4;
  m.group = group;
  m.scale_type = type;
  m.scale_factor = type == ScaleType::e4m3 ? 0.0007f : 1.0f;
  m.symmetric = true;
  m.table = table;
  for (int i = 0; i < rows * cols; i++) {
    const auto code = static_cast<uint8_t>(random.below(1 << m.bits));
    m.codes.push_back(kind == WeightKind::fp8 && (code & 0x7F) == 0x7F ? 0 : code);
  }
  for (int i = 0; i < rows * m.groups(); i++)
    m.scales.push_back(exact(random, type, 0x1p-5f) * m.scale_factor);
  m.biases.assign(m.scales.size(), -0.0f);  // changes nothing
  return m;
}

// Scales made of an f16 factor for 256 inputs and an integer for each group, as in a K-quant.
inline Matrix block_matrix(int rows, int cols, int bits, int group, bool symmetric, uint64_t seed) {
  Matrix m = affine_matrix(rows, cols, bits, group, ScaleType::f32, symmetric, seed);
  Random random(seed + 1);
  const uint16_t factors[] = {0x2400, 0x1A55, 0x0801};  // 2^-6, 0.0030918, 2^-13 and a bit
  const float values[] = {0x1p-6f, 0x1.954p-9f, 0x1.004p-13f};
  m.scales.clear();
  m.biases.clear();
  for (int i = 0; i < rows * (cols / kScaleBlock); i++) {
    const int d = random.below(3), dmin = random.below(3);
    m.d.push_back(factors[d]);
    m.dmin.push_back(factors[dmin]);
    for (int g = 0; g < kScaleBlock / group; g++) {
      const int scale = symmetric ? random.below(256) - 128 : random.below(64), min = random.below(64);
      m.integers.push_back(static_cast<int8_t>(scale));
      m.mins.push_back(static_cast<uint8_t>(min));
      m.scales.push_back(values[d] * static_cast<float>(scale));
      m.biases.push_back(symmetric ? -static_cast<float>(m.zero_point) * m.scales.back()
                                   : -(values[dmin] * static_cast<float>(min)));
    }
  }
  return m;
}

// Table codes with such scales, as in IQ4_XS.
inline Matrix block_table_matrix(int rows, int cols, int group, float scale_factor, uint64_t seed,
                                 const CodeTable& table = kIq4Table) {
  Matrix m = coded_matrix(rows, cols, WeightKind::table, group, ScaleType::f32, seed, table);
  const Matrix scales = block_matrix(rows, cols, 4, group, true, seed);
  m.d = scales.d;
  m.dmin = scales.dmin;
  m.integers = scales.integers;
  m.scale_factor = scale_factor;
  for (size_t i = 0; i < m.scales.size(); i++) m.scales[i] = scales.scales[i] * scale_factor;
  return m;
}

inline Matrix dense_matrix(int rows, int cols, WeightKind kind, uint64_t seed) {
  Random random(seed);
  Matrix m;
  m.rows = rows;
  m.cols = cols;
  m.kind = kind;
  const ScaleType type = kind == WeightKind::f32   ? ScaleType::f32
                         : kind == WeightKind::f16 ? ScaleType::f16
                                                   : ScaleType::bf16;
  for (int i = 0; i < rows * cols; i++) m.values.push_back(exact(random, type, 1.0f));
  return m;
}

// x W^T in double, and the largest error that fp32 sums of any order can make.
struct Product {
  std::vector<double> y, tolerance;
};
inline Product exact_product(const std::vector<float>& x, int rows, const Matrix& m) {
  Product p;
  std::vector<double> w(static_cast<size_t>(m.cols)), size(w.size());
  p.y.resize(static_cast<size_t>(rows * m.rows));
  p.tolerance.resize(p.y.size());
  for (int n = 0; n < m.rows; n++) {
    for (int k = 0; k < m.cols; k++) {
      w[static_cast<size_t>(k)] = m.value(n, k);
      size[static_cast<size_t>(k)] = m.magnitude(n, k);
    }
    for (int r = 0; r < rows; r++) {
      double y = 0, bound = 0;
      for (size_t k = 0; k < w.size(); k++) {
        const double v = x[static_cast<size_t>(r * m.cols) + k];
        y += v * w[k];
        bound += std::fabs(v) * size[k];
      }
      const auto i = static_cast<size_t>(r * m.rows + n);
      p.y[i] = y;
      p.tolerance[i] = (m.cols + 8) * kUlp * bound;
    }
  }
  return p;
}

// Columns [first, first + count) of x, which is on the host.
inline Tensor columns_of(const Tensor& x, int first, int count) {
  std::vector<float> out;
  for (int r = 0; r < x.shape(0); r++)
    for (int i = first; i < first + count; i++) out.push_back(x.data<float>()[r * x.shape(1) + i]);
  return to_tensor(out, {x.shape(0), count});
}

// The rows of one of the experts that lie below one another.
inline Matrix part_of(const Matrix& all, int expert, int rows) {
  Matrix part = all;
  part.rows = rows;
  const auto cut = [&](auto& values, int per_row) {
    using Values = std::remove_reference_t<decltype(values)>;
    if (!values.empty())
      values =
          Values(values.begin() + expert * rows * per_row, values.begin() + (expert + 1) * rows * per_row);
  };
  cut(part.codes, all.cols);
  cut(part.values, all.cols);
  if (!is_coded(all.kind)) return part;
  cut(part.scales, all.groups());
  cut(part.biases, all.groups());
  return part;
}

}  // namespace anabranch::ops
