// The table of ops that a backend fills: cpu, cuda, reference (which metal also uses). The functions of
// ops/{linear,elementwise,attention,recurrence}.h check shapes, update the counters of draft windows,
// and call the table of their operands' device. So a backend's function may rely on the guarantees in these
// headers.
//
// Every entry must be filled, except those that say "null: ...".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/choose.h"
#include "ops/experts.h"
#include "ops/heads.h"
#include "ops/indexed_attention.h"
#include "ops/linear.h"
#include "ops/low_rank.h"
#include "ops/probe.h"
#include "ops/recurrence.h"
#include "ops/rope.h"
#include "ops/streams.h"
#include "tensor/device.h"

namespace anabranch::ops {

struct OpTable {
  // The kernels in use, for people: "avx512-vnni", "cuda", "reference".
  std::string (*kernels_name)(Device& device);

  // Says why the backend has no kernels for attention with such heads and positions, or for such a recurrent
  // layer; empty: it has them.
  std::string (*attention_unsupported)(int head_dim, const Rope& rope);
  std::string (*recurrence_unsupported)(const RecurrenceShape& shape);

  std::shared_ptr<const Weight::Storage> (*make_weight)(Device& device, const WeightSource& source);
  // The same for a mixture's experts, whose matrices are stacked; null: stored like any weight.
  std::shared_ptr<const Weight::Storage> (*make_experts)(Device& device, const WeightSource& source,
                                                         int experts) = nullptr;
  MachineLimits (*measure_limits)(Device& device);

  // linear.h
  std::vector<Tensor> (*linear)(const MatmulInput& x, std::span<const Weight* const> weights,
                                const RowNorm* norm);
  Tensor (*linear_add)(const MatmulInput& x, const Weight& weight, const Tensor& residual);
  MatmulInput (*linear_swiglu)(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                               Activation activation);
  // null: rms_norm(), or x itself
  MatmulInput (*pack)(const MatmulInput& x, const RowNorm* norm) = nullptr;
  Tensor (*embed)(std::span<const int> ids, const Weight& table);
  // null: `chosen` is in the host's memory, or is never given
  Tensor (*embed_chosen)(std::span<const int> ids, const Tensor& chosen, const Weight& table) = nullptr;

  // heads.h; linear_heads null: the backend has no kernels for latent attention
  Tensor (*linear_heads)(const Tensor& x, const ExpertMatrices& matrices) = nullptr;
  Tensor (*join_heads)(const Tensor& a, const Tensor& b);
  Tensor (*cut_heads)(const Tensor& x, int keep);
  Tensor (*gate_heads)(const Tensor& x, const Tensor& gate, GateCurve curve);

  // experts.h; null: the backend has no kernels for mixtures of experts
  Routing (*route)(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
                   const Tensor* choice_bias) = nullptr;
  Tensor (*mix_experts)(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                        const SharedExpert* shared) = nullptr;
  // null: built from the ops here
  Tensor (*mixture)(const Tensor& x, const RowNorm* norm, const MixtureWeights& weights,
                    bool add_x) = nullptr;

  // elementwise.h
  Tensor (*rms_norm)(const Tensor& x, const Tensor& w, float eps);
  Tensor (*layer_norm)(const Tensor& x, const Tensor& w, const Tensor& b, float eps);
  Tensor (*gelu)(const Tensor& x, Gelu kind);
  Tensor (*relu2)(const Tensor& x);
  Tensor (*xielu)(const Tensor& x, const Xielu& parameters);
  Tensor (*add)(const Tensor& a, const Tensor& b);
  Tensor (*add_bias)(const Tensor& x, const Tensor& b);
  Tensor (*swiglu)(const Tensor& gate, const Tensor& up, Activation activation);
  Tensor (*clamped_glu)(const Tensor& gate, const Tensor& up, const ClampedGlu& how);
  Tensor (*scale)(const Tensor& x, float factor);
  Tensor (*soft_cap)(const Tensor& x, float cap);
  Tensor (*sigmoid_gate)(const Tensor& x, const Tensor& gate);
  Tensor (*take_rows)(const Tensor& x, std::span<const int> rows);
  Tensor (*concat_rows)(const std::vector<Tensor>& parts);  // always allocates new storage
  std::vector<int> (*best_of_rows)(const Tensor& x);        // null: done by the host
  // choose.h; null: done by the host
  std::unique_ptr<ChosenTokens> (*choose_tokens)(const Tensor& logits,
                                                 std::span<const RowSampling> rows) = nullptr;
  Tensor (*rope)(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries);

  // low_rank.h; some outputs and parts may be empty
  void (*add_low_rank)(std::span<LowRankOutput> outputs);
  // null: built from linear() of the rows, which are not packed then
  std::vector<Tensor> (*low_rank_down)(const MatmulInput& x, std::span<const LowRankDown> parts) = nullptr;
  // null: built from the ops here; both: gate and up, of one shape
  std::vector<Tensor> (*linear_low_rank)(const MatmulInput& x, std::span<const LowRankProduct> products,
                                         const Tensor* residual) = nullptr;
  MatmulInput (*linear_low_rank_swiglu)(const MatmulInput& x, std::span<const LowRankProduct> both,
                                        Activation activation) = nullptr;

  // attention.h
  KvBlockShapes (*kv_block_shapes)(int kv_heads, int head_dim);
  void (*kv_append)(PagedKv& kv, const Tensor& k, const Tensor& v);
  Tensor (*attention)(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole);
  // null: built from the ops above
  MatmulInput (*attend)(const AttentionInputs& in, std::span<const AttentionSpan> spans);

  // recurrence.h: carries out the runs in order. The windows' counters are updated by the caller; the
  // backend updates only the tensors s, conv, and those of the window. A run's `keep` receives s and conv
  // after the run. plain: the result must be an f32 tensor; otherwise it may be packed.
  MatmulInput (*recurrence)(const RecurrenceInputs& in, const RecurrenceShape& shape,
                            const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs,
                            bool plain);
  // A run of no rows: folds accepted entries into s and conv.
  void (*recurrence_fold)(const RecurrenceShape& shape, const RecurrenceRun& run);
  MatmulInput (*short_conv)(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                            std::span<const RecurrenceRun> runs, bool plain);

  // indexed_attention.h; null: the backend has no kernels for it. kv_gather: out has blocks of zeros.
  Tensor (*index_keys)(const PagedKv& keys, int ratio, int blocks) = nullptr;
  Tensor (*index_scores)(const Tensor& q, const Tensor& keys) = nullptr;
  void (*kv_gather)(const PagedKv& kv, std::span<const int> positions, PagedKv& out) = nullptr;

  // streams.h; null: the backend has no kernels for it
  Tensor (*norm_streams)(const Tensor& x, const Tensor& w, float eps, int streams) = nullptr;
  Tensor (*mix_streams)(const Tensor& x, const Tensor& gates, int streams) = nullptr;
  Tensor (*add_to_streams)(const Tensor& x, const Tensor& y, const Tensor& weights) = nullptr;
  Tensor (*gate_streams)(const Tensor& keys, const Tensor& queries, const Tensor& values,
                         int streams) = nullptr;
};

const OpTable& cpu_ops();
const OpTable& cuda_ops();
const OpTable& reference_ops();

}  // namespace anabranch::ops
