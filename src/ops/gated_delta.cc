#include "ops/gated_delta.h"

#include <cstring>

#include "ops/arguments.h"
#include "ops/cpu/gated_delta.h"
#include "ops/reference/gated_delta.h"

namespace anabranch::ops {
namespace {

mx::array zeros(mx::Shape shape) {
  mx::array x = empty(std::move(shape), mx::float32);
  if (x.nbytes() > 0) std::memset(x.data<char>(), 0, x.nbytes());
  return x;
}

}  // namespace

GatedDeltaState make_gated_delta_state(const GatedDeltaShape& shape) {
  return {zeros({shape.value_heads, shape.key_dim, shape.value_dim}),
          zeros({shape.conv_kernel - 1, shape.conv_channels()})};
}

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                      GatedDeltaState& state) {
  const char* op = "gated_delta";
  require(shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
              shape.conv_kernel > 0,
          op, "{} value heads do not divide over {} key heads, or a kernel of {} taps.", shape.value_heads,
          shape.key_heads, shape.conv_kernel);
  require_f32(op, "qkv", qkv, 2);
  const int tokens = qkv.shape(0), heads = shape.value_heads, channels = shape.conv_channels();
  require(tokens > 0, op, "there are no tokens.");
  require_shape(op, "qkv", qkv, {tokens, channels});
  require_shape(op, "z", z, {tokens, heads * shape.value_dim});
  require_shape(op, "b", b, {tokens, heads});
  require_shape(op, "a", a, {tokens, heads});
  require_shape(op, "conv_weight", weights.conv_weight, {shape.conv_kernel, channels});
  require_shape(op, "a_log", weights.a_log, {heads});
  require_shape(op, "dt_bias", weights.dt_bias, {heads});
  require_shape(op, "norm_weight", weights.norm_weight, {shape.value_dim});
  require_shape(op, "the state", state.s, {heads, shape.key_dim, shape.value_dim});
  require_shape(op, "the convolution state", state.conv, {shape.conv_kernel - 1, channels});
  return backend() == Backend::cpu ? cpu::gated_delta(qkv, z, b, a, shape, weights, state)
                                   : reference::gated_delta(qkv, z, b, a, shape, weights, state);
}

}  // namespace anabranch::ops
