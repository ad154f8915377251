#include "ops/cuda/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/arguments.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/shapes.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "attention";
constexpr float kLog2E = 1.44269504088896340736f;

Variant variant(int head_dim) {
  const std::string reason = attention_unsupported(head_dim, {});
  require(reason.empty(), kOp, "{}.", reason);
  return {Source::attention, {head_dim}};
}

// Room for `count` more positions, in blocks that nothing else refers to.
void make_room(CudaDevice& on, PagedKv& kv, int count) {
  const auto own = [&](Tensor& block) {
    if (!block.is_unshared()) block = on.copy(block, kOp);
  };
  if (kv.length % kKvBlock != 0) {
    own(kv.k[static_cast<size_t>(kv.length / kKvBlock)]);
    own(kv.v[static_cast<size_t>(kv.length / kKvBlock)]);
  }
  while (static_cast<int>(kv.k.size()) * kKvBlock < kv.length + count) kv_add_block(on, kv);
}

// A launch's spans, and where the blocks of each lie.
class LaunchSpans {
 public:
  explicit LaunchSpans(CudaDevice& on) : on_(on) {}
  // False when the launch is full.
  bool add(const PagedKv& kv, int begin, int count, int group) {
    if (spans_ == kAttendSpans) return false;
    span_[spans_++] = {begin, count, kv.length, static_cast<int>(addresses_.size() / 2), tiles_};
    tiles_ += (count * group + 15) / 16;
    parts_ = std::max(parts_, (kv.length + kPart - 1) / kPart);
    for (size_t b = 0; b < kv.k.size(); b++) {
      for (const Tensor* block : {&kv.k[b], &kv.v[b]})  // 0: dropped
        addresses_.push_back(
            !block->empty() ? reinterpret_cast<unsigned long long>(on_.data<void>(*block, kOp)) : 0);
    }
    return true;
  }
  void fill(AttendArgs& args) {
    args.spans = spans_;
    args.parts = parts_;
    std::copy_n(span_, spans_, args.span);
    args.first_row = span_[0].row;
    args.rows = span_[spans_ - 1].row + span_[spans_ - 1].count - args.first_row;
    if (addresses_.size() <= 2 * kAttendPairs) {
      std::copy(addresses_.begin(), addresses_.end(), args.pairs);
    } else {
      table_ = on_.upload(addresses_.data(), addresses_.size() * sizeof(addresses_[0]));
      args.table = table_.address<unsigned long long>();
    }
  }
  int tiles() const { return tiles_; }
  int parts() const { return parts_; }

 private:
  CudaDevice& on_;
  AttendSpan span_[kAttendSpans];
  int spans_ = 0, tiles_ = 0, parts_ = 0;
  std::vector<unsigned long long> addresses_;
  Block table_;
};

void set_scores(AttendArgs& args, const ScoreSpec& scores) {
  args.window = scores.window;
  args.scale = scores.scale * kLog2E;
  args.soft_cap = scores.soft_cap * kLog2E;
}

void set_rope(CudaDevice& on, AttendArgs& args, const Rope& rope) {
  require(!rope.is_dynamic(), "rope", "there are no kernels for dynamic ropes on CUDA.");
  args.inv_freq = on.frequencies(rope.inv_freq);
  args.pairs_turned = static_cast<int>(rope.inv_freq.size());
  args.attention_factor = rope.attention_factor;
  args.far_from = rope.far_from;
  if (rope.far_from > 0) args.far_inv_freq = on.frequencies(rope.far_inv_freq);
  args.query_beta = rope.query_beta;
  args.query_period = rope.query_period;
}

void launch_prepare(CudaDevice& on, const AttendArgs& args, int head_dim) {
  const int units = args.rows * ((args.q ? args.heads : 0) + (args.k ? 2 * args.kv_heads : 0));
  on.launch(variant(head_dim), "prepare", {static_cast<unsigned>((units + 7) / 8)}, 256, 0, &args);
}

// Parts in blocks of their own where there are few query rows, else one after the other in one block: the
// same bits either way.
void launch_attend(CudaDevice& on, AttendArgs& args, const LaunchSpans& spans, int head_dim) {
  const auto tiles = static_cast<unsigned>(spans.tiles()), heads = static_cast<unsigned>(args.kv_heads);
  const int64_t blocks = int64_t{spans.tiles()} * args.kv_heads;
  const auto parts = static_cast<size_t>(blocks) * static_cast<size_t>(spans.parts()) * 16;
  constexpr size_t kMostScratch = 256u << 20;
  const bool whole = blocks >= 256 || (blocks >= 64 && blocks * spans.parts() > 4096) || spans.parts() == 1 ||
                     parts * static_cast<size_t>(head_dim) * 4 > kMostScratch;
  Block sums, largest;
  if (!whole) {
    sums = on.scratch(parts * static_cast<size_t>(head_dim) * 4);
    largest = on.scratch(parts * 8);
    args.sums = sums.address<float>();
    args.largest = largest.address<float>();
  }
  on.launch(variant(head_dim), "attend", {whole ? 1u : static_cast<unsigned>(spans.parts()), heads, tiles},
            128, 0, &args);
  if (!whole)
    on.launch(variant(head_dim), "combine", {16, heads, tiles}, static_cast<unsigned>(head_dim), 0, &args);
}

}  // namespace

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim) {
  return {{kv_heads, kKvBlock, head_dim}, {kv_heads, head_dim, kKvBlock}};
}

