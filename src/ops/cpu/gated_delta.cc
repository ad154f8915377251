#include "ops/cpu/gated_delta.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kColumns = 16;   // of S in one task
constexpr int64_t kFewTokens = 4;  // up to here: one fork-join, a task per key head

void recur_head(const GatedDeltaArgs& args, int64_t head) {
  auto* scratch = static_cast<float*>(thread_scratch(1, static_cast<size_t>(args.key_dim * kColumns) * 4));
  for (int64_t c = 0; c < args.value_dim; c += kColumns) kernels().delta_recur(args, head, c, scratch);
}

void run_few_tokens(const GatedDeltaArgs& args) {
  const int64_t ratio = args.value_heads / args.key_heads;
  const auto body = [&](int64_t begin, int64_t end) {
    kernels().delta_prepare(args, 0, args.tokens, begin, end);
    for (int64_t h = begin * ratio; h < end * ratio; h++) recur_head(args, h);
    kernels().delta_finish(args, 0, args.tokens, begin * ratio, end * ratio);
  };
  const int64_t work = args.value_heads * args.key_dim * args.value_dim;
  if (work < (32 << 10)) return body(0, args.key_heads);
  parallel_for(args.key_heads, std::max<int64_t>(1, args.key_heads / (2 * thread_count())), body);
}

void run_many_tokens(const GatedDeltaArgs& args) {
  constexpr int64_t kTokens = 8;
  parallel_for(args.tokens, kTokens,
               [&](int64_t t0, int64_t t1) { kernels().delta_prepare(args, t0, t1, 0, args.key_heads); });
  const int64_t slices = (args.value_dim + kColumns - 1) / kColumns;
  parallel_for(args.value_heads * slices, 1, [&](int64_t begin, int64_t end) {
    auto* scratch = static_cast<float*>(thread_scratch(1, static_cast<size_t>(args.key_dim * kColumns) * 4));
    for (int64_t u = begin; u < end; u++)
      kernels().delta_recur(args, u / slices, u % slices * kColumns, scratch);
  });
  parallel_for(args.tokens, kTokens,
               [&](int64_t t0, int64_t t1) { kernels().delta_finish(args, t0, t1, 0, args.value_heads); });
}

// The last kernel - 1 rows of (conv, qkv).
void advance_conv(const GatedDeltaArgs& args, mx::array& conv) {
  const int64_t keep = args.conv_kernel - 1, c = args.channels,
                from_old = std::max<int64_t>(0, keep - args.tokens);
  mx::array next = is_unshared(conv) ? conv : make_array(conv.shape(), mx::float32);
  float* to = next.data<float>();
  std::memmove(to, args.conv_state + (keep - from_old) * c, static_cast<size_t>(from_old * c) * 4);
  std::memcpy(to + from_old * c, args.qkv + (args.tokens - (keep - from_old)) * c,
              static_cast<size_t>((keep - from_old) * c) * 4);
  conv = std::move(next);
}

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                      GatedDeltaState& state) {
  GatedDeltaArgs args;
  args.tokens = qkv.shape(0);
  mx::array out = make_array(z.shape(), mx::float32);
  if (args.tokens == 0) return out;
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  args.key_dim = shape.key_dim;
  args.value_dim = shape.value_dim;
  args.conv_kernel = shape.conv_kernel;
  args.channels = shape.conv_channels();
  args.qkv = read_f32(qkv, "gated_delta");
  args.z = read_f32(z, "gated_delta");
  args.b = read_f32(b, "gated_delta");
  args.a = read_f32(a, "gated_delta");
  args.conv_weight = read_f32(weights.conv_weight, "gated_delta");
  args.a_log = read_f32(weights.a_log, "gated_delta");
  args.dt_bias = read_f32(weights.dt_bias, "gated_delta");
  args.norm_weight = read_f32(weights.norm_weight, "gated_delta");
  args.eps = weights.eps;
  args.conv_state = read_f32(state.conv, "gated_delta");
  args.s_in = read_f32(state.s, "gated_delta");
  // A state that a snapshot shares is left as it is: the new one goes elsewhere.
  mx::array s = is_unshared(state.s) ? std::move(state.s) : make_array(state.s.shape(), mx::float32);
  args.s_out = s.data<float>();
  args.y = out.data<float>();
  const int64_t gates = (args.tokens * args.value_heads + 15) / 16 * 16;
  auto* scratch = static_cast<float*>(
      thread_scratch(0, static_cast<size_t>(args.tokens * args.channels + 2 * gates) * sizeof(float)));
  args.decay = scratch;
  args.beta = scratch + gates;
  args.x = scratch + 2 * gates;
  args.tokens <= kFewTokens ? run_few_tokens(args) : run_many_tokens(args);
  advance_conv(args, state.conv);
  state.s = std::move(s);
  return out;
}

}  // namespace anabranch::ops::cpu
