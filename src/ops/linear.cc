#include "ops/linear.h"

#include "ops/arguments.h"
#include "ops/cpu/linear.h"
#include "ops/cuda/linear.h"
#include "ops/reference/linear.h"

namespace anabranch::ops {

namespace {

void require_input(const char* op, const mx::array& x, std::span<const Weight* const> weights,
                   const RowNorm* norm) {
  // On CUDA also what only products read (ops/cuda/linear.h).
  if (backend() != Backend::cuda || x.dtype() != mx::bfloat16 || norm) require_f32(op, "x", x, 2);
  require(weights.size() <= kMaxLinearWeights, op, "{} weights are more than {}.", weights.size(),
          kMaxLinearWeights);
  for (const Weight* w : weights)
    require(w->in_features() == x.shape(1), op, "x has {} columns and the weight {} inputs.", x.shape(1),
            w->in_features());
  if (norm) require_shape(op, "the norm's weight", norm->weight, {x.shape(1)});
}

}  // namespace

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights,
                              const RowNorm* norm) {
  require_input("linear", x, weights, norm);
  return ANABRANCH_DISPATCH(linear(x, weights, norm));
}

mx::array linear(const mx::array& x, const Weight& weight) {
  const Weight* one = &weight;
  return linear(x, std::span<const Weight* const>(&one, 1)).front();
}

mx::array linear_add(const mx::array& x, const Weight& weight, const mx::array& residual) {
  const Weight* one = &weight;
  require_input("linear_add", x, std::span<const Weight* const>(&one, 1), nullptr);
  require_shape("linear_add", "residual", residual, {x.shape(0), static_cast<int>(weight.out_features())});
  return ANABRANCH_DISPATCH(linear_add(x, weight, residual));
}

mx::array linear_swiglu(const mx::array& x, const Weight& gate, const Weight& up, const RowNorm& norm) {
  const Weight* both[] = {&gate, &up};
  require_input("linear_swiglu", x, both, &norm);
  require(gate.out_features() == up.out_features(), "linear_swiglu", "gate has {} outputs and up {}.",
          gate.out_features(), up.out_features());
  return ANABRANCH_DISPATCH(linear_swiglu(x, gate, up, norm));
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  for (const int id : ids)
    require(id >= 0 && id < table.out_features(), "embed", "id {} is not in a table of {} rows.", id,
            table.out_features());
  return ANABRANCH_DISPATCH(embed(ids, table));
}

}  // namespace anabranch::ops
