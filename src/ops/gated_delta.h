// The Gated DeltaNet mixer between its projections (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks";
// Transformers' Qwen3_5GatedDeltaNet.forward is the reference for every detail below).
#pragma once

#include "ops/backend.h"

namespace anabranch::ops {

struct GatedDeltaShape {
  int key_heads = 0, value_heads = 0;  // value_heads is a multiple of key_heads
  int key_dim = 0, value_dim = 0;      // per head
  int conv_kernel = 4;
  int conv_channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

// Parameters, all f32: conv_weight [kernel, C] (tap-major; tap kernel-1 meets the newest row), a_log [Hv],
// dt_bias [Hv], norm_weight [Dv].
struct GatedDeltaWeights {
  mx::array conv_weight, a_log, dt_bias, norm_weight;
  float eps = 1e-6f;
};

// One sequence's recurrent memory for one layer, f32: s [Hv, Dk, Dv] and the last kernel - 1 rows of conv
// input, oldest first, conv [kernel - 1, C]. Zeros for a new sequence.
struct GatedDeltaState {
  mx::array s, conv;
};
GatedDeltaState make_gated_delta_state(const GatedDeltaShape& shape);

// qkv [T, C] (queries, keys, values, before the convolution), z [T, Hv * Dv], b and a [T, Hv] -> [T, Hv *
// Dv], and advances the state by T tokens. Per token, for each value head h with key head h / (Hv / Hk):
//   x = silu(causal_conv(qkv));  q, k = x / sqrt(sum(x^2) + 1e-6) per head;  q *= Dk^-1/2
//   beta = sigmoid(b);  g = exp(-exp(a_log) * softplus(a + dt_bias))
//   S = g S;  delta = beta (v - k^T S);  S = S + k delta^T;  y = q^T S
//   out = y / sqrt(mean(y^2) + eps) * norm_weight * silu(z)
// Tokens are applied one by one in one order of operations, so any chunking gives the same bits (CPU).
mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state);

}  // namespace anabranch::ops
