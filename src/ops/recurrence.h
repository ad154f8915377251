// The linear recurrence between a mixer's projections, for every kind of hybrid model:
//   S = g S;  d = beta (v - k^T S);  S = S + k d^T;  y = q^T S
// Sources: Gated DeltaNet (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks"; Transformers'
// Qwen3_5GatedDeltaNet), with beta twice as large in OLMo Hybrid; Mamba2 (Dao & Gu 2024, "Transformers are
// SSMs"; Transformers' NemotronHMamba2Mixer and GraniteMoeHybridMambaLayer), where q = C, k = B, v = x and
// beta is the step; Kimi Delta Attention (Kimi Team 2025, "Kimi Linear"), where g is a vector; lightning
// attention (Qin et al. 2024), where g is constant. Also the short convolution alone (Transformers'
// Lfm2ShortConv).
#pragma once

#include <optional>
#include <span>

#include "base/limits.h"
#include "ops/matmul_input.h"
#include "ops/recurrence_rule.h"
#include "tensor/device.h"

namespace anabranch::ops {

using anabranch::kMaxConvKernel;
using anabranch::kMaxDraftTokens;

struct RecurrenceShape {
  int key_heads = 0, value_heads = 0;  // value_heads is a multiple of key_heads
  int key_dim = 0, value_dim = 0;      // per head
  int conv_kernel = 4;                 // taps; 1 with weights of 1: no convolution
  bool sigmoid_gate = false;           // the output is gated by sigmoid(z) instead of silu(z)
  RecurrenceRule rule = {};
  int channels = 0;  // of a short convolution, which has no heads and no rule

  int conv_channels() const { return channels + 2 * key_heads * key_dim + value_heads * value_dim; }
  int decay_dim() const { return rule.key_decay ? key_dim : 1; }
  bool is_gated_delta() const { return channels == 0 && rule == RecurrenceRule{}; }
};

// Parameters, all f32: conv_weight [kernel, C] (tap-major; tap kernel-1 multiplies the newest row), a_log
// [Hv], dt_bias [Hv], or [Hv * Dk] with key_decay, norm_weight [Dv], or [Hv * Dv] with a norm_group,
// conv_bias [C], skip [Hv]. Those that the rule does not use may be missing.
struct RecurrenceWeights {
  Tensor conv_weight, a_log, dt_bias, norm_weight;
  float eps = 1e-6f;
  std::optional<Tensor> conv_bias = {}, skip = {};
};

// The draft tokens of a sequence that are not in the state S yet (see recurrence()). An entry holds what is
// needed to apply its token to S later, all f32: the keys k [kMaxDraftTokens, Hk * Dk], d
// [kMaxDraftTokens, Hv * Dv], decay g [kMaxDraftTokens, Hv], or [kMaxDraftTokens, Hv * Dk] with key_decay,
// and the token's row of the convolution's input [kMaxDraftTokens, C]. A backend may move a factor from k to
// delta: only their product is used.
struct RecurrenceWindow {
  Tensor k, delta, decay, rows;
  int open = 0;      // number of entries of draft tokens that are not committed yet
  int accepted = 0;  // number of leading entries that were accepted but are not in S yet
};

// One sequence's recurrent memory for one layer, f32: s [Hv, Dk, Dv] and the last kernel - 1 rows of conv
// input, oldest first, conv [kernel - 1, C]. Zeros for a new sequence. The window is created by the first
// draft.
struct RecurrenceState {
  Tensor s, conv;
  std::optional<RecurrenceWindow> window;
};
RecurrenceState make_recurrence_state(Device& device, const RecurrenceShape& shape);

// The projections of all rows of a batch: qkv [M, C] (queries, keys, values, before the convolution), z [M,
// Hv * Dv], b [M, Hv], and a [M, Hv], or [M, Hv * Dk] with key_decay. b and a only if the rule needs them.
struct RecurrenceInputs {
  const Tensor &qkv, &z;
  std::optional<Tensor> b = {}, a = {};
};
// Rows [begin, begin + count): the next tokens of a sequence, committed or drafts.
struct RecurrenceSpan {
  RecurrenceState* state = nullptr;
  int begin = 0, count = 0;
  bool draft = false;
  RecurrenceState* keep =
      nullptr;  // receives the whole state after these rows (not with draft tokens); or null
};

// The mixer for each span, in order -> [M, Hv * Dv], for linear_add(). The spans cover all rows in order, and
// one state may have several spans. Per token, for each value head h with key head h / (Hv / Hk), and with
// beta and g as RecurrenceRule says:
//
//     q, k, v = silu(causal_conv(qkv) + conv_bias)
//     q, k = x / sqrt(sum(x^2) + 1e-6) of each head x, and q *= Dk^-1/2   (with unit_keys)
//     S = g S
//     d = beta (v - k^T S)   (with delta; otherwise beta v)
//     S = S + k d^T
//     y = q^T S + skip v
//     out = norm(y) * silu(z), norm(y * silu(z)), or y * silu(z)   (or sigmoid(z) for silu(z))
//     norm(y) = y / sqrt(mean(y^2) + eps) * norm_weight   (over a head or a norm_group)
//
// Tokens are applied one by one in one order of operations, so any chunking gives the same bits.
//
// A span of committed tokens first applies the window's accepted entries to S, then its own tokens. It throws
// if the window has entries that are not committed (open > 0). A span of drafts reads S once and turns its
// tokens into entries of the window; accepted entries, if there are any, become part of S in the same pass,
// and otherwise S is not written. It throws if the window would hold more than kMaxDraftTokens.
MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceSpan> spans);
// The same as a plain tensor, for tests.
Tensor recurrence_plain(const RecurrenceInputs& in, const RecurrenceShape& shape,
                        const RecurrenceWeights& weights, std::span<const RecurrenceSpan> spans);

// The convolution half alone. in [M, 3 C]: B, C and x -> [M, C], per token C * (causal_conv(B * x) + bias).
// The state's rows and the window's are the products B * x; S is empty. weight [kernel, C], bias [C]. Not
// gated: in [M, C] is x, and the result causal_conv(x) + bias.
struct ShortConvWeights {
  Tensor weight;
  std::optional<Tensor> bias = {};
  bool gated = true;
};
MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceSpan> spans);
// The same as a plain tensor.
Tensor short_conv_plain(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                        std::span<const RecurrenceSpan> spans);

// A backend's work for one span. Planned by recurrence(), which has already advanced the window's counters
// (open, accepted) past it.
struct RecurrenceRun {
  RecurrenceState* state = nullptr;
  int begin = 0, count = 0;
  int replay = 0;      // number of leading window entries that are applied to S before the rows
  bool fold = false;   // the replayed entries are accepted: they go into s and conv permanently
  bool draft = false;  // the rows become entries [entry, entry + count), and leave s and conv alone
  int entry = 0;
  RecurrenceState* keep = nullptr;
};

// Ends a draft: the first `count` entries are accepted, the others are discarded. Changes only counters: S
// takes the entries in when it is read next.
void recurrence_commit(RecurrenceState& state, int count);

// Applies accepted entries to s and conv now, so that these are the whole state. Throws during a draft.
void recurrence_fold(const RecurrenceShape& shape, RecurrenceState& state);

}  // namespace anabranch::ops
