#include "ops/elementwise.h"

#include <mlx/ops.h>

#include <cmath>

#include "ops/reference/reference.h"

namespace anabranch::ops::reference {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  const mx::array mean = mx::mean(mx::square(x), 1, /*keepdims=*/true);
  return x * mx::rsqrt(mean + mx::array(eps)) * w;
}

mx::array add(const mx::array& a, const mx::array& b) {
  return mx::add(a, b);
}
mx::array add_bias(const mx::array& x, const mx::array& b) {
  return mx::add(x, b);
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return gate * mx::sigmoid(gate) * up;
}
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  return x * mx::sigmoid(gate);
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  return mx::take(x, mx::array(rows.data(), {static_cast<int>(rows.size())}, mx::int32), 0);
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  const int rows = x.shape(0), heads = x.shape(1), dim = x.shape(2), d = static_cast<int>(inv_freq.size());
  std::vector<float> cosines, sines;
  for (const int position : positions) {
    for (const float frequency : inv_freq) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequency);
      cosines.push_back(static_cast<float>(std::cos(angle) * attention_factor));
      sines.push_back(static_cast<float>(std::sin(angle) * attention_factor));
    }
  }
  const mx::array c(cosines.data(), {rows, 1, d}, mx::float32), s(sines.data(), {rows, 1, d}, mx::float32);
  const mx::array x1 = mx::slice(x, {0, 0, 0}, {rows, heads, d});
  const mx::array x2 = mx::slice(x, {0, 0, d}, {rows, heads, 2 * d});
  const mx::array rest = mx::slice(x, {0, 0, 2 * d}, {rows, heads, dim});
  return mx::concatenate({x1 * c - x2 * s, x2 * c + x1 * s, rest}, 2);
}

}  // namespace anabranch::ops::reference
