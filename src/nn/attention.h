#pragma once

#include "nn/batch.h"
#include "nn/linear.h"
#include "ops/attention.h"
#include "ops/heads.h"

namespace anabranch::nn {

// Grouped-query attention with rotary positions; norms of queries and keys and the output gate are optional.
struct Attention {
  int heads = 0, kv_heads = 0, head_dim = 0;
  ops::ScoreSpec scores;
  ops::Rope rope;
  Linear q, o;  // [heads * D, H], [H, heads * D]
  // [kv_heads * D, H]. Without v, the projected keys are also the values. Without both, the layer reads the
  // keys and values of an earlier layer, whose part of the states it is given (Gemma 4).
  std::optional<Linear> k, v;
  std::optional<Linear> gate;                  // [heads * D, H]: output = o(attention * sigmoid(gate(x)))
  std::optional<ops::GateCurve> curve;         // gate is of heads or of values, for ops::gate_heads()
  std::optional<Norm> q_norm, k_norm, v_norm;  // over head_dim
  bool norms_all_heads = false;  // q_norm and k_norm are over all heads together: [heads * D], [kv_heads * D]
  bool norms_after_rope = false;  // q_norm and k_norm come after the rotation
  // Above 0: v and o have so many values for each head, fewer than D. The cache has zeros behind them.
  int value_dim = 0;

  // x + post(o(attention(...))). part: the part of the states that the layer uses.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(q.weight), visit(o.weight);
    for (const auto* linear : {&k, &v, &gate})
      if (*linear) visit((*linear)->weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit(projections()), visit({&o});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (o.own_inputs) visit(*o.own_inputs);
  }

 private:
  // q, and those of k, v and gate that the layer has.
  std::vector<const Linear*> projections() const;
  // The projections of x; keys, values and gate if the layer has them, values normalised, and queries and
  // keys if their norms are over all heads.
  struct Projected {
    Tensor q, k, v, gate;
  };
  Projected project_all(const Normed& x) const;
  // Rotated and then normalised: [M, heads * D].
  Tensor turn_then_norm(const Tensor& x, const Norm& norm, std::span<const int> positions,
                        bool queries) const;
  // -> [M, heads * D], for `o`.
  ops::MatmulInput attend(const Projected& in, const Batch& batch, int part) const;
  // Attention's output without the zeros behind the values, and gated.
  Tensor finish(const Tensor& attended, const Tensor& gates) const;
  // attend() when keys and values belong to another layer.
  ops::MatmulInput attend_shared(const Projected& in, const Batch& batch, int part) const;
};

}  // namespace anabranch::nn
