// Products that linear() is compared with, and the shapes that are tried.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/linear.h"
#include "ops/matrices.h"
#include "ops/table.h"
#include "ops/testing.h"

namespace anabranch::ops {

constexpr int kMaxRows = 64;
constexpr int kRowCounts[] = {1, 2, 3, 5, 7, 8, 9, 11, 17, kMaxRows};  // tiles of every height, few and many
constexpr int kOutputs[] = {1, 9, 16, 17, 100};
constexpr int kInputs[] = {32, 48, 64, 96, 128, 1152};  // the last: more than is unpacked at a time

// The int8 product by the formula in ops/cpu/kernels_linear.h, one element at a time.
class Int8Product {
 public:
  Int8Product(const float* x, int cols, int group) : x_(x), cols_(cols), group_(group) {}

  // All outputs of the row.
  void run(const Matrix& m, float* y) {
    round_inputs();
    for (int n = 0; n < m.rows; n++) {
      float acc = 0;
      for (int g = 0; g < m.groups(); g++) {
        int32_t sum = 0;
        for (int k = g * group_; k < (g + 1) * group_; k++)
          sum += static_cast<int32_t>(m.code_value(n, k)) * q_[static_cast<size_t>(k)];
        const auto at = static_cast<size_t>(g);
        const float w_scale = m.scales[static_cast<size_t>(n * m.groups() + g)];
        const float w_bias = m.biases[static_cast<size_t>(n * m.groups() + g)];
        acc = std::fma(static_cast<float>(sum), w_scale * scale_[at], acc);
        if (m.kind == WeightKind::affine) acc = std::fma(w_bias, sum_[at], acc);
      }
      y[n] = acc;
    }
  }

 private:
  // Codes, and the scale and the sum of every weight group.
  void round_inputs() {
    const int x_group = std::max(group_, 32);
    for (int k0 = 0; k0 < cols_; k0 += x_group) {
      const int end = std::min(cols_, k0 + x_group);
      float most = 0;
      for (int k = k0; k < end; k++) most = std::max(most, std::fabs(x_[k]));
      const bool tiny = !(most > 1e-30f);
      const float scale = tiny ? 0.0f : most / 127.0f, inverse = tiny ? 0.0f : 127.0f / most;
      for (int k = k0; k < end; k += group_) {
        int32_t sum = 0;
        for (int j = k; j < k + group_; j++) {
          q_.push_back(static_cast<int>(std::nearbyint(x_[j] * inverse)));
          sum += q_.back();
        }
        scale_.push_back(scale);
        sum_.push_back(scale * static_cast<float>(sum));
      }
    }
  }

  const float* x_;
  int cols_, group_;
  std::vector<int> q_;
  std::vector<float> scale_, sum_;
};

inline std::vector<float> int8_product(const std::vector<float>& x, int rows, const Matrix& m) {
  std::vector<float> y(static_cast<size_t>(rows * m.rows));
  for (int r = 0; r < rows; r++)
    Int8Product(x.data() + r * m.cols, m.cols, m.group).run(m, y.data() + r * m.rows);
  return y;
}

// The first `rows` rows of x on the device.
inline Tensor first_rows(Device& device, const std::vector<float>& x, int rows, int64_t cols) {
  return device.to_device(
      to_tensor(std::vector<float>(x.begin(), x.begin() + rows * cols), {rows, static_cast<int>(cols)}));
}

// Their product, on the device of the weight.
inline std::vector<float> product(const std::vector<float>& x, int rows, const Weight& w) {
  return to_vector(linear(first_rows(w.device(), x, rows, w.in_features()), w));
}

// Inputs as layers see them: some rows large, some tiny, some groups zero.
inline std::vector<float> inputs(int rows, int cols, uint64_t seed) {
  Random random(seed);
  std::vector<float> x = random.vector(rows * cols);
  for (int r = 0; r < rows; r++) {
    const float scale = std::ldexp(1.0f, random.below(12) - 6);
    for (int k = 0; k < cols; k++) x[static_cast<size_t>(r * cols + k)] *= scale;
  }
  if (rows > 2) std::fill_n(x.begin() + 2 * cols, std::min(cols, 32), 0.0f);
  return x;
}

// For each number of rows, every row is the same as in the product of all rows.
inline void expect_prefixes(const std::vector<float>& x, const Weight& w, const std::vector<float>& all) {
  for (const int rows : kRowCounts) {
    const std::vector<float> y = product(x, rows, w);
    ASSERT_TRUE(bits_agree(y.data(), all.data(), y.size()))
        << rows << " rows, " << w.device().ops().kernels_name(w.device());
  }
}

}  // namespace anabranch::ops
