#include "ops/cuda/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/arguments.h"
#include "ops/cuda/array.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/shapes.h"

namespace anabranch::ops::cuda {
namespace {

const char* const kOp = "attention";
constexpr float kLog2E = 1.44269504088896340736f;

Function attention_kernel(int head_dim, const char* name) {
  const std::string obstacle = attention_obstacle(head_dim);
  require(obstacle.empty(), kOp, "{}.", obstacle);
  return kernel({Source::attention, {head_dim}}, name);
}

// Room for `count` more positions, in blocks that nothing else refers to.
void make_room(PagedKv& kv, int count) {
  const auto own = [](mx::array& block) {
    if (!is_unshared(block)) block = copy(block, kOp);
  };
  if (kv.length % kKvBlock != 0) {
    own(kv.k[static_cast<size_t>(kv.length / kKvBlock)]);
    own(kv.v[static_cast<size_t>(kv.length / kKvBlock)]);
  }
  while (static_cast<int>(kv.k.size()) * kKvBlock < kv.length + count) cuda::kv_add_block(kv);
}

// Frequencies on the device, of each set that was ever asked for: a model has one.
const float* frequencies(std::span<const float> inv_freq) {
  struct Entry {
    std::vector<float> host;
    mx::array device;
  };
  static auto* entries = new std::vector<Entry>;
  for (const Entry& e : *entries)
    if (std::equal(e.host.begin(), e.host.end(), inv_freq.begin(), inv_freq.end()))
      return data(e.device, kOp);
  const mx::array host(inv_freq.data(), {static_cast<int>(inv_freq.size())}, mx::float32);
  entries->push_back({{inv_freq.begin(), inv_freq.end()}, to_device(host)});
  return data(entries->back().device, kOp);
}

// A launch's spans, and where the blocks of each lie.
class Spans {
 public:
  // False when the launch is full.
  bool add(const PagedKv& kv, int begin, int count, int group) {
    if (spans_ == kAttendSpans) return false;
    span_[spans_++] = {begin, count, kv.length, static_cast<int>(addresses_.size() / 2), tiles_};
    tiles_ += (count * group + 15) / 16;
    parts_ = std::max(parts_, (kv.length + kPart - 1) / kPart);
    for (size_t b = 0; b < kv.k.size(); b++) {
      addresses_.push_back(reinterpret_cast<unsigned long long>(address_of(kv.k[b], kOp)));
      addresses_.push_back(reinterpret_cast<unsigned long long>(address_of(kv.v[b], kOp)));
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
      table_ = upload(addresses_.data(), addresses_.size() * sizeof(addresses_[0]));
      args.table = static_cast<const unsigned long long*>(table_.get());
    }
  }
  int tiles() const { return tiles_; }
  int parts() const { return parts_; }

 private:
  AttendSpan span_[kAttendSpans];
  int spans_ = 0, tiles_ = 0, parts_ = 0;
  std::vector<unsigned long long> addresses_;
  std::shared_ptr<void> table_;
};

void launch_prepare(const AttendArgs& args, int head_dim) {
  const int units = args.rows * ((args.q ? args.heads : 0) + (args.k ? 2 * args.kv_heads : 0));
  launch(attention_kernel(head_dim, "prepare"), {static_cast<unsigned>((units + 7) / 8)}, 256, 0, &args);
}

// Parts in blocks of their own where there are few query rows, else one after the other in one block: the
// same bits either way.
void launch_attend(AttendArgs& args, const Spans& spans, int head_dim) {
  const auto tiles = static_cast<unsigned>(spans.tiles()), heads = static_cast<unsigned>(args.kv_heads);
  const int64_t blocks = int64_t{spans.tiles()} * args.kv_heads;
  const auto parts = static_cast<size_t>(blocks) * static_cast<size_t>(spans.parts()) * 16;
  constexpr size_t kMostScratch = 256u << 20;
  const bool whole = blocks >= 256 || (blocks >= 64 && blocks * spans.parts() > 4096) || spans.parts() == 1 ||
                     parts * static_cast<size_t>(head_dim) * 4 > kMostScratch;
  std::shared_ptr<void> sums, largest;
  if (!whole) {
    sums = scratch(parts * static_cast<size_t>(head_dim) * 4);
    largest = scratch(parts * 8);
    args.sums = static_cast<float*>(sums.get());
    args.largest = static_cast<float*>(largest.get());
  }
  launch(attention_kernel(head_dim, "attend"),
         {whole ? 1u : static_cast<unsigned>(spans.parts()), heads, tiles}, 128, 0, &args);
  if (!whole)
    launch(attention_kernel(head_dim, "combine"), {16, heads, tiles}, static_cast<unsigned>(head_dim), 0,
           &args);
}

}  // namespace

void kv_add_block(PagedKv& kv) {
  kv.k.push_back(make_zeros({kv.kv_heads, kKvBlock, kv.head_dim}, mx::float16));
  kv.v.push_back(make_zeros({kv.kv_heads, kv.head_dim, kKvBlock}, mx::float16));
}

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v) {
  const int rows = k.shape(0);
  if (rows == 0) return;
  make_room(kv, rows);
  kv.length += rows;
  AttendArgs args{};
  Spans spans;
  spans.add(kv, 0, rows, 1);
  spans.fill(args);
  args.k = data(k, "kv_append");
  args.v = data(v, "kv_append");
  args.heads = args.kv_heads = kv.kv_heads;
  launch_prepare(args, kv.head_dim);
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  mx::array out = make_array(x.shape(), mx::float32);
  if (x.size() == 0) return out;
  const auto on_device = upload(positions.data(), positions.size_bytes());
  AttendArgs args{};
  args.rows = x.shape(0);
  args.heads = x.shape(1);
  args.kv_heads = 1;
  args.q = data(x, "rope");
  args.q_out = data(out, "rope");
  args.positions = static_cast<const int*>(on_device.get());
  args.inv_freq = frequencies(inv_freq);
  args.pairs_turned = static_cast<int>(inv_freq.size());
  args.attention_factor = attention_factor;
  args.spans = 1;
  args.span[0] = {0, args.rows, args.rows, 0, 0};
  launch_prepare(args, x.shape(2));
  return out;
}

mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window) {
  mx::array out = make_array(q.shape(), mx::float32);
  if (q.size() == 0) return out;
  const auto q16 = scratch(q.size() * 2);
  AttendArgs args{};
  Spans spans;
  spans.add(kv, 0, q.shape(0), q.shape(1) / kv.kv_heads);
  spans.fill(args);
  args.q = data(q, kOp);
  args.q16 = static_cast<unsigned short*>(q16.get());
  args.out = data(out, kOp);
  args.heads = q.shape(1);
  args.kv_heads = kv.kv_heads;
  args.window = window;
  args.scale = scale * kLog2E;
  launch_prepare(args, kv.head_dim);
  launch_attend(args, spans, kv.head_dim);
  return out;
}

mx::array attend(const AttentionInputs& in, std::span<const AttentionSpan> batch) {
  const PagedKv& any = *batch.front().kv;
  const int rows = in.q.shape(0), head_dim = any.head_dim, group = in.heads / any.kv_heads;
  const int width = in.heads * head_dim;
  mx::array out = make_activations(rows, width);
  if (width % 64 != 0)
    clear(address_of(out, kOp), static_cast<size_t>(width + 63) / 64 * layout_rows(rows) * 128);
  const auto q16 = scratch(static_cast<size_t>(rows) * width * 2);
  AttendArgs common{};
  common.q = data(in.q, kOp);
  common.k = data(in.k, kOp);
  common.v = data(in.v, kOp);
  common.q16 = static_cast<unsigned short*>(q16.get());
  if (in.q_norm) common.q_norm = data(in.q_norm->weight, kOp), common.q_eps = in.q_norm->eps;
  if (in.k_norm) common.k_norm = data(in.k_norm->weight, kOp), common.k_eps = in.k_norm->eps;
  if (in.gate) common.gate = data(*in.gate, kOp);
  common.inv_freq = frequencies(in.inv_freq);
  common.pairs_turned = static_cast<int>(in.inv_freq.size());
  common.attention_factor = in.attention_factor;
  common.tiles = data<unsigned short>(out, kOp);
  common.tiles_rows = layout_rows(rows);
  common.heads = in.heads;
  common.kv_heads = any.kv_heads;
  common.window = in.window;
  common.scale = in.scale * kLog2E;
  for (size_t i = 0; i < batch.size();) {
    Spans spans;
    for (; i < batch.size(); i++) {
      const AttentionSpan& s = batch[i];
      for (int t = 0; t < s.count; t++)
        require(in.positions[static_cast<size_t>(s.begin + t)] == s.kv->length + t, kOp,
                "row {} stands at position {}, but on CUDA it must follow the {} that are kept.", s.begin + t,
                in.positions[static_cast<size_t>(s.begin + t)], s.kv->length);
      make_room(*s.kv, s.count);
      s.kv->length += s.count;
      if (!spans.add(*s.kv, s.begin, s.count, group)) {
        s.kv->length -= s.count;
        break;
      }
    }
    AttendArgs args = common;
    spans.fill(args);
    launch_prepare(args, head_dim);
    launch_attend(args, spans, head_dim);
  }
  return out;
}

}  // namespace anabranch::ops::cuda
