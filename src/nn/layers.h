// The layers that decoder blocks are made of. Each is immutable weights plus a call; a layer's mutable memory
// lies in the SequenceState of each span. Activations are [M, hidden] f32, M rows of the batch.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "nn/batch.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch::nn {

namespace mx = mlx::core;

// RMSNorm with a plain multiplier: checkpoints that store w for (1 + w) are converted when loaded.
struct RmsNorm : ops::RowNorm {
  mx::array operator()(const mx::array& x) const { return ops::rms_norm(x, weight, eps); }
};

struct Linear {
  ops::Weight weight;             // [out, in]
  std::optional<mx::array> bias;  // [out]
};

// Projections of one normalised input, computed together so that it is prepared once.
std::vector<mx::array> project(const mx::array& x, const RmsNorm& norm,
                               std::initializer_list<const Linear*> layers);

// residual + layer(x)
mx::array project_add(const mx::array& x, const Linear& layer, const mx::array& residual);

// SwiGLU feed-forward on the residual stream: x + down(silu(gate(n)) * up(n)), n = norm(x).
struct Mlp {
  Linear gate, up, down;
  mx::array operator()(const mx::array& x, const RmsNorm& norm) const;
};

struct Rope {
  std::vector<float> inv_freq;  // [rotated dims / 2]
  float attention_factor = 1.0f;
};

// Grouped-query attention with rotary positions, x + o(attention(norm(x))); q/k norms and the output gate are
// optional.
struct Attention {
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;  // of the scores
  int window = 0;   // sliding window in positions, 0 = none
  Rope rope;
  Linear q, k, v, o;                      // [heads * D, H], [kv_heads * D, H] x2, [H, heads * D]
  std::optional<Linear> gate;             // [heads * D, H]: output = o(attention * sigmoid(gate(x)))
  std::optional<RmsNorm> q_norm, k_norm;  // over head_dim
  mx::array operator()(const mx::array& x, const RmsNorm& norm, const Batch& batch, int layer) const;

 private:
  // in: queries, keys, values and, if there is one, the gate as projected -> [M, heads * D], for `o`.
  mx::array attend(const std::vector<mx::array>& in, const Batch& batch, int layer) const;
  // The same for a batch in which a span is a tree.
  mx::array attend_trees(const std::vector<mx::array>& in, const Batch& batch, int layer) const;
};

// Gated DeltaNet (ops/gated_delta.h) between its projections: x + out(gated_delta(norm(x))).
struct GatedDelta {
  ops::GatedDeltaShape shape;
  ops::GatedDeltaWeights weights;
  Linear qkv, z, b, a, out;  // [C, H], [Hv * Dv, H], [Hv, H] x2, [H, Hv * Dv]
  mx::array operator()(const mx::array& x, const RmsNorm& norm, const Batch& batch, int layer) const;
};

using Mixer = std::variant<Attention, GatedDelta>;

struct DecoderLayer {
  RmsNorm norm1;
  Mixer mixer;
  RmsNorm norm2;
  Mlp mlp;
  mx::array operator()(const mx::array& x, const Batch& batch, int layer) const;
};

// Qwen3.5's multi-token-prediction head: from the hidden state of a position and the token after it, what the
// trunk's hidden state of the next position would be, after the final norm.
struct Mtp {
  RmsNorm norm_embedding, norm_hidden;
  Linear fc;  // [H, 2 H], of (embedding, hidden)
  std::vector<DecoderLayer> layers;
  RmsNorm norm;
  // embedding [n, H] of the tokens after the positions of hidden [n, H]; the batch's states keep the layers'
  // keys and values.
  mx::array operator()(const mx::array& embedding, const mx::array& hidden, const Batch& batch) const;
};

}  // namespace anabranch::nn
