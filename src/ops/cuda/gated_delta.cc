#include "ops/cuda/gated_delta.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ops/arguments.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/shapes.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "gated_delta";

WindowArgs window_args(CudaDevice& on, const RecurrenceWindow& w) {
  return {on.data(w.k, kOp), on.data(w.delta, kOp), on.data(w.decay, kOp), on.data(w.rows, kOp)};
}

// Makes the window writable. A launch must not write entries that it reads, so after a fold the window starts
// again in new memory. A window that a copy of the state shares is copied.
void own_window(CudaDevice& on, RecurrenceWindow& w, bool fold, std::vector<Tensor>& retired) {
  for (auto* x : {&w.k, &w.delta, &w.decay, &w.rows}) {
    if (!fold && x->is_unshared()) continue;
    Tensor next = fold ? on.empty(x->shape(), Dtype::f32) : on.copy(*x, kOp);
    retired.push_back(std::exchange(*x, std::move(next)));
  }
}

// Fills in the addresses that the kernel reads for a run.
DeltaSpan begin_run(CudaDevice& on, const RecurrenceRun& run) {
  const RecurrenceState& state = *run.state;
  DeltaSpan span{};
  span.row = run.begin;
  span.count = run.count;
  span.entry = -1;
  span.s_in = on.data(state.s, kOp);
  span.conv_in = on.data(state.conv, kOp);
  span.fold = run.fold;
  span.replay = static_cast<unsigned char>(run.replay);
  if (state.window) span.from = window_args(on, *state.window);
  return span;
}

// Fills in the addresses that the kernel writes: afterwards the state's tensors are those that hold it after
// the launch. `retired` receives tensors that the launch reads and the state no longer refers to, so that no
// other run of the launch reuses their memory.
void end_run(CudaDevice& on, const RecurrenceRun& run, DeltaSpan& span, std::vector<Tensor>& retired) {
  RecurrenceState& state = *run.state;
  if (run.draft) {
    own_window(on, *state.window, run.fold, retired);
    span.to = window_args(on, *state.window);
    span.entry = static_cast<short>(run.entry);
  }
  if (!run.draft || run.fold) {
    if (!state.s.is_unshared()) {  // a snapshot shares it
      retired.push_back(state.s);
      state.s = on.empty(state.s.shape(), Dtype::f32);
    }
    retired.push_back(state.conv);
    state.conv = on.empty(state.conv.shape(), Dtype::f32);
  }
  span.s_out = on.data(state.s, kOp);
  span.conv_out = on.data(state.conv, kOp);
}

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
    DeltaSpan span = begin_run(on, run);
    end_run(on, run, span, retired);
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
  for (const RecurrenceRun& run : runs)
    if (run.keep) *run.keep = {run.state->s, run.state->conv, {}};
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

// Carries out runs of the same state one after the other.
void carry_out(CudaDevice& on, DeltaArgs& args, const RecurrenceShape& shape,
               std::span<const RecurrenceRun> runs, int most_few) {
  const std::string reason = recurrence_unsupported(shape);
  require(reason.empty(), kOp, "{}.", reason);
  std::unordered_set<const RecurrenceState*> states;
  states.reserve(runs.size());
  while (!runs.empty()) {
    states.clear();
    size_t count = 0;
    while (count < runs.size() && states.insert(runs[count].state).second) count++;
    carry_out_together(on, args, shape, runs.first(count), most_few);
    runs = runs.subspan(count);
  }
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
  carry_out(on, args, shape, runs, most);
  if (norm_within) return out;
  on.launch(Source::rows, "norm_heads", {static_cast<unsigned>((rows * shape.value_heads + 3) / 4)}, 128, 0,
            &norm);
  return out;
}

void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run) {
  DeltaArgs args{};
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  carry_out(cuda_device(run.state->s), args, shape, {&run, 1}, kFewTokens);
}

}  // namespace anabranch::ops::cuda
