#include "ops/reference/attention.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <limits>

namespace anabranch::ops::reference {

void kv_add_block(PagedKv& kv) {
  kv.k.push_back(mx::zeros({kv.kv_heads, kv.head_dim, kKvBlock}, mx::float32));
  kv.v.push_back(mx::zeros({kv.kv_heads, kKvBlock, kv.head_dim}, mx::float32));
  mx::eval(kv.k.back(), kv.v.back());
}

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v) {
  const int tokens = k.shape(0), heads = kv.kv_heads, d = kv.head_dim;
  for (int t = 0; t < tokens;) {
    const size_t block = static_cast<size_t>(kv.length / kKvBlock);
    if (block == kv.k.size()) reference::kv_add_block(kv);
    const int column = kv.length % kKvBlock, count = std::min(tokens - t, kKvBlock - column);
    const auto rows = [&](const mx::array& x) { return mx::slice(x, {t, 0, 0}, {t + count, heads, d}); };
    // An update of a whole block is the update itself, transposed: blocks are row-contiguous, as others copy
    // them.
    kv.k[block] =
        mx::contiguous(mx::slice_update(kv.k[block], mx::transpose(rows(k), {1, 2, 0}),
                                        mx::Shape{0, 0, column}, mx::Shape{heads, d, column + count}));
    kv.v[block] =
        mx::contiguous(mx::slice_update(kv.v[block], mx::transpose(rows(v), {1, 0, 2}),
                                        mx::Shape{0, column, 0}, mx::Shape{heads, column + count, d}));
    kv.length += count;
    t += count;
  }
  mx::eval(kv.k.back(), kv.v.back());  // the graph must not grow with every token
}

mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window) {
  const int tokens = q.shape(0), heads = q.shape(1), d = q.shape(2), per_kv = heads / kv.kv_heads;
  const auto keys = mx::concatenate(kv.k, 2), values = mx::concatenate(kv.v, 1);
  const int columns = keys.shape(2), first = kv.length - tokens;
  // [Hkv, per_kv, T, D] x [Hkv, 1, D, L]
  const auto rows = mx::transpose(mx::reshape(q, {tokens, kv.kv_heads, per_kv, d}), {1, 2, 0, 3});
  auto scores = mx::multiply(mx::matmul(rows, mx::expand_dims(keys, 1)), mx::array(scale));
  const auto at = mx::reshape(mx::arange(0, columns), {1, columns});
  const auto own = mx::reshape(mx::arange(first, first + tokens), {tokens, 1});
  auto visible = mx::less_equal(at, own);
  if (window > 0) visible = mx::logical_and(visible, mx::greater(at, mx::subtract(own, mx::array(window))));
  scores = mx::where(visible, scores, mx::array(-std::numeric_limits<float>::infinity()));
  const auto mixed = mx::matmul(mx::softmax(scores, -1, true), mx::expand_dims(values, 1));
  return mx::reshape(mx::transpose(mixed, {2, 0, 1, 3}), {tokens, heads, d});
}

}  // namespace anabranch::ops::reference
