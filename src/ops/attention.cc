#include "ops/attention.h"

#include <algorithm>

#include "ops/arguments.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace anabranch::ops {

void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v) {
  require_f32("kv_append", "k", k, 3);
  require_shape("kv_append", "k", k, {k.shape(0), kv.kv_heads, kv.head_dim});
  if (kv.value_dim == 0) require_shape("kv_append", "v", v, k.shape());
  k.device().ops().kv_append(kv, k, v);
}

KvBlockShapes kv_block_shapes(const Device& device, int kv_heads, int head_dim) {
  return device.ops().kv_block_shapes(kv_heads, head_dim);
}

void kv_add_block(Device& device, PagedKv& kv) {
  const KvBlockShapes shapes = kv_block_shapes(device, kv.kv_heads, kv.head_dim);
  kv.k.push_back(device.zeros(shapes.k, device.kv_dtype()));
  kv.v.push_back(kv.value_dim > 0 ? Tensor() : device.zeros(shapes.v, device.kv_dtype()));
}

int first_block_seen(int position, int window) {
  return window > 0 ? std::max(0, position + 1 - window) / kKvBlock : 0;
}

int kv_drop_unseen(PagedKv& kv, int window) {
  const int first = std::min(first_block_seen(kv.length, window), static_cast<int>(kv.k.size()));
  for (int b = first - 1; b >= 0 && !kv.k[static_cast<size_t>(b)].empty(); b--)
    kv.k[static_cast<size_t>(b)] = kv.v[static_cast<size_t>(b)] = Tensor();
  return first;
}

void kv_truncate(PagedKv& kv, int length) {
  require(length >= 0 && length <= kv.length, "kv_truncate", "cannot cut {} positions to {}.", kv.length,
          length);
  kv.length = length;
  const auto blocks = (length + kKvBlock - 1) / kKvBlock;
  kv.k.erase(kv.k.begin() + blocks, kv.k.end());
  kv.v.erase(kv.v.begin() + blocks, kv.v.end());
}

Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole) {
  require_f32("attention", "q", q, 3);
  require(kv.kv_heads > 0 && q.shape(1) % kv.kv_heads == 0 && q.shape(2) == kv.head_dim, "attention",
          "q of shape {} does not fit {} kv heads of {}.", q.shape(), kv.kv_heads, kv.head_dim);
  require(kv.value_dim >= 0 && kv.value_dim <= kv.head_dim, "attention", "{} dimensions of {} are values.",
          kv.value_dim, kv.head_dim);
  require(q.shape(0) <= kv.length, "attention", "q has {} rows, the cache only {} positions.", q.shape(0),
          kv.length);
  if (!scores.sinks.empty()) require_shape("attention", "sinks", scores.sinks, {q.shape(1)});
  return q.device().ops().attention(q, kv, scores, whole);
}

MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> spans) {
  require(!spans.empty(), "attend", "there are no spans.");
  const int rows = in.q.shape(0), kv_heads = spans.front().kv->kv_heads,
            head_dim = spans.front().kv->head_dim;
  require(spans.front().kv->value_dim == 0, "attend", "values must have rows of their own.");
  require(kv_heads > 0 && in.heads % kv_heads == 0, "attend", "{} heads do not fit {} kv heads.", in.heads,
          kv_heads);
  require_shape("attend", "q", in.q, {rows, in.heads * head_dim});
  require_shape("attend", "k", in.k, {rows, kv_heads * head_dim});
  require_shape("attend", "v", in.v, in.k.shape());
  if (in.gate) require_shape("attend", "gate", *in.gate, in.q.shape());
  if (!in.scores.sinks.empty()) require_shape("attend", "sinks", in.scores.sinks, {in.heads});
  positions_of_row("attend", *in.rope, in.positions, rows);
  int covered = 0;
  for (const AttentionSpan& span : spans) {
    require(span.begin == covered && span.count > 0, "attend", "a span begins at row {}, not {}.", span.begin,
            covered);
    covered += span.count;
  }
  require(covered == rows, "attend", "the spans cover {} of {} rows.", covered, rows);
  if (in.q.device().ops().attend) return in.q.device().ops().attend(in, spans);

  const auto rotated = [&](const Tensor& x, const RowNorm* norm, int heads, bool queries) {
    const auto normed = norm ? rms_norm(x.reshape({rows * heads, head_dim}), norm->weight, norm->eps) : x;
    return rope(normed.reshape({rows, heads, head_dim}), in.positions, *in.rope, queries);
  };
  const auto q = rotated(in.q, in.q_norm, in.heads, true), k = rotated(in.k, in.k_norm, kv_heads, false);
  const auto v = in.v.reshape({rows, kv_heads, head_dim});
  std::vector<Tensor> parts;
  for (const AttentionSpan& span : spans) {
    const int end = span.begin + span.count;
    kv_append(*span.kv, k.slice_rows(span.begin, end), v.slice_rows(span.begin, end));
    parts.push_back(attention(q.slice_rows(span.begin, end), *span.kv, in.scores, span.whole));
  }
  const auto y = concat_rows(parts).reshape({rows, in.heads * head_dim});
  return in.gate ? sigmoid_gate(y, *in.gate) : y;
}

}  // namespace anabranch::ops
