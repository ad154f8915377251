#include "ops/reference/attention.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <limits>

#include "ops/reference/device.h"

namespace anabranch::ops::reference {
namespace {

// Returns the block with `rows` written over it from `at` on. Blocks are row-contiguous, because other code
// copies them that way. If `rows` is a whole block, slice_update() returns it unchanged, as a view of the
// whole prompt's rows; contiguous() copies it.
Tensor updated(const Tensor& block, const mx::array& rows, const mx::Shape& at) {
  mx::Shape end = at;
  for (size_t i = 0; i < end.size(); i++) end[i] += rows.shape(static_cast<int>(i));
  return from_mlx(block.device(), mx::contiguous(mx::slice_update(as_mlx(block), rows, at, end)));
}

// Skips dropped blocks.
std::vector<mx::array> as_mlx_all(const std::vector<Tensor>& blocks) {
  std::vector<mx::array> arrays;
  for (const Tensor& block : blocks)
    if (!block.empty()) arrays.push_back(as_mlx(block));
  return arrays;
}

}  // namespace

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim) {
  return {{kv_heads, head_dim, kKvBlock}, {kv_heads, kKvBlock, head_dim}};
}

void kv_append(PagedKv& kv, const Tensor& k_rows, const Tensor& v_rows) {
  const mx::array k = as_mlx(k_rows);
  const int tokens = k.shape(0), heads = kv.kv_heads, d = kv.head_dim;
  std::vector<mx::array> changed;
  for (int t = 0; t < tokens;) {
    const size_t block = static_cast<size_t>(kv.length / kKvBlock);
    if (block == kv.k.size()) kv_add_block(k_rows.device(), kv);
    const int column = kv.length % kKvBlock, count = std::min(tokens - t, kKvBlock - column);
    const auto rows = [&](const mx::array& x) { return mx::slice(x, {t, 0, 0}, {t + count, heads, d}); };
    kv.k[block] = updated(kv.k[block], mx::transpose(rows(k), {1, 2, 0}), {0, 0, column});
    changed.push_back(as_mlx(kv.k[block]));
    if (kv.value_dim == 0) {
      kv.v[block] = updated(kv.v[block], mx::transpose(rows(as_mlx(v_rows)), {1, 0, 2}), {0, column, 0});
      changed.push_back(as_mlx(kv.v[block]));
    }
    kv.length += count;
    t += count;
  }
  mx::eval(changed);  // otherwise the graph would grow with every token
}

Tensor attention(const Tensor& queries, const PagedKv& kv, const ScoreSpec& spec, bool whole) {
  const mx::array q = as_mlx(queries);
  const int tokens = q.shape(0), heads = q.shape(1), d = q.shape(2), per_kv = heads / kv.kv_heads;
  const auto keys = mx::concatenate(as_mlx_all(kv.k), 2);
  const int value_dim = kv.value_dim > 0 ? kv.value_dim : d;
  const auto values = kv.value_dim > 0
                          ? mx::transpose(mx::slice(keys, {0, d - value_dim, 0}, keys.shape()), {0, 2, 1})
                          : mx::concatenate(as_mlx_all(kv.v), 1);
  const int columns = keys.shape(2), first = kv.length - tokens;
  const int dropped = static_cast<int>(kv.k.size()) * kKvBlock - columns;
  // [Hkv, per_kv, T, D] x [Hkv, 1, D, L]
  const auto rows = mx::transpose(mx::reshape(q, {tokens, kv.kv_heads, per_kv, d}), {1, 2, 0, 3});
  auto scores = mx::multiply(mx::matmul(rows, mx::expand_dims(keys, 1)), mx::array(spec.scale));
  if (spec.soft_cap > 0)
    scores = mx::multiply(mx::array(spec.soft_cap), mx::tanh(mx::divide(scores, mx::array(spec.soft_cap))));
  const auto at = mx::reshape(mx::arange(dropped, dropped + columns), {1, columns});
  const auto own = mx::reshape(mx::arange(first, first + tokens), {tokens, 1});
  auto visible = whole ? mx::less(at, mx::array(kv.length)) : mx::less_equal(at, own);
  if (spec.window > 0)
    visible = mx::logical_and(visible, mx::greater(at, mx::subtract(own, mx::array(spec.window))));
  scores = mx::where(visible, scores, mx::array(-std::numeric_limits<float>::infinity()));
  if (!spec.sinks.empty()) {
    const auto sinks = mx::reshape(as_mlx(spec.sinks), {kv.kv_heads, per_kv, 1, 1});
    scores = mx::concatenate({scores, mx::broadcast_to(sinks, {kv.kv_heads, per_kv, tokens, 1})}, 3);
  }
  const auto all = mx::softmax(scores, -1, true);
  const auto weights = mx::slice(all, {0, 0, 0, 0}, {kv.kv_heads, per_kv, tokens, columns});
  const auto mixed = mx::matmul(weights, mx::expand_dims(values, 1));
  return from_mlx(queries.device(),
                  mx::reshape(mx::transpose(mixed, {2, 0, 1, 3}), {tokens, heads, value_dim}));
}

}  // namespace anabranch::ops::reference
