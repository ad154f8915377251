#include "ops/experts.h"

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

constexpr const char* kOp = "mix_experts";

void require_matrices(const char* name, const ExpertMatrices& m, int experts, int rows, int inputs) {
  require(m.experts == experts && m.rows == rows && m.weight.in_features() == inputs, kOp,
          "{} is of {} experts [{}, {}], but {} of [{}, {}] are needed.", name, m.experts, m.rows,
          m.weight.in_features(), experts, rows, inputs);
}

void require_shared(const SharedExpert& shared, int rows, int width) {
  const int64_t intermediate = shared.gate->out_features();
  require(shared.gate->in_features() == width && shared.up->in_features() == width &&
              shared.up->out_features() == intermediate && shared.down->in_features() == intermediate &&
              shared.down->out_features() == width,
          kOp, "the shared expert's matrices do not fit {} inputs.", width);
  if (shared.gate_logits) require_shape(kOp, "gate_logits", *shared.gate_logits, {rows, 1});
}

}  // namespace

ExpertMatrices ExpertMatrices::make(Device& device, const WeightSource& source, int experts) {
  require(experts > 0 && source.rows % experts == 0, "ExpertMatrices", "{} rows cannot be of {} experts.",
          source.rows, experts);
  ExpertMatrices out;
  out.experts = experts;
  out.rows = static_cast<int>(source.rows / experts);
  out.weight = Weight::make(device, pad_blocks(source, out.rows, out.padded_rows()));
  return out;
}

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale) {
  require_f32("route", "logits", logits, 2);
  const int experts = logits.shape(1);
  require(spec.top_k >= 1 && spec.top_k <= experts, "route", "{} of {} experts cannot be chosen.", spec.top_k,
          experts);
  if (expert_scale) require_shape("route", "expert_scale", *expert_scale, {experts});
  return logits.device().ops().route(logits, spec, expert_scale);
}

Tensor mix_experts(const Tensor& x, const RowNorm& norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  require_f32(kOp, "x", x, 2);
  const int rows = x.shape(0), width = x.shape(1), count = experts.gate->experts,
            intermediate = experts.gate->rows;
  require_shape(kOp, "the norm's weight", norm.weight, {width});
  require(routing.experts.dtype() == Dtype::i32 && routing.experts.shape() == routing.weights.shape() &&
              routing.experts.dims() == 2 && routing.experts.shape(0) == rows,
          kOp, "the routing has shape {}, but x has {} rows.", routing.experts.shape(), rows);
  require_matrices("gate", *experts.gate, count, intermediate, width);
  require_matrices("up", *experts.up, count, intermediate, width);
  require_matrices("down", *experts.down, count, width, intermediate);
  if (shared) require_shared(*shared, rows, width);
  return x.device().ops().mix_experts(x, norm, routing, experts, shared);
}

}  // namespace anabranch::ops
