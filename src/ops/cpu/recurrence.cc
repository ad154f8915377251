#include "ops/cpu/recurrence.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

// The most value heads of a task, for scratch data that stay in the caches.
constexpr int64_t kTaskHeads = 8;

// The channels that a thread of a short convolution takes at a time.
constexpr int64_t kConvChannels = 64;

// The value heads of a key head are computed in `parts` tasks.
int64_t parts_of_key_head(const RecurrenceArgs& args, int64_t sharers) {
  const int64_t values = args.value_heads / args.key_heads;
  const int64_t for_all = (sharers + args.key_heads - 1) / args.key_heads;
  return std::min(values, std::max(for_all, (values + kTaskHeads - 1) / kTaskHeads));
}

void run_heads(CpuDevice& device, RecurrenceArgs args) {
  const CpuKernels& kernel = device.kernels();
  ThreadPool& threads = device.threads();
  const int64_t work = (args.tokens + args.replay) * args.value_heads * args.key_dim * args.value_dim;
  const bool serial = work < (32 << 10);
  const int64_t sharers = serial ? 1 : threads.size(), parts = parts_of_key_head(args, sharers);
  const int64_t values = args.value_heads / args.key_heads, tasks = args.key_heads * parts;
  const int64_t head_floats = args.key_dim * args.value_dim;
  // The tasks of a key head read its replayed keys. If drafts take their place, they wait until all have.
  const int64_t keys = args.key_heads * args.key_dim;
  const bool waits = args.draft && args.fold && parts > 1;
  Tensor waiting;
  if (args.draft) args.draft_keys = args.window.k + args.entry * keys;
  if (waits) {
    waiting = device.make({static_cast<int>(args.tokens), static_cast<int>(keys)});
    args.draft_keys = waiting.data<float>();
  }
  // Whether a task is the first of some thread's share.
  const auto begins_share = [&](int64_t task) {
    return ThreadPool::share_begin(tasks, task * sharers / tasks, sharers) == task;
  };
  const auto body = [&](int64_t begin, int64_t end) {
    const auto floats = kernel.recurrence_scratch_floats(args, (values + parts - 1) / parts);
    auto* scratch = static_cast<float*>(thread_scratch(0, static_cast<size_t>(floats) * sizeof(float)));
    for (int64_t i = begin; i < end; i++) {
      const int64_t key_head = i / parts, part = i % parts, first = key_head * values;
      HeadsTask task{key_head, first + values * part / parts, first + values * (part + 1) / parts,
                     begins_share(i)};
      const bool last = i + 1 == tasks || begins_share(i + 1);
      if (!last) task.next = args.s_in + task.end * head_floats;
      kernel.recurrence_heads(args, task, scratch);
    }
  };
  serial ? body(0, tasks) : threads.parallel_for(tasks, 1, body);
  if (waits) std::memcpy(args.window.k + args.entry * keys, args.draft_keys, waiting.nbytes());
  if (!args.rule.norms_rows()) return;
  const int64_t groups = args.value_heads * args.value_dim / args.rule.norm_group;
  const auto norm = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) kernel.recurrence_norm(args, i / groups, i % groups);
  };
  serial ? norm(0, args.tokens * groups) : threads.parallel_for(args.tokens * groups, 1, norm);
}

