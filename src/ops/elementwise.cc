#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

void require_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  require_f32(op, "the first operand", a, a.dims());
  require_shape(op, "the second operand", b, a.shape());
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps) {
  require_f32("rms_norm", "x", x, 2);
  require_shape("rms_norm", "w", w, {x.shape(1)});
  return x.device().ops().rms_norm(x, w, eps);
}

Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  require_f32("layer_norm", "x", x, 2);
  require_shape("layer_norm", "w", w, {x.shape(1)});
  require_shape("layer_norm", "b", b, {x.shape(1)});
  return x.device().ops().layer_norm(x, w, b, eps);
}

Tensor add(const Tensor& a, const Tensor& b) {
  require_same_shape("add", a, b);
  return a.device().ops().add(a, b);
}

Tensor add_bias(const Tensor& x, const Tensor& b) {
  require_f32("add_bias", "x", x, 2);
  require_shape("add_bias", "b", b, {x.shape(1)});
  return x.device().ops().add_bias(x, b);
}

Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation) {
  require_same_shape("swiglu", gate, up);
  return gate.device().ops().swiglu(gate, up, activation);
}

Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how) {
  require_same_shape("clamped_glu", gate, up);
  return gate.device().ops().clamped_glu(gate, up, how);
}

Tensor relu2(const Tensor& x) {
  require_f32("relu2", "x", x, x.dims());
  return x.device().ops().relu2(x);
}

Tensor xielu(const Tensor& x, const Xielu& parameters) {
  require_f32("xielu", "x", x, x.dims());
  return x.device().ops().xielu(x, parameters);
}

Tensor gelu(const Tensor& x, Gelu kind) {
  require_f32("gelu", "x", x, x.dims());
  return x.device().ops().gelu(x, kind);
}

Tensor scale(const Tensor& x, float factor) {
  require_f32("scale", "x", x, x.dims());
  return x.device().ops().scale(x, factor);
}

Tensor soft_cap(const Tensor& x, float cap) {
  require_f32("soft_cap", "x", x, x.dims());
  require(cap > 0, "soft_cap", "the cap is {}, but must be positive.", cap);
  return x.device().ops().soft_cap(x, cap);
}

Tensor sigmoid_gate(const Tensor& x, const Tensor& gate) {
  require_same_shape("sigmoid_gate", x, gate);
  return x.device().ops().sigmoid_gate(x, gate);
}

Tensor take_rows(const Tensor& x, std::span<const int> rows) {
  require_f32("take_rows", "x", x, 2);
  for (const int row : rows)
    require(row >= 0 && row < x.shape(0), "take_rows", "row {} is not among {}.", row, x.shape(0));
  return x.device().ops().take_rows(x, rows);
}

Tensor copy_rows(const Tensor& x, int begin, int end) {
  require_f32("copy_rows", "x", x, x.dims());
  const std::vector<Tensor> part = {x.slice_rows(begin, end)};
  return x.device().ops().concat_rows(part);
}

Tensor concat_rows(const std::vector<Tensor>& parts) {
  require(!parts.empty() && parts.front().dims() > 0, "concat_rows", "there is nothing to stack.");
  const Shape first = parts.front().shape();
  for (const Tensor& part : parts) {
    require_f32("concat_rows", "a part", part, first.size());
    require(std::equal(first.begin() + 1, first.end(), part.shape().begin() + 1), "concat_rows",
            "shapes {} and {} do not stack.", first, part.shape());
  }
  if (parts.size() == 1) return parts.front();
  return parts.front().device().ops().concat_rows(parts);
}

std::vector<int> best_of_rows(const Tensor& x) {
  require_f32("best_of_rows", "x", x, 2);
  require(x.shape(1) > 0, "best_of_rows", "the rows are empty.");
  if (x.shape(0) == 0) return {};
  if (x.device().ops().best_of_rows) return x.device().ops().best_of_rows(x);
  const Tensor host = to_host(x);
  const auto width = static_cast<size_t>(host.shape(1));
  std::vector<int> best(static_cast<size_t>(host.shape(0)));
  x.device().threads().parallel_for(host.shape(0), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); i++)
      best[i] = best_of_row({host.data<float>() + i * width, width});
  });
  return best;
}

// Skips blocks without a new maximum or a NaN: about twice as fast.
int best_of_row(std::span<const float> row) {
  constexpr size_t kBlock = 64;
  size_t best = 0;
  bool nan = false;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, row.size());
    const float most = row[best];
    bool look = false;
    for (size_t i = begin; i < end; i++) look |= !(row[i] <= most);
    if (!look) continue;
    for (size_t i = begin; i < end; i++) {
      nan |= std::isnan(row[i]);
      if (row[i] > row[best]) best = i;
    }
  }
  return nan || std::isinf(row[best]) ? -1 : static_cast<int>(best);
}

}  // namespace anabranch::ops
