#include "ops/reference/linear.h"

#include <mlx/ops.h>

#include "ops/metal/linear.h"
#include "ops/reference/device.h"
#include "ops/reference/elementwise.h"
#include "ops/reference/weight.h"

namespace anabranch::ops::reference {
namespace {

mx::array product(const mx::array& x, const ReferenceWeight& w, const metal::Launcher& launcher) {
  if (w.values) return mx::matmul(x, mx::transpose(*w.values));
  if (launcher && metal::has_linear(w)) return metal::linear(launcher, x, w);
  return mx::quantized_matmul(x, *w.codes, *w.scales, w.biases, true, w.group, w.bits);
}

}  // namespace

std::vector<Tensor> linear(const MatmulInput& input, std::span<const Weight* const> weights,
                           const RowNorm* norm) {
  ReferenceDevice& device = device_of(input.values);
  const auto x = as_mlx(norm ? rms_norm(input.values, norm->weight, norm->eps) : input.values);
  std::vector<Tensor> out;
  for (const Weight* weight : weights)
    out.push_back(from_mlx(device, product(x, stored(*weight), device.launcher())));
  return out;
}

Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual) {
  const Weight* one = &weight;
  return reference::add(residual,
                        reference::linear(x, std::span<const Weight* const>(&one, 1), nullptr).front());
}

MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation) {
  const Weight* both[] = {&gate, &up};
  const auto y = reference::linear(x, both, &norm);
  return reference::swiglu(y[0], y[1], activation);
}

Tensor embed(std::span<const int> ids, const Weight& table) {
  const ReferenceWeight& w = stored(table);
  if (w.values) return from_mlx(table.device(), copy_rows(*w.values, ids));
  return from_mlx(table.device(), mx::dequantize(copy_rows(*w.codes, ids), copy_rows(*w.scales, ids),
                                                 copy_rows(*w.biases, ids), w.group, w.bits));
}

}  // namespace anabranch::ops::reference
