#include "ops/reference/indexed_attention.h"

#include <mlx/ops.h>

#include <cmath>

#include "ops/reference/device.h"

namespace anabranch::ops::reference {
namespace {

// All blocks, one after the other along the axis of the positions.
mx::array joined_blocks(const std::vector<Tensor>& blocks, int axis) {
  std::vector<mx::array> arrays;
  for (const Tensor& block : blocks) arrays.push_back(as_mlx(block));
  return mx::concatenate(arrays, axis);
}

// The positions of `all`, padded with zeros, cut into the blocks `to`.
void put_blocks(const mx::array& all, const mx::array& positions, int axis, std::vector<Tensor>& to) {
  const auto taken = mx::take(all, positions, axis);
  const int count = positions.shape(0), blocks = static_cast<int>(to.size());
  const auto padded = mx::pad(taken, {axis}, {0}, {blocks * kKvBlock - count}, mx::array(0.0f));
  for (int b = 0; b < blocks; b++) {
    mx::Shape begin(3, 0), end = padded.shape();
    begin[static_cast<size_t>(axis)] = b * kKvBlock;
    end[static_cast<size_t>(axis)] = (b + 1) * kKvBlock;
    const auto block = mx::astype(mx::slice(padded, begin, end), all.dtype());
    to[static_cast<size_t>(b)] = from_mlx(to[static_cast<size_t>(b)].device(), mx::contiguous(block));
  }
}

}  // namespace

Tensor index_keys(const PagedKv& keys, int ratio, int blocks) {
  const int d = keys.head_dim;
  const auto all =
      mx::slice(mx::astype(joined_blocks(keys.k, 2), mx::float32), {0, 0, 0}, {1, d, blocks * ratio});
  const auto means = mx::mean(mx::reshape(all, {d, blocks, ratio}), 2);
  return from_mlx(keys.k.front().device(), mx::contiguous(mx::transpose(means)));
}

Tensor index_scores(const Tensor& q, const Tensor& keys) {
  const auto products = mx::matmul(as_mlx(q), mx::transpose(as_mlx(keys)));  // [T, heads, B]
  const auto sum = mx::sum(mx::maximum(products, mx::array(0.0f)), 1);
  const float root = std::sqrt(static_cast<float>(q.shape(2)));
  return from_mlx(q.device(), mx::divide(sum, mx::array(root)));
}

void kv_gather(const PagedKv& kv, std::span<const int> positions, PagedKv& out) {
  const mx::array at(positions.data(), {static_cast<int>(positions.size())});
  put_blocks(joined_blocks(kv.k, 2), at, 2, out.k);
  if (kv.value_dim == 0) put_blocks(joined_blocks(kv.v, 1), at, 1, out.v);
}

}  // namespace anabranch::ops::reference
