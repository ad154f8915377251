#include "ops/reference/elementwise.h"

#include <mlx/ops.h>

#include <cmath>

namespace anabranch::ops::reference {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  const auto mean = mx::mean(mx::square(x), -1, true);
  return mx::multiply(mx::multiply(x, mx::rsqrt(mx::add(mean, mx::array(eps)))), w);
}

mx::array add(const mx::array& a, const mx::array& b) {
  return mx::add(a, b);
}

mx::array add_bias(const mx::array& x, const mx::array& b) {
  return mx::add(x, b);
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return mx::multiply(mx::multiply(gate, mx::sigmoid(gate)), up);
}

mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  return mx::multiply(x, mx::sigmoid(gate));
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  return mx::take(x, mx::array(rows.data(), {static_cast<int>(rows.size())}, mx::int32), 0);
}

mx::array reshape(const mx::array& x, mx::Shape shape) {
  return mx::reshape(x, std::move(shape));
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  mx::Shape start(x.ndim(), 0), stop = x.shape();
  start[0] = begin;
  stop[0] = end;
  return mx::slice(x, start, stop);
}

mx::array concat_rows(const std::vector<mx::array>& parts) {
  return mx::concatenate(parts, 0);
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  const int m = static_cast<int>(positions.size()), d = static_cast<int>(inv_freq.size()),
            head_dim = x.shape(2);
  mx::array cosines = empty({m, 1, d}, mx::float32), sines = empty({m, 1, d}, mx::float32);
  float *c = cosines.data<float>(), *s = sines.data<float>();
  for (int position : positions) {
    for (float frequency : inv_freq) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequency);
      *c++ = static_cast<float>(std::cos(angle)) * attention_factor;
      *s++ = static_cast<float>(std::sin(angle)) * attention_factor;
    }
  }
  const mx::Shape all = x.shape();
  const auto part = [&](int begin, int end) { return mx::slice(x, {0, 0, begin}, {all[0], all[1], end}); };
  const auto x1 = part(0, d), x2 = part(d, 2 * d);
  const auto y1 = mx::subtract(mx::multiply(x1, cosines), mx::multiply(x2, sines));
  const auto y2 = mx::add(mx::multiply(x2, cosines), mx::multiply(x1, sines));
  return mx::concatenate({y1, y2, part(2 * d, head_dim)}, 2);
}

}  // namespace anabranch::ops::reference
