#include "ops/cuda/gated_delta.h"

#include <algorithm>
#include <utility>

#include "ops/arguments.h"
#include "ops/cuda/array.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/shapes.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "gated_delta";

WindowArgs window_args(const GatedDeltaWindow& w) {
  return {data(w.k, kOp), data(w.delta, kOp), data(w.decay, kOp), data(w.rows, kOp)};
}

// Entries that are read are not written in the same launch: after a fold the window begins anew, elsewhere. A
// window that a copy of the state shares is left as it is.
void open_window(GatedDeltaWindow& w, bool fold, std::vector<mx::array>& retired) {
  for (auto* x : {&w.k, &w.delta, &w.decay, &w.rows}) {
    if (!fold && is_unshared(*x)) continue;
    mx::array next = fold ? make_array(x->shape(), mx::float32) : copy(*x, kOp);
    retired.push_back(std::exchange(*x, std::move(next)));
  }
}

// What the kernel reads of a span's state.
DeltaSpan begin_span(const GatedDeltaSpan& rows) {
  GatedDeltaState& state = *rows.state;
  DeltaSpan span{};
  span.row = rows.begin;
  span.count = rows.count;
  span.entry = -1;
  span.s_in = data(state.s, kOp);
  span.conv_in = data(state.conv, kOp);
  if (state.window) {
    GatedDeltaWindow& w = *state.window;
    span.fold = !w.accepted.empty();
    span.replay_count =
        static_cast<unsigned char>(span.fold ? w.accepted.size() : static_cast<size_t>(w.open));
    static_assert(kMaxTrial <= 16);  // 4 bits each
    for (size_t i = 0; i < span.replay_count; i++)
      span.replay |= static_cast<uint64_t>(span.fold ? w.accepted[i] : static_cast<int>(i)) << 4 * i;
    span.from = window_args(w);
  }
  return span;
}

// Where it writes: the state is what it will be after the launch. `retired` holds what the launch reads and
// the state no longer refers to, so that no other span of the launch is given its memory.
void end_span(const GatedDeltaSpan& rows, DeltaSpan& span, std::vector<mx::array>& retired) {
  GatedDeltaState& state = *rows.state;
  if (rows.trial) {
    GatedDeltaWindow& w = *state.window;
    open_window(w, span.fold, retired);
    span.to = window_args(w);
    span.entry = static_cast<short>(w.open);
    w.open += rows.count;
  }
  if (!rows.trial || span.fold) {
    if (!is_unshared(state.s)) {  // a snapshot's
      retired.push_back(state.s);
      state.s = make_array(state.s.shape(), mx::float32);
    }
    retired.push_back(state.conv);
    state.conv = make_array(state.conv.shape(), mx::float32);
  }
  span.s_out = data(state.s, kOp);
  span.conv_out = data(state.conv, kOp);
  if (state.window) state.window->accepted.clear();
}

void launch_delta(const GatedDeltaShape& s, const DeltaArgs& args, int spans) {
  const std::string obstacle = gated_delta_obstacle(s.key_dim, s.value_dim, s.conv_kernel);
  require(obstacle.empty(), kOp, "{}.", obstacle);
  // For a few tokens of many sequences a block has more of a head, whose queries and keys are then made less
  // often, and other blocks work while it waits for memory.
  bool few = spans > 1;
  for (int i = 0; i < spans; i++) few &= args.span[i].count <= 4;
  const int columns = few && s.value_dim % 64 == 0 ? 64 : 32;
  const int tokens = few ? 4 : 16, makers = few ? 0 : 288;
  launch(kernel({Source::gated_delta, {s.key_dim, s.value_dim, s.conv_kernel, columns, tokens, makers}},
                "delta"),
         {static_cast<unsigned>(s.value_dim / columns), static_cast<unsigned>(s.value_heads),
          static_cast<unsigned>(spans)},
         static_cast<unsigned>(4 * columns + makers), 0, &args);
}

// Spans of different states together, those of one state one after the other.
void run_spans(DeltaArgs& args, const GatedDeltaShape& shape, std::span<const GatedDeltaSpan> spans) {
  std::vector<mx::array> retired;
  for (size_t begin = 0; begin < spans.size();) {
    size_t end = begin;
    for (; end < spans.size() && end - begin < kDeltaSpans; end++) {
      const auto wave = spans.subspan(begin, end - begin);
      const auto same = [&](const GatedDeltaSpan& other) { return other.state == spans[end].state; };
      if (std::any_of(wave.begin(), wave.end(), same)) break;
      DeltaSpan& span = args.span[end - begin] = begin_span(spans[end]);
      end_span(spans[end], span, retired);
    }
    launch_delta(shape, args, static_cast<int>(end - begin));
    for (; begin < end; begin++) {
      const GatedDeltaState& state = *spans[begin].state;
      if (spans[begin].keep) *spans[begin].keep = {state.s, state.conv, {}};
    }
    retired.clear();
  }
}

mx::array run(const GatedDeltaInputs& in, const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
              std::span<const GatedDeltaSpan> spans, mx::array out) {
  const int rows = in.z.shape(0), width = in.z.shape(1);
  const mx::array y = make_array({rows, width}, mx::float32);
  DeltaArgs args{};
  args.qkv = data(in.qkv, kOp);
  args.b = data(in.b, kOp);
  args.a = data(in.a, kOp);
  args.conv_weight = data(weights.conv_weight, kOp);
  args.a_log = data(weights.a_log, kOp);
  args.dt_bias = data(weights.dt_bias, kOp);
  args.y = data(y, kOp);
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  run_spans(args, shape, spans);

  NormArgs norm{};
  norm.x = data(y, kOp);
  norm.weight = data(weights.norm_weight, kOp);
  norm.gate = data(in.z, kOp);
  const bool activations = out.dtype() == mx::bfloat16;
  if (activations && width % 64 != 0)
    clear(address_of(out, kOp), static_cast<size_t>(width + 63) / 64 * layout_rows(rows) * 128);
  (activations ? reinterpret_cast<void*&>(norm.tiles) : reinterpret_cast<void*&>(norm.out)) =
      address_of(out, kOp);
  norm.rows = rows;
  norm.inputs = width;
  norm.width = shape.value_dim;
  norm.tiles_rows = layout_rows(rows);
  norm.eps = weights.eps;
  launch(kernel({Source::rows, {}}, "norm_heads"),
         {static_cast<unsigned>((rows * shape.value_heads + 3) / 4)}, 128, 0, &norm);
  return out;
}

}  // namespace

mx::array gated_delta_rows(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                           const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans) {
  return run(in, shape, weights, spans, make_activations(in.z.shape(0), in.z.shape(1)));
}

mx::array gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                      const GatedDeltaWeights& weights, GatedDeltaState& state, bool trial) {
  const GatedDeltaSpan span{&state, 0, in.qkv.shape(0), trial, {}, nullptr};
  return run(in, shape, weights, {&span, 1}, make_array(in.z.shape(), mx::float32));
}

void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state) {
  // No tokens for good: accepted entries are applied, and that is all.
  const GatedDeltaSpan none{&state, 0, 0, false, {}, nullptr};
  DeltaArgs args{};
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  run_spans(args, shape, {&none, 1});
}

}  // namespace anabranch::ops::cuda
