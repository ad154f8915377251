#include "ops/indexed_attention.h"

#include <algorithm>
#include <numeric>

#include "ops/arguments.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace anabranch::ops {

Tensor index_keys(const PagedKv& keys, int ratio, int blocks) {
  require(keys.kv_heads == 1 && ratio > 0 && blocks > 0 && int64_t{blocks} * ratio <= keys.length,
          "index_keys", "{} blocks of {} positions of {} heads are not in {}.", blocks, ratio, keys.kv_heads,
          keys.length);
  return keys.k.front().device().ops().index_keys(keys, ratio, blocks);
}

Tensor index_scores(const Tensor& q, const Tensor& keys) {
  require_f32("index_scores", "q", q, 3);
  require_shape("index_scores", "keys", keys, {keys.shape(0), q.shape(2)});
  return q.device().ops().index_scores(q, keys);
}

PagedKv kv_gather(const PagedKv& kv, std::span<const int> positions) {
  for (size_t i = 0; i < positions.size(); i++)
    require(positions[i] >= (i > 0 ? positions[i - 1] + 1 : 0) && positions[i] < kv.length, "kv_gather",
            "position {} is not after the one before it, or not among {}.", positions[i], kv.length);
  PagedKv out;
  out.kv_heads = kv.kv_heads, out.head_dim = kv.head_dim, out.value_dim = kv.value_dim;
  if (positions.empty()) return out;
  Device& device = kv.k.back().device();
  const size_t blocks = (positions.size() + kKvBlock - 1) / kKvBlock;
  while (out.k.size() < blocks) kv_add_block(device, out);
  out.length = static_cast<int>(positions.size());
  device.ops().kv_gather(kv, positions, out);
  return out;
}

std::vector<int> seen_positions(std::span<const float> scores, int position, const IndexSpec& spec) {
  const int whole = (position + 1) / spec.ratio, seen = std::min(whole, spec.blocks);
  require(static_cast<int>(scores.size()) == whole, "seen_positions", "{} scores for {} blocks.",
          scores.size(), whole);
  std::vector<int> blocks(static_cast<size_t>(whole));
  std::iota(blocks.begin(), blocks.end(), 0);
  // A score that is not a number counts as the smallest.
  const auto score = [&](int block) {
    const float s = scores[static_cast<size_t>(block)];
    return s >= 0 ? s : -1.0f;
  };
  std::nth_element(blocks.begin(), blocks.begin() + seen, blocks.end(),
                   [&](int a, int b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
  std::sort(blocks.begin(), blocks.begin() + seen);
  std::vector<int> positions;
  const auto append = [&](int begin, int end) {
    for (int p = begin; p < end; p++) positions.push_back(p);
  };
  for (int i = 0; i < seen; i++) {
    const int block = blocks[static_cast<size_t>(i)];
    append(block * spec.ratio, (block + 1) * spec.ratio);
  }
  append(whole * spec.ratio, position + 1);
  return positions;
}

namespace {

// The keys of the first `blocks` blocks, as queries meet them: [blocks, D].
Tensor turned_keys(const PagedKv& keys, const IndexSpec& spec, int blocks) {
  const Tensor means = index_keys(keys, spec.ratio, blocks);
  const Tensor normed = rms_norm(means, spec.key_norm->weight, spec.key_norm->eps);
  std::vector<int> first;
  for (int block = 0; block < blocks; block++) first.push_back(block * spec.ratio);
  return rope(normed.reshape({blocks, 1, keys.head_dim}), first, *spec.rope).reshape(means.shape());
}

}  // namespace

Tensor indexed_attention(const Tensor& q, const PagedKv& kv, const Tensor& index_q, const PagedKv& keys,
                         const IndexSpec& spec, const ScoreSpec& scores) {
  require_f32("indexed_attention", "q", q, 3);
  require_shape("indexed_attention", "index_q", index_q, {q.shape(0), index_q.shape(1), keys.head_dim});
  require(keys.length == kv.length && q.shape(0) <= kv.length && spec.ratio > 0 && spec.blocks > 0,
          "indexed_attention", "{} rows do not fit {} positions and {} of the index.", q.shape(0), kv.length,
          keys.length);
  const int rows = q.shape(0), first = kv.length - rows;
  // Rows before this one see all positions up to their own.
  const int all = (spec.blocks + 1) * spec.ratio - 1, choosing = std::clamp(all - first, 0, rows);
  std::vector<Tensor> parts;
  if (choosing > 0) {
    PagedKv seen = kv;
    kv_truncate(seen, first + choosing);
    parts.push_back(attention(q.slice_rows(0, choosing), seen, scores));
  }
  if (choosing == rows) return concat_rows(parts);
  const int blocks = kv.length / spec.ratio;
  const Tensor fits =
      to_host(index_scores(index_q.slice_rows(choosing, rows), turned_keys(keys, spec, blocks)));
  for (int row = choosing; row < rows; row++) {
    const float* of_row = fits.data<float>() + static_cast<int64_t>(row - choosing) * blocks;
    const auto whole = static_cast<size_t>((first + row + 1) / spec.ratio);
    const auto positions = seen_positions({of_row, whole}, first + row, spec);
    parts.push_back(attention(q.slice_rows(row, row + 1), kv_gather(kv, positions), scores));
  }
  return concat_rows(parts);
}

}  // namespace anabranch::ops
