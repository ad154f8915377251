#include "ops/reference/experts.h"

#include <mlx/ops.h>

#include "ops/choose_experts.h"
#include "ops/reference/device.h"
#include "ops/reference/elementwise.h"
#include "ops/reference/linear.h"
#include "ops/reference/weight.h"

namespace anabranch::ops::reference {
namespace {

// x W^T for rows [begin, begin + count) of W.
mx::array product_with_rows(const mx::array& x, const ReferenceWeight& w, int begin, int count) {
  const auto rows = [&](const mx::array& all) {
    return mx::slice(all, {begin, 0}, {begin + count, all.shape(1)});
  };
  if (w.values) return mx::matmul(x, mx::transpose(rows(*w.values)));
  return mx::quantized_matmul(x, rows(*w.codes), rows(*w.scales), rows(*w.biases), true, w.group, w.bits);
}

mx::array product(const mx::array& x, const ExpertMatrices& m, int expert) {
  const mx::array y = product_with_rows(x, stored(m.weight), expert * m.padded_rows(), m.rows);
  if (!m.bias) return y;
  return mx::add(y, mx::slice(as_mlx(*m.bias), {expert, 0}, {expert + 1, m.rows}));
}

// What goes into an expert's down product.
mx::array glu(const mx::array& gate, const mx::array& up, const Experts& experts) {
  if (!experts.clamped) return mx::multiply(activated(gate, experts.activation), up);
  return clamped(gate, up, *experts.clamped);
}

struct ExpertRows {
  std::vector<int> rows;
  std::vector<float> weights;
};

// The rows that each expert computes.
std::vector<ExpertRows> rows_of_experts(const Routing& routing, int experts) {
  const Tensor chosen = to_host(routing.experts), weights = to_host(routing.weights);
  const int top_k = chosen.shape(1);
  std::vector<ExpertRows> out(static_cast<size_t>(experts));
  for (int i = 0; i < chosen.size(); i++) {
    ExpertRows& of = out[static_cast<size_t>(chosen.data<int32_t>()[i])];
    of.rows.push_back(i / top_k);
    of.weights.push_back(weights.data<float>()[i]);
  }
  return out;
}

mx::array column(const std::vector<float>& values) {
  return mx::array(values.begin(), {static_cast<int>(values.size()), 1}, mx::float32);
}

}  // namespace

Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices) {
  const int rows = x.shape(0), in = x.shape(1) / matrices.experts;
  std::vector<mx::array> parts;
  for (int h = 0; h < matrices.experts; h++)
    parts.push_back(product(mx::slice(as_mlx(x), {0, h * in}, {rows, (h + 1) * in}), matrices, h));
  return from_mlx(x.device(), mx::concatenate(parts, 1));
}

Tensor join_heads(const Tensor& a, const Tensor& b) {
  return from_mlx(a.device(), mx::concatenate({as_mlx(a), as_mlx(b)}, 2));
}

Tensor cut_heads(const Tensor& x, int keep) {
  const mx::array all = as_mlx(x);
  return from_mlx(x.device(), mx::slice(all, {0, 0, 0}, {all.shape(0), all.shape(1), keep}));
}

Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve) {
  const mx::array g = as_mlx(gate);
  const mx::array factors =
      mx::reshape(curve == GateCurve::sigmoid ? mx::sigmoid(g) : mx::logaddexp(g, mx::array(0.0f)),
                  {gate.shape(0), -1, 1});
  const mx::array heads = mx::reshape(as_mlx(x), {x.shape(0), gate.shape(1), x.shape(1) / gate.shape(1)});
  return from_mlx(x.device(), mx::reshape(mx::multiply(heads, factors), {x.shape(0), x.shape(1)}));
}

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias) {
  const Tensor host = to_host(logits);
  const Tensor scale = expert_scale ? to_host(*expert_scale) : Tensor(),
               bias = choice_bias ? to_host(*choice_bias) : Tensor();
  const int rows = host.shape(0), experts = host.shape(1);
  Tensor chosen = host_device().empty({rows, spec.top_k}, Dtype::i32),
         weights = host_device().empty({rows, spec.top_k}, Dtype::f32);
  for (int r = 0; r < rows; r++)
    choose_experts({host.data<float>() + r * experts, static_cast<size_t>(experts)}, spec,
                   expert_scale ? scale.data<float>() : nullptr, choice_bias ? bias.data<float>() : nullptr,
                   chosen.data<int32_t>() + r * spec.top_k, weights.data<float>() + r * spec.top_k);
  return {logits.device().to_device(chosen), logits.device().to_device(weights)};
}

Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  Device& device = x.device();
  const mx::array normed = as_mlx(norm ? rms_norm(x, norm->weight, norm->eps) : x);
  mx::array y = mx::zeros({x.shape(0), x.shape(1)}, mx::float32);
  const auto rows = rows_of_experts(routing, experts.up->experts);
  for (int e = 0; e < experts.up->experts; e++) {
    const ExpertRows& of = rows[static_cast<size_t>(e)];
    if (of.rows.empty()) continue;
    const mx::array in = copy_rows(normed, of.rows);
    const mx::array up = product(in, *experts.up, e);
    const mx::array inner = experts.gate ? glu(product(in, *experts.gate, e), up, experts)
                                         : mx::square(mx::maximum(up, mx::array(0.0f)));
    const mx::array out = mx::multiply(product(inner, *experts.down, e), column(of.weights));
    const mx::array at(of.rows.begin(), {static_cast<int>(of.rows.size())}, mx::int32);
    y = mx::scatter_add(y, at, mx::expand_dims(out, 1), 0);
  }
  if (!shared) return from_mlx(device, y);
  const Weight* both[] = {shared->gate, shared->up};
  const auto in = reference::linear(from_mlx(device, normed), both, nullptr);
  const Weight* down = shared->down;
  mx::array out = as_mlx(
      reference::linear(reference::swiglu(in[0], in[1], experts.activation), {&down, 1}, nullptr).front());
  if (shared->gate_logits) out = mx::multiply(out, mx::sigmoid(as_mlx(*shared->gate_logits)));
  return from_mlx(device, mx::add(y, out));
}

}  // namespace anabranch::ops::reference
