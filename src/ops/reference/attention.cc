#include "ops/attention.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <limits>

#include "ops/reference/reference.h"

namespace anabranch::ops::reference {

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v) {
  const int tokens = k.shape(0), heads = kv.kv_heads, dim = kv.head_dim;
  const mx::array keys = mx::transpose(k, {1, 2, 0}), values = mx::transpose(v, {1, 0, 2});
  std::vector<mx::array> changed;
  for (int t = 0; t < tokens;) {
    const size_t block = static_cast<size_t>(kv.length / kKvBlock);
    const int at = kv.length % kKvBlock, count = std::min(kKvBlock - at, tokens - t);
    if (block == kv.k.size()) {
      kv.k.push_back(mx::zeros({heads, dim, kKvBlock}, mx::float32));
      kv.v.push_back(mx::zeros({heads, kKvBlock, dim}, mx::float32));
    }
    kv.k[block] = mx::slice_update(kv.k[block], mx::slice(keys, {0, 0, t}, {heads, dim, t + count}),
                                   mx::Shape{0, 0, at}, mx::Shape{heads, dim, at + count});
    kv.v[block] = mx::slice_update(kv.v[block], mx::slice(values, {0, t, 0}, {heads, t + count, dim}),
                                   mx::Shape{0, at, 0}, mx::Shape{heads, at + count, dim});
    changed.push_back(kv.k[block]);
    changed.push_back(kv.v[block]);
    kv.length += count;
    t += count;
  }
  mx::eval(std::move(changed));  // so that a block is never a graph of all the appends before
}

mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window) {
  const int tokens = q.shape(0), heads = q.shape(1), dim = q.shape(2), length = kv.length;
  const int kv_heads = kv.kv_heads, per_kv = heads / kv_heads;
  const mx::array k = mx::slice(mx::concatenate(kv.k, 2), {0, 0, 0}, {kv_heads, dim, length});
  const mx::array v = mx::slice(mx::concatenate(kv.v, 1), {0, 0, 0}, {kv_heads, length, dim});
  const mx::array rows =
      mx::reshape(mx::transpose(q * mx::array(scale), {1, 0, 2}), {kv_heads, per_kv * tokens, dim});
  mx::array scores = mx::reshape(mx::matmul(rows, k), {kv_heads, per_kv, tokens, length});

  const mx::array own = mx::reshape(mx::arange(length - tokens, length, 1, mx::int32), {tokens, 1});
  const mx::array position = mx::reshape(mx::arange(0, length, 1, mx::int32), {1, length});
  mx::array seen = mx::less_equal(position, own);
  if (window > 0) seen = mx::logical_and(seen, mx::greater(position, own - mx::array(window)));
  scores = mx::where(seen, scores, mx::array(-std::numeric_limits<float>::infinity()));

  const mx::array p =
      mx::reshape(mx::softmax(scores, {3}, /*precise=*/true), {kv_heads, per_kv * tokens, length});
  const mx::array out = mx::reshape(mx::matmul(p, v), {heads, tokens, dim});
  return mx::contiguous(mx::transpose(out, {1, 0, 2}));
}

}  // namespace anabranch::ops::reference