// Sets conv to the last kernel - 1 rows of (conv, `count` new rows). row(i): new row i.
template <class Row>
void advance_conv(const RecurrenceArgs& args, Tensor& conv, int64_t count, const Row& row) {
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

RecurrenceArgs make_args(const RecurrenceShape& shape) {
  RecurrenceArgs args;
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  args.key_dim = shape.key_dim;
  args.value_dim = shape.value_dim;
  args.conv_kernel = shape.conv_kernel;
  args.channels = shape.conv_channels();
  args.rule = shape.rule;
  args.sigmoid_gate = shape.sigmoid_gate;
  return args;
}

// Passes the replayed entries to the kernel. Accepted entries go into conv here, and into S in the kernel
// (args.fold).
void take_window(const RecurrenceRun& run, RecurrenceArgs& args) {
  RecurrenceState& state = *run.state;
  if (!state.window) return;
  RecurrenceWindow& w = *state.window;
  args.window = {w.k.data<float>(), w.delta.data<float>(), w.decay.data<float>(), w.rows.data<float>()};
  args.fold = run.fold;
  args.replay = run.replay;
  if (run.fold)
    advance_conv(args, state.conv, args.replay,
                 [&](int64_t i) { return args.window.rows + i * args.channels; });
}

void own_window(RecurrenceWindow& window) {
  for (auto* x : {&window.k, &window.delta, &window.decay, &window.rows}) own(*x);
}

// Computes all heads from state.s to the new state. If a snapshot shares state.s, the new state is written to
// new memory.
void run_state(CpuDevice& device, RecurrenceState& state, RecurrenceArgs& args) {
  const bool written = !args.draft || args.fold;
  const bool elsewhere = written && !state.s.is_unshared();
  args.s_in = std::as_const(state.s).data<float>();
  Tensor s = elsewhere ? device.make(state.s.shape()) : state.s;
  args.s_out = s.data<float>();
  run_heads(device, args);
  state.s = std::move(s);
}

// Runs the rows of one run; `args` has the inputs of all rows.
void run_rows(CpuDevice& device, const RecurrenceShape& shape, const RecurrenceRun& run,
              RecurrenceArgs args) {
  RecurrenceState& state = *run.state;
  const int64_t values = args.value_heads * args.value_dim;
  args.tokens = run.count;
  args.qkv += run.begin * args.channels;
  args.z += run.begin * values;
  if (args.b) args.b += run.begin * args.value_heads;
  if (args.a) args.a += run.begin * args.value_heads * shape.decay_dim();
  args.y += run.begin * values;
  if (run.draft) own_window(*state.window);
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

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool) {
  CpuDevice& device = cpu_device(in.qkv);
  Tensor out = device.make(in.z.shape());
  RecurrenceArgs args = make_args(shape);
  args.qkv = in.qkv.data<float>();
  args.z = in.z.data<float>();
  const RecurrenceRule& rule = shape.rule;
  if (rule.needs_b()) args.b = in.b->data<float>();
  if (rule.needs_a()) args.a = in.a->data<float>(), args.dt_bias = weights.dt_bias.data<float>();
  args.conv_weight = weights.conv_weight.data<float>();
  if (rule.conv_bias) args.conv_bias = weights.conv_bias->data<float>();
  if (rule.skip) args.skip = weights.skip->data<float>();
  args.a_log = weights.a_log.data<float>();
  if (rule.norm != RecurrenceRule::Norm::none) args.norm_weight = weights.norm_weight.data<float>();
  args.eps = weights.eps;
  args.y = out.data<float>();
  for (const RecurrenceRun& run : runs) run_rows(device, shape, run, args);
  return out;
}

namespace {

// As run_rows(), for a short convolution. products: of all rows; computed here, if there are gates.
void run_short_conv(CpuDevice& device, const RecurrenceRun& run, float* products, RecurrenceArgs args) {
  RecurrenceState& state = *run.state;
  if (run.draft) own_window(*state.window);
  take_window(run, args);
  args.tokens = run.count;
  if (args.gated) args.gated += 3 * run.begin * args.channels;
  args.y += run.begin * args.channels;
  float* own_products = products + run.begin * args.channels;
  args.products = run.draft ? args.window.rows + run.entry * args.channels : own_products;
  if (run.draft && !args.gated) std::copy_n(own_products, args.tokens * args.channels, args.products);
  args.qkv = args.products;
  args.conv_state = std::as_const(state.conv).data<float>();
  const auto body = [&](int64_t begin, int64_t end) {
    device.kernels().short_conv(args, begin * kConvChannels, std::min(end * kConvChannels, args.channels));
  };
  const int64_t parts = (args.channels + kConvChannels - 1) / kConvChannels;
  args.tokens* args.channels < (16 << 10) ? body(0, parts) : device.threads().parallel_for(parts, 1, body);
  if (!run.draft)
    advance_conv(args, state.conv, args.tokens, [&](int64_t i) { return args.qkv + i * args.channels; });
  if (run.keep) *run.keep = {state.s, state.conv, {}};
}

}  // namespace

MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceRun> runs, bool) {
  CpuDevice& device = cpu_device(in);
  Tensor out = device.make({in.shape(0), shape.channels});
  Tensor products = weights.gated ? device.make(out.shape()) : in;
  RecurrenceArgs args = make_args(shape);
  if (weights.gated) args.gated = in.data<float>();
  args.conv_weight = weights.weight.data<float>();
  if (weights.bias) args.conv_bias = weights.bias->data<float>();
  args.y = out.data<float>();
  for (const RecurrenceRun& run : runs) run_short_conv(device, run, products.data<float>(), args);
  return out;
}

void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run) {
  RecurrenceArgs args = make_args(shape);
  take_window(run, args);
  if (shape.value_heads > 0) run_state(cpu_device(run.state->s), *run.state, args);
}

}  // namespace anabranch::ops::cpu
