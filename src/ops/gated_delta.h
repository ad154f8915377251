// The Gated DeltaNet mixer between its projections (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks";
// Transformers' Qwen3_5GatedDeltaNet.forward is the reference for every detail below).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace anabranch::ops {

// Tokens that can be on trial at a time.
constexpr int kMaxTrial = 16;

constexpr int kMaxConvKernel = 16;

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

// Tokens on trial: instead of advancing S, each leaves an entry from which its update can be made again. All
// f32: normalised keys k [kMaxTrial, Hk * Dk], delta [kMaxTrial, Hv * Dv] and decay g [kMaxTrial, Hv] of the
// formula below, and rows, the tokens' qkv [kMaxTrial, C].
struct GatedDeltaWindow {
  mx::array k, delta, decay, rows;
  int open = 0;               // entries on trial
  bool tree = false;          // they do not form one chain
  std::vector<int> accepted;  // entries that turned out real, in order, and are not in S yet
};

// One sequence's recurrent memory for one layer, f32: s [Hv, Dk, Dv] and the last kernel - 1 rows of conv
// input, oldest first, conv [kernel - 1, C]. Zeros for a new sequence. The window comes with the first trial.
struct GatedDeltaState {
  mx::array s, conv;
  std::optional<GatedDeltaWindow> window;
};
GatedDeltaState make_gated_delta_state(const GatedDeltaShape& shape);

// qkv [T, C] (queries, keys, values, before the convolution), z [T, Hv * Dv], b and a [T, Hv] -> [T, Hv *
// Dv], and advances the state by T tokens. Per token, for each value head h with key head h / (Hv / Hk):
//   x = silu(causal_conv(qkv));  q, k = x / sqrt(sum(x^2) + 1e-6) per head;  q *= Dk^-1/2
//   beta = sigmoid(b);  g = exp(-exp(a_log) * softplus(a + dt_bias))
//   S = g S;  delta = beta (v - k^T S);  S = S + k delta^T;  y = q^T S
//   out = y / sqrt(mean(y^2) + eps) * norm_weight * silu(z)
// Tokens are applied one by one in one order of operations, so any chunking gives the same bits (CPU).
// Accepted entries of the window are applied first. Throws while tokens are on trial.
mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state);

// The same output for tokens on trial: S is read once, accepted entries are folded into it while it is there
// (one write), and the tokens become entries of the window. Row i comes after row parents[i] (-1: after the
// entries already open, or the state), without parents after row i - 1; a tree's rows are in preorder
// (is_preorder). After a tree the window takes no more. Throws when more than kMaxTrial would be open.
mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents = {});

// The projections of all rows of a batch, as of one sequence above.
struct GatedDeltaInputs {
  const mx::array &qkv, &z, &b, &a;
};
// Rows [begin, begin + count): the next tokens of a sequence, for good or on trial.
struct GatedDeltaSpan {
  GatedDeltaState* state = nullptr;
  int begin = 0, count = 0;
  bool trial = false;
  std::span<const int> parents = {};  // as of gated_delta_trial()
  GatedDeltaState* keep = nullptr;  // where the whole state after these rows is left (not on trial); or null
};
// gated_delta() or gated_delta_trial() for each span, in order -> [M, Hv * Dv], for linear_add(). The spans
// cover every row in order; a state may have several. CUDA knows no trees.
mx::array gated_delta_rows(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                           const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans);

// Ends a trial: the entries of `path` (each the parent of the next) are real, the others never were. Integers
// only: S takes them in when it is read next.
void gated_delta_commit(GatedDeltaState& state, std::span<const int> path);

// Applies accepted entries to s and conv now, so that these are the whole state. Throws during a trial.
void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state);

// Each row's parent is -1, the row before it, or an ancestor of that row.
bool is_preorder(std::span<const int> parents);

}  // namespace anabranch::ops
