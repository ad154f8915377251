#include "ops/reference/elementwise.h"

#include <mlx/ops.h>

#include "ops/reference/device.h"

namespace anabranch::ops::reference {

Tensor rms_norm(const Tensor& rows, const Tensor& w, float eps) {
  const mx::array x = as_mlx(rows);
  const auto mean = mx::mean(mx::square(x), -1, true);
  const auto scale = mx::rsqrt(mx::add(mean, mx::array(eps)));
  return from_mlx(rows.device(), mx::multiply(mx::multiply(x, scale), as_mlx(w)));
}

Tensor layer_norm(const Tensor& rows, const Tensor& w, const Tensor& b, float eps) {
  const mx::array x = as_mlx(rows), centred = mx::subtract(x, mx::mean(x, -1, true));
  const auto scale = mx::rsqrt(mx::add(mx::mean(mx::square(centred), -1, true), mx::array(eps)));
  return from_mlx(rows.device(), mx::add(mx::multiply(mx::multiply(centred, scale), as_mlx(w)), as_mlx(b)));
}

Tensor add(const Tensor& a, const Tensor& b) {
  return from_mlx(a.device(), mx::add(as_mlx(a), as_mlx(b)));
}

Tensor add_bias(const Tensor& x, const Tensor& b) {
  return add(x, b);  // MLX repeats b for each row
}

mx::array activated(const mx::array& x, Activation activation) {
  if (activation == Activation::silu) return mx::multiply(x, mx::sigmoid(x));
  const auto cubic = mx::add(x, mx::multiply(mx::array(0.044715f), mx::power(x, mx::array(3.0f))));
  const auto wide = mx::add(mx::tanh(mx::multiply(mx::array(0.7978845608f), cubic)), mx::array(1.0f));
  return mx::multiply(mx::multiply(mx::array(0.5f), x), wide);
}

Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation) {
  return from_mlx(gate.device(), mx::multiply(activated(as_mlx(gate), activation), as_mlx(up)));
}

mx::array clamped(const mx::array& gate, const mx::array& up, const ClampedGlu& how) {
  const mx::array most(how.limit), u = mx::clip(up, mx::array(-how.limit), most);
  if (how.silu_first) return mx::multiply(mx::minimum(activated(gate, Activation::silu), most), u);
  const mx::array g = mx::minimum(gate, most);
  return mx::multiply(mx::multiply(g, mx::sigmoid(mx::multiply(g, mx::array(how.alpha)))),
                      mx::add(u, mx::array(1.0f)));
}

Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how) {
  return from_mlx(gate.device(), clamped(as_mlx(gate), as_mlx(up), how));
}

Tensor gelu(const Tensor& x, Gelu kind) {
  const mx::array v = as_mlx(x);
  if (kind == Gelu::tanh) return from_mlx(x.device(), activated(v, Activation::gelu_tanh));
  const auto share = mx::add(mx::erf(mx::multiply(v, mx::array(0.70710678f))), mx::array(1.0f));
  return from_mlx(x.device(), mx::multiply(mx::multiply(mx::array(0.5f), v), share));
}

Tensor relu2(const Tensor& x) {
  return from_mlx(x.device(), mx::square(mx::maximum(as_mlx(x), mx::array(0.0f))));
}

Tensor xielu(const Tensor& x, const Xielu& p) {
  const mx::array v = as_mlx(x), linear = mx::multiply(mx::array(p.linear), v);
  const auto above = mx::add(mx::multiply(mx::array(p.positive), mx::square(v)), linear);
  const auto bent = mx::subtract(mx::expm1(mx::minimum(v, mx::array(p.near))), v);
  const auto below = mx::add(mx::multiply(mx::array(p.negative), bent), linear);
  return from_mlx(x.device(), mx::where(mx::greater(v, mx::array(0.0f)), above, below));
}

Tensor scale(const Tensor& x, float factor) {
  return from_mlx(x.device(), mx::multiply(as_mlx(x), mx::array(factor)));
}

Tensor soft_cap(const Tensor& x, float cap) {
  return from_mlx(x.device(), mx::multiply(mx::array(cap), mx::tanh(mx::divide(as_mlx(x), mx::array(cap)))));
}

Tensor sigmoid_gate(const Tensor& x, const Tensor& gate) {
  return from_mlx(x.device(), mx::multiply(as_mlx(x), mx::sigmoid(as_mlx(gate))));
}

Tensor take_rows(const Tensor& x, std::span<const int> rows) {
  return from_mlx(x.device(), copy_rows(as_mlx(x), rows));
}

Tensor concat_rows(const std::vector<Tensor>& parts) {
  Device& device = parts.front().device();
  if (parts.size() == 1) {  // MLX would return the same array, not a copy
    const mx::array x = as_mlx(parts.front());
    return from_mlx(device, copy_rows(x, 0, x.shape(0)));
  }
  std::vector<mx::array> arrays;
  for (const Tensor& part : parts) arrays.push_back(as_mlx(part));
  return from_mlx(device, mx::concatenate(arrays, 0));
}

Tensor rope(const Tensor& rows, std::span<const int> positions, const Rope& rope, bool queries) {
  const mx::array x = as_mlx(rows);
  const int m = x.shape(0), d = static_cast<int>(rope.inv_freq.size());
  const size_t each = static_cast<size_t>(positions_of_row("rope", rope, positions, m));
  mx::array cosines = make_array({m, 1, d}, mx::float32), sines = make_array({m, 1, d}, mx::float32);
  for (int i = 0; i < m; i++)
    rope_angles(rope, positions.subspan(static_cast<size_t>(i) * each, each), queries,
                cosines.data<float>() + i * d, sines.data<float>() + i * d);
  const auto part = [&](int begin, int end) {
    return mx::slice(x, {0, 0, begin}, {x.shape(0), x.shape(1), end});
  };
  const auto x1 = part(0, d), x2 = part(d, 2 * d);
  const auto y1 = mx::subtract(mx::multiply(x1, cosines), mx::multiply(x2, sines));
  const auto y2 = mx::add(mx::multiply(x2, cosines), mx::multiply(x1, sines));
  return from_mlx(rows.device(), mx::concatenate({y1, y2, part(2 * d, x.shape(2))}, 2));
}

}  // namespace anabranch::ops::reference
