#pragma once

#include "nn/batch.h"
#include "nn/linear.h"
#include "ops/attention.h"
#include "ops/heads.h"

namespace anabranch::nn {

// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"). A token's keys and values are products of
// one row of `rank` numbers, the latent; the keys of all heads have one part more in common, which turns with
// the position. Queries are multiplied with the keys' matrices, and the latents' mixture with the values', so
// that the cache holds [turned part | latent] of each token, as keys and values of one head.
struct LatentAttention {
  int heads = 0, plain_dim = 0, turned_dim = 0, rank = 0, value_dim = 0;
  ops::ScoreSpec scores;
  ops::Rope rope;  // of turned_dim dimensions; its scale of queries is that of whole queries
  // Queries are projections of q_norm(q_in(x)), or of x.
  std::optional<Linear> q_in;
  std::optional<Norm> q_norm;
  Linear q_turned, q_plain;          // [heads * turned_dim, ..], [heads * plain_dim, ..]
  Linear k_turned, latent;           // [turned_dim, H], [rank, H]
  Norm latent_norm;                  // of the latents
  ops::ExpertMatrices keys, values;  // of each head: [rank, plain_dim], [value_dim, rank]
  Linear o;                          // [H, heads * value_dim]
  // If there, each head's output is multiplied by the sigmoid of a number: gate [heads, H], and ones
  // [value_dim, 1] for each head.
  std::optional<Linear> gate;
  std::optional<ops::ExpertMatrices> ones;

  // As Attention.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    if (q_in) visit(q_in->weight);
    if (gate) visit(gate->weight);
    for (const auto* weight : {&q_turned.weight, &q_plain.weight, &k_turned.weight, &latent.weight,
                               &keys.weight, &values.weight, &o.weight})
      visit(*weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit(of_x());
    if (q_in) visit(std::vector<const Linear*>{&q_turned, &q_plain});
    visit(std::vector<const Linear*>{&o});
  }
  template <class Visit>
  void visit_copies(const Visit&) const {}

 private:
  // The projections of x.
  std::vector<const Linear*> of_x() const;
  // [M, heads, turned_dim + rank], [M, 1, turned_dim + rank], [M, heads] if there is a gate.
  struct Projected {
    Tensor q, k, gate;
  };
  Projected project_all(const Normed& x, const Batch& batch) const;
  Tensor queries(const Tensor& turned, const Tensor& plain, const Batch& batch) const;
  // -> [M, heads * value_dim].
  Tensor attend(const Projected& in, const Batch& batch, int part) const;
};

}  // namespace anabranch::nn
