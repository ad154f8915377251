#include "ops/cpu/gated_delta.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

void run_heads(const GatedDeltaArgs& args) {
  const CpuKernels& kernel = kernels();
  const auto body = [&](int64_t begin, int64_t end) {
    auto* scratch = static_cast<float*>(
        thread_scratch(0, static_cast<size_t>(kernel.delta_scratch_floats(args)) * sizeof(float)));
    for (int64_t h = begin; h < end; h++) kernel.delta_head(args, h, scratch);
  };
  const int64_t work = args.tokens * args.value_heads * args.key_dim * args.value_dim;
  work < (32 << 10) ? body(0, args.key_heads) : parallel_for(args.key_heads, 1, body);
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
  run_heads(args);
  advance_conv(args, state.conv);
  state.s = std::move(s);
  return out;
}

}  // namespace anabranch::ops::cpu
