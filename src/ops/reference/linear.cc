#include "ops/reference/linear.h"

#include <mlx/ops.h>

#include "ops/metal/kernel.h"
#include "ops/metal/linear.h"
#include "ops/reference/elementwise.h"
#include "ops/reference/weight.h"

namespace anabranch::ops::reference {
namespace {

mx::array product(const mx::array& x, const ReferenceWeight& w) {
  if (w.values) return mx::matmul(x, mx::transpose(*w.values));
  if (metal::in_use())
    if (auto y = metal::linear(x, w)) return *y;
  return mx::quantized_matmul(x, *w.codes, *w.scales, w.biases, true, w.group, w.bits);
}

}  // namespace

std::vector<mx::array> linear(const mx::array& input, std::span<const Weight* const> weights,
                              const RowNorm* norm) {
  const mx::array x = norm ? rms_norm(input, norm->weight, norm->eps) : input;
  std::vector<mx::array> out;
  for (const Weight* weight : weights) out.push_back(product(x, stored(*weight)));
  return out;
}

mx::array linear_add(const mx::array& x, const Weight& weight, const mx::array& residual) {
  const Weight* one = &weight;
  return reference::add(residual,
                        reference::linear(x, std::span<const Weight* const>(&one, 1), nullptr).front());
}

mx::array linear_swiglu(const mx::array& x, const Weight& gate, const Weight& up, const RowNorm& norm) {
  const Weight* both[] = {&gate, &up};
  const auto y = reference::linear(x, both, &norm);
  return swiglu(y[0], y[1]);
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  const ReferenceWeight& w = stored(table);
  const mx::array rows(ids.data(), {static_cast<int>(ids.size())}, mx::int32);
  if (w.values) return mx::take(*w.values, rows, 0);
  return mx::dequantize(mx::take(*w.codes, rows, 0), mx::take(*w.scales, rows, 0),
                        mx::take(*w.biases, rows, 0), w.group, w.bits);
}

}  // namespace anabranch::ops::reference