void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v) {
  const int rows = k.shape(0);
  if (rows == 0) return;
  CudaDevice& on = cuda_device(k);
  make_room(on, kv, rows);
  kv.length += rows;
  AttendArgs args{};
  LaunchSpans spans(on);
  spans.add(kv, 0, rows, 1);
  spans.fill(args);
  args.k = on.data(k, "kv_append");
  args.v = on.data(v, "kv_append");
  args.heads = args.kv_heads = kv.kv_heads;
  launch_prepare(on, args, kv.head_dim);
}

Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries) {
  CudaDevice& on = cuda_device(x);
  Tensor out = on.empty(x.shape(), Dtype::f32);
  if (x.size() == 0) return out;
  const Block uploaded = on.upload(positions.data(), positions.size_bytes());
  AttendArgs args{};
  args.rows = x.shape(0);
  args.heads = x.shape(1);
  args.kv_heads = 1;
  args.q = on.data(x, "rope");
  args.q_out = on.data(out, "rope");
  args.positions = uploaded.address<int>();
  set_rope(on, args, rope);
  if (!queries) args.query_beta = 0;
  args.spans = 1;
  args.span[0] = {0, args.rows, args.rows, 0, 0};
  launch_prepare(on, args, x.shape(2));
  return out;
}

Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores) {
  CudaDevice& on = cuda_device(q);
  Tensor out = on.empty(q.shape(), Dtype::f32);
  if (q.size() == 0) return out;
  const Block q16 = on.scratch(static_cast<size_t>(q.size()) * 2);
  AttendArgs args{};
  LaunchSpans spans(on);
  spans.add(kv, 0, q.shape(0), q.shape(1) / kv.kv_heads);
  spans.fill(args);
  args.q = on.data(q, kOp);
  args.q16 = q16.address<unsigned short>();
  args.out = on.data(out, kOp);
  args.heads = q.shape(1);
  args.kv_heads = kv.kv_heads;
  set_scores(args, scores);
  launch_prepare(on, args, kv.head_dim);
  launch_attend(on, args, spans, kv.head_dim);
  return out;
}

MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> batch) {
  const PagedKv& any = *batch.front().kv;
  const int rows = in.q.shape(0), head_dim = any.head_dim, group = in.heads / any.kv_heads;
  const int width = in.heads * head_dim;
  CudaDevice& on = cuda_device(in.q);
  const MatmulInput out = make_packed_cleared(on, rows, width);
  const Block q16 = on.scratch(static_cast<size_t>(rows) * width * 2);
  AttendArgs common{};
  common.q = on.data(in.q, kOp);
  common.k = on.data(in.k, kOp);
  common.v = on.data(in.v, kOp);
  common.q16 = q16.address<unsigned short>();
  if (in.q_norm) common.q_norm = on.data(in.q_norm->weight, kOp), common.q_eps = in.q_norm->eps;
  if (in.k_norm) common.k_norm = on.data(in.k_norm->weight, kOp), common.k_eps = in.k_norm->eps;
  if (in.gate) common.gate = on.data(*in.gate, kOp);
  set_rope(on, common, *in.rope);
  common.tiles = on.data<unsigned short>(out.values, kOp);
  common.tiles_rows = layout_rows(rows);
  common.heads = in.heads;
  common.kv_heads = any.kv_heads;
  set_scores(common, in.scores);
  for (size_t i = 0; i < batch.size();) {
    LaunchSpans spans(on);
    for (; i < batch.size(); i++) {
      const AttentionSpan& s = batch[i];
      for (int t = 0; t < s.count; t++)
        require(in.positions[static_cast<size_t>(s.begin + t)] == s.kv->length + t, kOp,
                "row {} stands at position {}, but on CUDA it must follow the {} that are kept.", s.begin + t,
                in.positions[static_cast<size_t>(s.begin + t)], s.kv->length);
      make_room(on, *s.kv, s.count);
      s.kv->length += s.count;
      if (!spans.add(*s.kv, s.begin, s.count, group)) {
        s.kv->length -= s.count;
        break;
      }
    }
    AttendArgs args = common;
    spans.fill(args);
    launch_prepare(on, args, head_dim);
    launch_attend(on, args, spans, head_dim);
  }
  return out;
}

}  // namespace anabranch::ops::cuda
