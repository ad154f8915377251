#include "ops/cuda/gated_delta.h"

#include <algorithm>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/recurrence_runs.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "gated_delta";

// Runs of up to this many tokens use one block for all columns of a head. With a single sequence that would
// be too few blocks: more blocks are faster as soon as it has more than one token.
constexpr int kFewTokens = 8;
int most_few(size_t runs) {
  return runs > 1 ? kFewTokens : 1;
}

// Maximum columns of a head for such a launch to include the output norm.
constexpr int kMostFewColumns = 128;

void launch_delta(CudaDevice& on, const RecurrenceShape& s, const DeltaArgs& args, int spans, bool few) {
  const int most = few ? kMostFewColumns : 32;
  const int columns = s.value_dim <= most ? s.value_dim : s.value_dim % most == 0 ? most : 32;
  const DeltaVariant variant{.key_dim = s.key_dim,
                             .value_dim = s.value_dim,
                             .taps = s.conv_kernel,
                             .columns = columns,
                             .lane_columns = few && columns >= 64 ? 4 : 2,
                             .tokens = kFewTokens,
                             .makers = few ? 0 : 384};
  on.launch(variant, "delta",
            {static_cast<unsigned>(s.value_dim / columns), static_cast<unsigned>(s.value_heads),
             static_cast<unsigned>(spans)},
            static_cast<unsigned>(columns / variant.lane_columns * 8 + variant.makers), 0, &args);
}

// Runs of different states, in concurrent launches. Everything is prepared before the first launch: retired
// tensors must live until the last launch, and no copy may come between launches.
void carry_out_together(CudaDevice& on, DeltaArgs& args, const RecurrenceShape& shape,
                        std::span<const RecurrenceRun> runs, int most_few) {
  std::vector<Tensor> retired;
  std::vector<DeltaSpan> few, many;
  for (const RecurrenceRun& run : runs) {
    const DeltaSpan span = span_of_run(on, kOp, run, retired);
    (run.count <= most_few ? few : many).push_back(span);
  }
  args.beside = 0;
  for (const auto* spans : {&few, &many}) {
    for (size_t i = 0; i < spans->size(); i += kDeltaSpans) {
      const size_t count = std::min<size_t>(kDeltaSpans, spans->size() - i);
      std::copy_n(spans->begin() + static_cast<std::ptrdiff_t>(i), count, args.span);
      launch_delta(on, shape, args, static_cast<int>(count), spans == &few);
      args.beside = 1;
    }
  }
}

void add_norm(DeltaArgs& args, const NormArgs& norm) {
  args.gate = norm.gate;
  args.norm_weight = norm.weight;
  args.out = norm.out;
  args.tiles = norm.tiles;
  args.tiles_rows = norm.tiles_rows;
  args.eps = norm.eps;
  args.sigmoid_gate = norm.sigmoid_gate;
}

}  // namespace

MatmulInput gated_delta(const RecurrenceInputs& in, const RecurrenceShape& shape,
                        const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain) {
  CudaDevice& on = cuda_device(in.qkv);
  const int rows = in.z.shape(0), width = in.z.shape(1);
  const Tensor y = on.empty({rows, width}, Dtype::f32);
  DeltaArgs args{};
  args.qkv = on.data(in.qkv, kOp);
  args.b = on.data(*in.b, kOp);
  args.a = on.data(*in.a, kOp);
  args.conv_weight = on.data(weights.conv_weight, kOp);
  args.a_log = on.data(weights.a_log, kOp);
  args.dt_bias = on.data(weights.dt_bias, kOp);
  args.y = on.data(y, kOp);
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;

  const MatmulInput out =
      plain ? MatmulInput(on.empty({rows, width}, Dtype::f32)) : make_packed_cleared(on, rows, width);
  NormArgs norm{};
  norm.x = args.y;
  norm.weight = on.data(weights.norm_weight, kOp);
  norm.gate = on.data(in.z, kOp);
  if (plain)
    norm.out = on.data(out.values, kOp);
  else
    norm.tiles = on.data<unsigned short>(out.values, kOp);
  norm.rows = rows;
  norm.inputs = width;
  norm.width = shape.value_dim;
  norm.tiles_rows = layout_rows(rows);
  norm.eps = weights.eps;
  norm.sigmoid_gate = shape.sigmoid_gate;
  const int most = most_few(runs.size());
  const bool all_few =
      std::all_of(runs.begin(), runs.end(), [&](const RecurrenceRun& run) { return run.count <= most; });
  const bool norm_within = all_few && shape.value_dim <= kMostFewColumns;
  if (norm_within) add_norm(args, norm);
  carry_out(runs, [&](std::span<const RecurrenceRun> of_states) {
    carry_out_together(on, args, shape, of_states, most);
  });
  if (norm_within) return out;
  on.launch(Source::rows, "norm_heads", {static_cast<unsigned>((rows * shape.value_heads + 3) / 4)}, 128, 0,
            &norm);
  return out;
}

void fold_gated_delta(const RecurrenceShape& shape, const RecurrenceRun& run) {
  DeltaArgs args{};
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  carry_out_together(cuda_device(run.state->s), args, shape, {&run, 1}, kFewTokens);
}

}  // namespace anabranch::ops::cuda
