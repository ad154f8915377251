#include "ops/cpu/gated_delta.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

void run_heads(CpuDevice& device, const GatedDeltaArgs& args) {
  const CpuKernels& kernel = device.kernels();
  ThreadPool& threads = device.threads();
  const int64_t work = (args.tokens + args.replay) * args.value_heads * args.key_dim * args.value_dim;
  const bool serial = work < (32 << 10);
  const int64_t heads = args.key_heads, sharers = serial ? 1 : threads.size();
  const int64_t head_floats = args.value_heads / heads * args.key_dim * args.value_dim;
  // Whether head h is the first of some thread's share.
  const auto begins_share = [&](int64_t h) {
    return ThreadPool::share_begin(heads, h * sharers / heads, sharers) == h;
  };
  const auto body = [&](int64_t begin, int64_t end) {
    auto* scratch = static_cast<float*>(
        thread_scratch(0, static_cast<size_t>(kernel.delta_scratch_floats(args)) * sizeof(float)));
    for (int64_t h = begin; h < end; h++) {
      const bool last = h + 1 == heads || begins_share(h + 1);
      kernel.delta_head(args, h, begins_share(h), last ? nullptr : args.s_in + (h + 1) * head_floats,
                        scratch);
    }
  };
  serial ? body(0, heads) : threads.parallel_for(heads, 1, body);
}

// Sets conv to the last kernel - 1 rows of (conv, `count` new rows). row(i): new row i.
template <class Row>
void advance_conv(const GatedDeltaArgs& args, Tensor& conv, int64_t count, const Row& row) {
  const int64_t keep = args.conv_kernel - 1, c = args.channels, from_old = std::max<int64_t>(0, keep - count);
  const bool in_place = conv.is_unshared();
  Tensor next = in_place ? std::move(conv) : cpu_device(conv).make(conv.shape());
  const float* from = in_place ? next.data<float>() : std::as_const(conv).data<float>();
  float* to = next.data<float>();
  std::memmove(to, from + (keep - from_old) * c, static_cast<size_t>(from_old * c) * 4);
  for (int64_t i = from_old; i < keep; i++)
    std::memcpy(to + i * c, row(count - keep + i), static_cast<size_t>(c) * 4);
  conv = std::move(next);
}

// Makes x unshared; used for the window, which a copy of the state may share.
void own(Tensor& x) {
  if (x.is_unshared()) return;
  Tensor copy = cpu_device(x).make(x.shape());
  std::memcpy(copy.data<char>(), std::as_const(x).data<char>(), x.nbytes());
  x = std::move(copy);
}

GatedDeltaArgs make_args(const GatedDeltaShape& shape) {
  GatedDeltaArgs args;
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  args.key_dim = shape.key_dim;
  args.value_dim = shape.value_dim;
  args.conv_kernel = shape.conv_kernel;
  args.channels = shape.conv_channels();
  return args;
}

// Passes the replayed entries to the kernel. Accepted entries go into conv here, and into S in the kernel
// (args.fold).
void take_window(const DeltaRun& run, GatedDeltaArgs& args) {
  GatedDeltaState& state = *run.state;
  if (!state.window) return;
  GatedDeltaWindow& w = *state.window;
  args.window = {w.k.data<float>(), w.delta.data<float>(), w.decay.data<float>(), w.rows.data<float>()};
  args.fold = run.fold;
  args.replay = run.replay;
  if (run.fold)
    advance_conv(args, state.conv, args.replay,
                 [&](int64_t i) { return args.window.rows + i * args.channels; });
}

// Computes all heads from state.s to the new state. If a snapshot shares state.s, the new state is written to
// new memory.
void run_state(CpuDevice& device, GatedDeltaState& state, GatedDeltaArgs& args) {
  const bool written = !args.draft || args.fold;
  const bool elsewhere = written && !state.s.is_unshared();
  args.s_in = std::as_const(state.s).data<float>();
  Tensor s = elsewhere ? device.make(state.s.shape()) : state.s;
  args.s_out = s.data<float>();
  run_heads(device, args);
  state.s = std::move(s);
}

// Runs the rows of one run; `args` has the inputs of all rows.
void run_rows(CpuDevice& device, const DeltaRun& run, GatedDeltaArgs args) {
  GatedDeltaState& state = *run.state;
  const int64_t values = args.value_heads * args.value_dim;
  args.tokens = run.count;
  args.qkv += run.begin * args.channels;
  args.z += run.begin * values;
  args.b += run.begin * args.value_heads;
  args.a += run.begin * args.value_heads;
  args.y += run.begin * values;
  if (run.draft)
    for (auto* x : {&state.window->k, &state.window->delta, &state.window->decay, &state.window->rows})
      own(*x);
  take_window(run, args);
  args.draft = run.draft;
  args.entry = run.entry;
  args.conv_state = std::as_const(state.conv).data<float>();
  run_state(device, state, args);
  if (!run.draft)
    advance_conv(args, state.conv, args.tokens, [&](int64_t i) { return args.qkv + i * args.channels; });
  if (run.keep) *run.keep = {state.s, state.conv, {}};
}

}  // namespace

MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const DeltaRun> runs, bool) {
  CpuDevice& device = cpu_device(in.qkv);
  Tensor out = device.make(in.z.shape());
  GatedDeltaArgs args = make_args(shape);
  args.qkv = in.qkv.data<float>();
  args.z = in.z.data<float>();
  args.b = in.b.data<float>();
  args.a = in.a.data<float>();
  args.conv_weight = weights.conv_weight.data<float>();
  args.a_log = weights.a_log.data<float>();
  args.dt_bias = weights.dt_bias.data<float>();
  args.norm_weight = weights.norm_weight.data<float>();
  args.eps = weights.eps;
  args.sigmoid_gate = shape.sigmoid_gate;
  args.y = out.data<float>();
  for (const DeltaRun& run : runs) run_rows(device, run, args);
  return out;
}

void gated_delta_fold(const GatedDeltaShape& shape, const DeltaRun& run) {
  GatedDeltaArgs args = make_args(shape);
  take_window(run, args);
  run_state(cpu_device(run.state->s), *run.state, args);
}

}  // namespace anabranch::ops::cpu
