#include "ops/linear.h"

#include <algorithm>

#include "ops/arguments.h"
#include "ops/input_observer.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

void require_norm(const char* op, const MatmulInput& x, const RowNorm* norm) {
  if (!norm) return;
  require(!x.packed, op, "the rows are packed: they cannot be normalised any more.");
  require_shape(op, "the norm's weight", norm->weight, {x.inputs});
}

void require_input(const char* op, const MatmulInput& x, std::span<const Weight* const> weights,
                   const RowNorm* norm) {
  require(!weights.empty() && weights.size() <= kMaxLinearWeights, op,
          "{} weights, but 1 to {} are possible.", weights.size(), kMaxLinearWeights);
  if (!x.packed) require_f32(op, "x", x.values, 2);
  for (const Weight* w : weights) {
    require(w->in_features() == x.inputs, op, "x has {} columns and the weight {} inputs.", x.inputs,
            w->in_features());
    require(&w->device() == &x.values.device(), op, "x is on {}, and a weight on another device, {}.",
            x.values.device().name(), w->device().name());
  }
  require_norm(op, x, norm);
}

void show_observer(const MatmulInput& x, std::span<const Weight* const> weights, const RowNorm* norm) {
  Device& device = x.values.device();
  InputObserver* observer = device.input_observer();
  if (!observer) return;
  require(!x.packed, "linear", "packed rows cannot be observed: use the CPU.");
  const Tensor rows =
      device.to_host(norm ? device.ops().rms_norm(x.values, norm->weight, norm->eps) : x.values);
  for (const Weight* w : weights) observer->observe(*w, 0, rows.data<float>(), x.rows);
}

}  // namespace

std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights,
                           const RowNorm* norm) {
  require_input("linear", x, weights, norm);
  show_observer(x, weights, norm);
  return x.values.device().ops().linear(x, weights, norm);
}

MatmulInput pack(const MatmulInput& x, const RowNorm* norm) {
  if (!x.packed) require_f32("pack", "x", x.values, 2);
  require_norm("pack", x, norm);
  const OpTable& ops = x.values.device().ops();
  if (ops.pack) return ops.pack(x, norm);
  return norm ? ops.rms_norm(x.values, norm->weight, norm->eps) : x;
}

Tensor linear(const MatmulInput& x, const Weight& weight) {
  const Weight* one = &weight;
  return linear(x, std::span<const Weight* const>(&one, 1)).front();
}

Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual) {
  const Weight* one = &weight;
  require_input("linear_add", x, std::span<const Weight* const>(&one, 1), nullptr);
  require_shape("linear_add", "residual", residual, {x.rows, static_cast<int>(weight.out_features())});
  show_observer(x, std::span<const Weight* const>(&one, 1), nullptr);
  return x.values.device().ops().linear_add(x, weight, residual);
}

MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation) {
  const Weight* both[] = {&gate, &up};
  require_input("linear_swiglu", x, both, &norm);
  require(gate.out_features() == up.out_features(), "linear_swiglu", "gate has {} outputs and up {}.",
          gate.out_features(), up.out_features());
  show_observer(x, both, &norm);
  return x.device().ops().linear_swiglu(x, gate, up, norm, activation);
}

Tensor embed(std::span<const int> ids, const Weight& table, const Tensor* chosen) {
  const int known = chosen ? chosen->shape(0) : 0;
  for (const int id : ids)
    require(id >= -known && id < table.out_features(), "embed", "id {} is not in a table of {} rows.", id,
            table.out_features());
  const OpTable& ops = table.device().ops();
  if (!chosen) return ops.embed(ids, table);
  if (ops.embed_chosen) return ops.embed_chosen(ids, *chosen, table);
  std::vector<int> all(ids.begin(), ids.end());
  for (int& id : all)
    if (id < 0) id = std::max(chosen->data<int>()[-1 - id], 0);
  return ops.embed(all, table);
}

}  // namespace anabranch::ops
