#include "ops/cuda/recurrence.h"

#include <algorithm>
#include <vector>

#include "ops/arguments.h"
#include "ops/cuda/device.h"
#include "ops/cuda/gated_delta.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/recurrence_runs.h"
#include "ops/cuda/shapes.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "recurrence";

int padded_dim(int dim) {
  return (dim + kRecurrenceColumns - 1) / kRecurrenceColumns * kRecurrenceColumns;
}

const float* address_of(CudaDevice& on, const std::optional<Tensor>& x, bool used) {
  return x && used ? on.data(*x, kOp) : nullptr;
}

// The spans of runs of different states, as many as a launch takes at a time.
class Spans {
 public:
  Spans(CudaDevice& on, std::span<const RecurrenceRun> runs) {
    all_.reserve(runs.size());
    for (const RecurrenceRun& run : runs) all_.push_back(span_of_run(on, kOp, run, retired_));
  }
  // launch(number of spans, rows of the longest): the first launch waits for what is before it, and the
  // others run at the same time.
  template <class Args, class Launch>
  void launch_all(Args& args, const Launch& launch) const {
    args.beside = 0;
    for (size_t i = 0; i < all_.size(); i += kDeltaSpans) {
      const size_t count = std::min<size_t>(kDeltaSpans, all_.size() - i);
      std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(i), count, args.span);
      int longest = 1;
      for (size_t j = 0; j < count; j++) longest = std::max(longest, args.span[j].count);
      launch(static_cast<unsigned>(count), static_cast<unsigned>(std::min(longest, kMostGridRows)));
      args.beside = 1;
    }
  }

 private:
  static constexpr int kMostGridRows = 65535;
  std::vector<Tensor> retired_;  // lives until the last launch
  std::vector<DeltaSpan> all_;
};

void launch_recurrence(CudaDevice& on, RecurrenceArgs& args, const RecurrenceShape& s,
                       std::span<const RecurrenceRun> runs) {
  const RecurrenceVariant variant{padded_dim(s.key_dim), s.rule.delta, s.rule.key_decay};
  constexpr int kWarps = 4, kThreads = 128;
  const int heads = 2 * s.key_heads + s.value_heads;
  // Two rounds of tokens (recurrence.cu).
  const int dim = variant.key_dim, decays = variant.key_decay ? dim : 4,
            tokens = dim * (2 + variant.key_decay) > 512 ? 4 : 8,
            bytes = 2 * tokens * (2 * dim + kRecurrenceColumns + decays + 1) * 4;
  const Spans spans(on, runs);
  spans.launch_all(args, [&](unsigned count, unsigned rows) {
    on.launch(Source::recurrence_tokens, "make_tokens",
              {static_cast<unsigned>((heads + kWarps - 1) / kWarps), rows, count}, kThreads, 0, &args);
  });
  spans.launch_all(args, [&](unsigned count, unsigned) {
    on.launch(variant, "recur",
              {static_cast<unsigned>(padded_dim(s.value_dim) / kRecurrenceColumns),
               static_cast<unsigned>(s.value_heads), count},
              kThreads, static_cast<unsigned>(bytes), &args);
  });
}

RecurrenceArgs arguments_of(const RecurrenceShape& s) {
  const std::string reason = recurrence_unsupported(s);
  require(reason.empty(), kOp, "{}.", reason);
  RecurrenceArgs args{};
  args.key_heads = s.key_heads;
  args.value_heads = s.value_heads;
  args.key_dim = s.key_dim;
  args.value_dim = s.value_dim;
  args.padded_key = padded_dim(s.key_dim);
  args.padded_value = padded_dim(s.value_dim);
  args.taps = s.conv_kernel;
  args.beta_rule = static_cast<int>(s.rule.beta);
  args.decay_rule = static_cast<int>(s.rule.decay);
  args.unit_keys = s.rule.unit_keys;
  args.key_decay = s.rule.key_decay;
  args.bound = s.rule.bound;
  args.step_min = s.rule.step_min;
  args.step_max = s.rule.step_max;
  return args;
}

