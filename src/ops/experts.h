// A mixture of experts: which experts a row uses, and the weighted sum of their outputs.
#pragma once

#include <optional>

#include "ops/linear.h"

namespace anabranch::ops {

constexpr int kMostExperts = 2048;  // in a mixture; published ones have up to 512

// One matrix of every expert, stacked in one weight. Each expert begins at a multiple of kExpertAlign rows,
// so that backends find it by its index; the padding rows are zero.
constexpr int kExpertAlign = 16;
struct ExpertMatrices {
  Weight weight;  // [experts * padded rows, in]
  int experts = 0;
  int rows = 0;                     // of one expert, without padding
  std::optional<Tensor> bias = {};  // [experts, rows] f32: of each expert, added to its product

  int padded_rows() const { return (rows + kExpertAlign - 1) / kExpertAlign * kExpertAlign; }
  // source: [experts * rows, in], without padding.
  static ExpertMatrices make(Device& device, const WeightSource& source, int experts);
  // One matrix of each head, for linear_heads(). Unlike experts, all of them are kept on the device.
  static ExpertMatrices of_heads(Device& device, const WeightSource& source, int heads);
};

constexpr int kMostGroups = 32;  // of experts

struct RouterSpec {
  // What a row's experts are chosen by and weighed with. sparse_mixer is Phi-3.5-MoE's: two experts, each
  // weighed with a softmax over those that are not much worse and not chosen before.
  enum class Scores { softmax, sigmoid, sparse_mixer };
  int top_k = 0;
  Scores scores = Scores::softmax;
  bool normalise =
      true;         // the weights of a row's experts are divided by max(their sum, least_sum) + added_sum
  float scale = 1;  // then multiplied by this
  float least_sum = 0, added_sum = 0;
  // Experts are in so many groups of equal size, at least 2. Those of the top_groups groups whose two best
  // scores have the largest sum can be chosen.
  int groups = 1, top_groups = 1;
  bool best_of_group = false;  // a group counts by its best score alone
  float tolerance = 0;         // sparse_mixer: how much worse, relative to the score
  float soft_cap = 0;          // above 0: logits are soft_cap * tanh(logit / soft_cap) first
};

// The experts of each row in ascending order, and their weights.
struct Routing {
  Tensor experts;  // [M, top_k] i32
  Tensor weights;  // [M, top_k] f32
};

// Selects the top_k largest scores of each row of logits [M, E] f32; among equal ones the lower index. E is
// at most kMostExperts. expert_scale [E]: multiplies the weights of each expert; choice_bias [E]: added to
// the scores by which experts (and groups) are chosen, not to those by which they are weighed; both may be
// null. A row with a NaN gets experts 0 to top_k - 1 with NaN weights. References: Transformers'
// Qwen3MoeTopKRouter, DeepseekV3TopkRouter, and sparsemixer() of Phimoe.
Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale = nullptr,
              const Tensor* choice_bias = nullptr);

struct Experts {
  // [intermediate, H], [intermediate, H], [H, intermediate]. gate may be null: relu(up n)^2 then takes the
  // place of activation(gate n) * up n.
  const ExpertMatrices *gate, *up, *down;
  Activation activation = Activation::silu;  // the shared expert's too
  std::optional<ClampedGlu> clamped = {};    // in place of activation(gate) * up; not the shared expert's
};

// An expert that every row uses.
struct SharedExpert {
  const Weight *gate, *up, *down;
  const Tensor* gate_logits = nullptr;  // [M, 1]: its output is multiplied by their sigmoid; may be null
};

// y[m] = sum of weight * expert(norm(x[m])) over the row's experts in ascending order, then +
// shared(norm(x[m]))
// -> [M, H] f32; expert(n) = down (activation(gate n) * up n), with what Experts says of biases and clamping.
// Without a norm, x is used as it is. An expert's output has the same bits as linear_swiglu() and linear() of
// its matrices; the sums are of f32, each step one fused multiply-add. Throws std::invalid_argument on shapes
// that do not fit.
Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared = nullptr);

// All weights of a mixture layer.
struct MixtureWeights {
  const Weight* router;  // [experts, H]
  RouterSpec routing;
  Experts experts;
  const Tensor* router_bias = nullptr;   // [experts]: added to the router's logits; may be null
  const RowNorm* router_norm = nullptr;  // norm of the router's input; null: the same norm as for the experts
  const Tensor *expert_scale = nullptr, *choice_bias = nullptr;  // see route()
  const Weight *gate = nullptr, *up = nullptr, *down = nullptr;  // the shared expert; null: there is none
  // [1, H]: multiplied with the router's input, gives gate_logits; may be null.
  const Weight* output_gate = nullptr;
};

// mix_experts() with the routing that route() computes from the router's logits; with add_x, plus x.
Tensor mixture(const Tensor& x, const RowNorm* norm, const MixtureWeights& weights, bool add_x);

}  // namespace anabranch::ops
