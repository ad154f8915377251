// The Gated DeltaNet mixer between its projections (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks";
// Transformers' Qwen3_5GatedDeltaNet.forward is the reference for every detail below).
#pragma once

#include <optional>
#include <span>

#include "base/limits.h"
#include "ops/matmul_input.h"
#include "tensor/device.h"

namespace anabranch::ops {

using anabranch::kMaxConvKernel;
using anabranch::kMaxDraftTokens;

struct GatedDeltaShape {
  int key_heads = 0, value_heads = 0;  // value_heads is a multiple of key_heads
  int key_dim = 0, value_dim = 0;      // per head
  int conv_kernel = 4;
  bool sigmoid_gate = false;  // the output is gated by sigmoid(z) instead of silu(z)
  int conv_channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

// Parameters, all f32: conv_weight [kernel, C] (tap-major; tap kernel-1 multiplies the newest row), a_log
// [Hv], dt_bias [Hv], norm_weight [Dv].
struct GatedDeltaWeights {
  Tensor conv_weight, a_log, dt_bias, norm_weight;
  float eps = 1e-6f;
};

// The draft tokens of a sequence that are not in the state S yet (see gated_delta()). An entry holds what is
// needed to apply its token to S later, all f32: normalised keys k [kMaxDraftTokens, Hk * Dk], delta
// [kMaxDraftTokens, Hv * Dv], decay g [kMaxDraftTokens, Hv], and for the convolution rows, the token's qkv
// [kMaxDraftTokens, C]. A backend may move a factor from k to delta: only their product is used.
struct GatedDeltaWindow {
  Tensor k, delta, decay, rows;
  int open = 0;      // number of entries of draft tokens that are not committed yet
  int accepted = 0;  // number of leading entries that were accepted but are not in S yet
};

// One sequence's recurrent memory for one layer, f32: s [Hv, Dk, Dv] and the last kernel - 1 rows of conv
// input, oldest first, conv [kernel - 1, C]. Zeros for a new sequence. The window is created by the first
// draft.
struct GatedDeltaState {
  Tensor s, conv;
  std::optional<GatedDeltaWindow> window;
};
GatedDeltaState make_gated_delta_state(Device& device, const GatedDeltaShape& shape);

// The projections of all rows of a batch: qkv [M, C] (queries, keys, values, before the convolution), z [M,
// Hv * Dv], b and a [M, Hv].
struct GatedDeltaInputs {
  const Tensor &qkv, &z, &b, &a;
};
// Rows [begin, begin + count): the next tokens of a sequence, committed or drafts.
struct GatedDeltaSpan {
  GatedDeltaState* state = nullptr;
  int begin = 0, count = 0;
  bool draft = false;
  GatedDeltaState* keep =
      nullptr;  // receives the whole state after these rows (not with draft tokens); or null
};

// The mixer for each span, in order -> [M, Hv * Dv], for linear_add(). The spans cover all rows in order, and
// one state may have several spans. Per token, for each value head h with key head h / (Hv / Hk):
//   x = silu(causal_conv(qkv));  q, k = x / sqrt(sum(x^2) + 1e-6) per head;  q *= Dk^-1/2
//   beta = sigmoid(b);  g = exp(-exp(a_log) * softplus(a + dt_bias))
//   S = g S;  delta = beta (v - k^T S);  S = S + k delta^T;  y = q^T S
//   out = y / sqrt(mean(y^2) + eps) * norm_weight * silu(z), or * sigmoid(z)
// Tokens are applied one by one in one order of operations, so any chunking gives the same bits.
//
// A span of committed tokens first applies the window's accepted entries to S, then its own tokens. It throws
// if the window has entries that are not committed (open > 0). A span of drafts reads S once and turns its
// tokens into entries of the window; accepted entries, if there are any, become part of S in the same pass,
// and otherwise S is not written. It throws if the window would hold more than kMaxDraftTokens.
MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans);
// The same as a plain tensor, for tests.
Tensor gated_delta_plain(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                         const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans);

// A backend's work for one span. Planned by gated_delta(), which has already advanced the window's counters
// (open, accepted) past it.
struct DeltaRun {
  GatedDeltaState* state = nullptr;
  int begin = 0, count = 0;
  int replay = 0;      // number of leading window entries that are applied to S before the rows
  bool fold = false;   // the replayed entries are accepted: they go into s and conv permanently
  bool draft = false;  // the rows become entries [entry, entry + count), and leave s and conv alone
  int entry = 0;
  GatedDeltaState* keep = nullptr;
};

// Ends a draft: the first `count` entries are accepted, the others are discarded. Changes only counters: S
// takes the entries in when it is read next.
void gated_delta_commit(GatedDeltaState& state, int count);

// Applies accepted entries to s and conv now, so that these are the whole state. Throws during a draft.
void gated_delta_fold(const GatedDeltaShape& shape, GatedDeltaState& state);

}  // namespace anabranch::ops