// Norm and gate of y.
MatmulInput finish(CudaDevice& on, const Tensor& y, const Tensor& z, const RecurrenceShape& shape,
                   const RecurrenceWeights& weights, bool plain) {
  const int rows = z.shape(0), width = z.shape(1);
  const MatmulInput out =
      plain ? MatmulInput(on.empty({rows, width}, Dtype::f32)) : make_packed_cleared(on, rows, width);
  const RecurrenceRule& rule = shape.rule;
  const bool normed = rule.norm != RecurrenceRule::Norm::none, of_heads = normed && rule.norm_group == 0;
  NormArgs norm{};
  norm.x = on.data(y, kOp);
  if (normed) norm.weight = on.data(weights.norm_weight, kOp);
  norm.gate = on.data(z, kOp);
  if (plain)
    norm.out = on.data(out.values, kOp);
  else
    norm.tiles = on.data<unsigned short>(out.values, kOp);
  norm.rows = rows;
  norm.inputs = width;
  norm.width = of_heads ? shape.value_dim : normed ? rule.norm_group : width;
  norm.tiles_rows = layout_rows(rows);
  norm.eps = weights.eps;
  norm.sigmoid_gate = shape.sigmoid_gate;
  norm.gate_first = rule.norm == RecurrenceRule::Norm::after_gate;
  if (of_heads) {
    on.launch(Source::rows, "norm_heads", {static_cast<unsigned>((rows * shape.value_heads + 3) / 4)}, 128, 0,
              &norm);
  } else {
    const int threads = std::clamp((norm.width + 127) / 128 * 32, 32, 512);
    on.launch(Source::rows, "norm_groups", {static_cast<unsigned>(rows * (width / norm.width))},
              static_cast<unsigned>(threads), 0, &norm);
  }
  return out;
}

}  // namespace

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain) {
  if (is_tuned_gated_delta(shape)) return gated_delta(in, shape, weights, runs, plain);
  CudaDevice& on = cuda_device(in.qkv);
  const RecurrenceRule& rule = shape.rule;
  const int rows = in.z.shape(0), keys = shape.key_heads * padded_dim(shape.key_dim),
            values = shape.value_heads * padded_dim(shape.value_dim),
            decays = shape.value_heads * (rule.key_decay ? padded_dim(shape.key_dim) : 1);
  const auto scratch = [&](int width) { return on.empty({rows, width}, Dtype::f32); };
  const Tensor made_queries = scratch(keys), made_keys = scratch(keys), made_values = scratch(values),
               decay = scratch(decays), beta = scratch(shape.value_heads), y = scratch(in.z.shape(1));
  RecurrenceArgs args = arguments_of(shape);
  args.qkv = on.data(in.qkv, kOp);
  args.b = address_of(on, in.b, rule.needs_b());
  args.a = address_of(on, in.a, rule.needs_a());
  args.conv_weight = on.data(weights.conv_weight, kOp);
  args.conv_bias = address_of(on, weights.conv_bias, rule.conv_bias);
  args.a_log = on.data(weights.a_log, kOp);
  if (rule.needs_a()) args.dt_bias = on.data(weights.dt_bias, kOp);
  args.skip = address_of(on, weights.skip, rule.skip);
  args.queries = on.data(made_queries, kOp);
  args.keys = on.data(made_keys, kOp);
  args.values = on.data(made_values, kOp);
  args.decay = on.data(decay, kOp);
  args.beta = on.data(beta, kOp);
  args.y = on.data(y, kOp);
  carry_out(runs,
            [&](std::span<const RecurrenceRun> of_states) { launch_recurrence(on, args, shape, of_states); });
  return finish(on, y, in.z, shape, weights, plain);
}

namespace {

void launch_short_conv(CudaDevice& on, ShortConvArgs& args, std::span<const RecurrenceRun> runs) {
  constexpr int kThreads = 128;
  const Spans spans(on, runs);
  spans.launch_all(args, [&](unsigned count, unsigned rows) {
    on.launch(Source::recurrence_tokens, "short_conv",
              {static_cast<unsigned>((args.channels + kThreads - 1) / kThreads), rows, count}, kThreads, 0,
              &args);
  });
}

}  // namespace

MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceRun> runs, bool plain) {
  CudaDevice& on = cuda_device(in);
  const int rows = in.shape(0), width = shape.channels;
  const MatmulInput out =
      plain ? MatmulInput(on.empty({rows, width}, Dtype::f32)) : make_packed_cleared(on, rows, width);
  ShortConvArgs args{};
  args.in = on.data(in, kOp);
  args.weight = on.data(weights.weight, kOp);
  args.bias = address_of(on, weights.bias, true);
  if (plain)
    args.out = on.data(out.values, kOp);
  else
    args.tiles = on.data<unsigned short>(out.values, kOp);
  args.channels = width;
  args.taps = shape.conv_kernel;
  args.gated = weights.gated;
  args.tiles_rows = layout_rows(rows);
  carry_out(runs, [&](std::span<const RecurrenceRun> of_states) { launch_short_conv(on, args, of_states); });
  return out;
}

void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run) {
  if (is_tuned_gated_delta(shape)) return fold_gated_delta(shape, run);
  CudaDevice& on = cuda_device(run.state->conv);
  if (shape.channels > 0) {
    ShortConvArgs args{};
    args.channels = shape.channels;
    args.taps = shape.conv_kernel;
    launch_short_conv(on, args, {&run, 1});
  } else {
    RecurrenceArgs args = arguments_of(shape);
    launch_recurrence(on, args, shape, {&run, 1});
  }
}

}  // namespace anabranch::ops::cuda
