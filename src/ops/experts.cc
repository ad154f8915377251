#include "ops/experts.h"

#include <span>

#include "ops/arguments.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

constexpr const char* kOp = "mix_experts";

void require_matrices(const char* name, const ExpertMatrices& m, int experts, int rows, int inputs) {
  require(m.experts == experts && m.rows == rows && m.weight.in_features() == inputs, kOp,
          "{} is of {} experts [{}, {}], but {} of [{}, {}] are needed.", name, m.experts, m.rows,
          m.weight.in_features(), experts, rows, inputs);
  if (m.bias) require_shape(kOp, "an expert's bias", *m.bias, {experts, rows});
}

void require_shared(const SharedExpert& shared, int rows, int width) {
  const int64_t intermediate = shared.gate->out_features();
  require(shared.gate->in_features() == width && shared.up->in_features() == width &&
              shared.up->out_features() == intermediate && shared.down->in_features() == intermediate &&
              shared.down->out_features() == width,
          kOp, "the shared expert's matrices do not fit {} inputs.", width);
  if (shared.gate_logits) require_shape(kOp, "gate_logits", *shared.gate_logits, {rows, 1});
}

void require_inputs(const Tensor& x, const RowNorm* norm, const Experts& experts) {
  require_f32(kOp, "x", x, 2);
  require(experts.gate || !experts.clamped, kOp, "a clamped unit has a gate.");
  const int width = x.shape(1), count = experts.up->experts, intermediate = experts.up->rows;
  if (norm) require_shape(kOp, "the norm's weight", norm->weight, {width});
  if (experts.gate) require_matrices("gate", *experts.gate, count, intermediate, width);
  require_matrices("up", *experts.up, count, intermediate, width);
  require_matrices("down", *experts.down, count, width, intermediate);
}

ExpertMatrices sizes_of(const WeightSource& source, int experts) {
  require(experts > 0 && source.rows % experts == 0, "ExpertMatrices", "{} rows cannot be of {} experts.",
          source.rows, experts);
  ExpertMatrices out;
  out.experts = experts;
  out.rows = static_cast<int>(source.rows / experts);
  return out;
}

}  // namespace

ExpertMatrices ExpertMatrices::make(Device& device, const WeightSource& source, int experts) {
  ExpertMatrices out = sizes_of(source, experts);
  out.weight = Weight::make(device, pad_blocks(source, out.rows, out.padded_rows()), experts);
  return out;
}

ExpertMatrices ExpertMatrices::of_heads(Device& device, const WeightSource& source, int heads) {
  ExpertMatrices out = sizes_of(source, heads);
  out.weight = Weight::make(device, pad_blocks(source, out.rows, out.padded_rows()));
  return out;
}

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias) {
  require_f32("route", "logits", logits, 2);
  const int experts = logits.shape(1);
  require(experts <= kMostExperts, "route", "{} experts are more than {}.", experts, kMostExperts);
  require(spec.top_k >= 1 && spec.top_k <= experts, "route", "{} of {} experts cannot be chosen.", spec.top_k,
          experts);
  require(spec.groups >= 1 && spec.groups <= kMostGroups && experts % spec.groups == 0 &&
              spec.top_groups >= 1 && spec.top_groups <= spec.groups &&
              spec.top_k <= experts / spec.groups * spec.top_groups &&
              (spec.groups == 1 || spec.best_of_group || experts > spec.groups),
          "route", "{} of {} experts cannot be chosen from {} of {} groups.", spec.top_k, experts,
          spec.top_groups, spec.groups);
  require(spec.scores != RouterSpec::Scores::sparse_mixer || spec.top_k == 2, "route",
          "this router chooses 2 experts, not {}.", spec.top_k);
  if (expert_scale) require_shape("route", "expert_scale", *expert_scale, {experts});
  if (choice_bias) require_shape("route", "choice_bias", *choice_bias, {experts});
  return logits.device().ops().route(logits, spec, expert_scale, choice_bias);
}

Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  require_inputs(x, norm, experts);
  const int rows = x.shape(0);
  require(routing.experts.dtype() == Dtype::i32 && routing.experts.shape() == routing.weights.shape() &&
              routing.experts.dims() == 2 && routing.experts.shape(0) == rows,
          kOp, "the routing has shape {}, but x has {} rows.", routing.experts.shape(), rows);
  if (shared) require_shared(*shared, rows, x.shape(1));
  return x.device().ops().mix_experts(x, norm, routing, experts, shared);
}

Tensor mixture(const Tensor& x, const RowNorm* norm, const MixtureWeights& w, bool add_x) {
  require_inputs(x, norm, w.experts);
  require(w.router->out_features() == w.experts.up->experts && w.router->in_features() == x.shape(1), kOp,
          "the router [{}, {}] does not fit {} experts of {} inputs.", w.router->out_features(),
          w.router->in_features(), w.experts.up->experts, x.shape(1));
  if (w.router_bias) require_shape(kOp, "the router's bias", *w.router_bias, {w.experts.up->experts});
  SharedExpert shared{w.gate, w.up, w.down};
  if (w.gate) require_shared(shared, x.shape(0), x.shape(1));
  const OpTable& ops = x.device().ops();
  if (ops.mixture) return ops.mixture(x, norm, w, add_x);

  const Weight* both[] = {w.router, w.output_gate};
  const auto logits = linear(x, std::span(both, w.output_gate ? 2 : 1), w.router_norm ? w.router_norm : norm);
  if (w.output_gate) shared.gate_logits = &logits[1];
  const Routing chosen = route(w.router_bias ? add_bias(logits[0], *w.router_bias) : logits[0], w.routing,
                               w.expert_scale, w.choice_bias);
  const Tensor y = mix_experts(x, norm, chosen, w.experts, w.gate ? &shared : nullptr);
  return add_x ? add(x, y) : y;
}

}  // namespace anabranch::ops
