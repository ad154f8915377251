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

constexpr int kTileRows = 16, kManyRows = 64;  // query rows per tile; per warpgroup of attend_many()
constexpr int kTogether = 64, kRound = 1024;   // parts that combine() loads, and weighs, at a time

// A head's dimensions; values: how many of them are values, too, or 0 (PagedKv::value_dim).
struct Head {
  int dim, values = 0;
  explicit Head(int dim, int values = 0) : dim(dim), values(values) {}
  explicit Head(const PagedKv& kv) : Head(kv.head_dim, kv.value_dim) {}
};

// The shape of attention.cu: the number of ring stages, such that a block fits into shared memory. Up to 256
// dimensions two blocks do.
struct KernelShape {
  Head head;
  int stages;
  KernelShape(const CudaDevice& on, Head of) : head(of), stages(on.info().capability >= 90 ? 6 : 3) {
    const std::string reason = attention_unsupported(head.dim, {});
    require(reason.empty(), kOp, "{}.", reason);
    if (shared_bytes() > static_cast<unsigned>(on.info().shared_bytes)) stages = 3;
    // The ring also holds the results of 16 rows.
    if (16 * (head.dim + 8) * 4 > stages * stage_bytes()) stages = 6;
  }
  Variant variant() const {
    return AttentionVariant{.head_dim = head.dim, .stages = stages, .values = head.values};
  }
  int stage_bytes() const {
    const int wide = head.dim % 64 == 0 ? 64 : 32;
    const int rows = head.dim % 128 == 0 ? 128 : head.dim % 96 == 0 ? 96 : wide;
    return (head.values > 0 ? wide : std::max(wide, rows / 2)) * kPart * 2;
  }
  // Shared memory of a block: must match sizeof(Group).
  unsigned shared_bytes() const {
    return static_cast<unsigned>(stages * (stage_bytes() + 8) + 32 * head.dim +
                                 std::max(16 * head.dim, 4096) + 1280);
  }
};

// Makes room for `count` more positions, in blocks that nothing else refers to.
void make_room(CudaDevice& on, PagedKv& kv, int count) {
  const auto own = [&](Tensor& block) {
    if (!block.empty() && !block.is_unshared()) block = on.copy(block, kOp);
  };
  if (kv.length % kKvBlock != 0) {
    own(kv.k[static_cast<size_t>(kv.length / kKvBlock)]);
    own(kv.v[static_cast<size_t>(kv.length / kKvBlock)]);
  }
  while (static_cast<int>(kv.k.size()) * kKvBlock < kv.length + count) kv_add_block(on, kv);
}

// A launch's spans, and the addresses of their blocks.
class LaunchSpans {
 public:
  // length: of the cache, including these rows.
  void add(const PagedKv& kv, int length, int begin, int count, int window = 0, bool whole = false) {
    AttendSpan s{.row = begin, .count = count, .length = length, .whole = whole};
    s.first_pair = static_cast<int>(addresses_.size() / 2);
    s.begin = window > 0 ? std::max(0, length - count - window + 1) / kPart : 0;
    spans_.push_back(s);
    for (size_t b = 0; b < kv.k.size(); b++)
      for (const Tensor* block : {&kv.k[b], &kv.v[b]})  // 0: dropped block
        addresses_.push_back(block->empty() ? 0 : static_cast<unsigned long long>(block->device_address()));
  }
  bool empty() const { return spans_.empty(); }
  // Divides each span into units of one tile of `rows` query rows, with all parts of the span.
  void set_tiles(int group, int rows) {
    tile_rows_ = rows;
    for (AttendSpan& s : spans_) {
      s.splits = 1;
      s.unit_parts = parts(s);
      s.first_unit = units_;
      units_ += tiles(s, group, rows);
    }
  }
  // Divides tiles of kTileRows into units of several parts, so that there are about `wanted` units for each
  // kv head, as long as at most most_slots slots are needed. If there are almost enough tiles and no span is
  // much longer than average, spans are not split.
  void set_units(int group, int wanted, int64_t most_slots) {
    int64_t all = 0, tiles_of_all = 0;
    for (const AttendSpan& s : spans_) {
      all += int64_t{tiles(s, group, kTileRows)} * parts(s);
      tiles_of_all += tiles(s, group, kTileRows);
      longest_ = std::max(longest_, parts(s));
    }
    int64_t unit = std::max<int64_t>((all + wanted - 1) / wanted, 1);
    if (3 * tiles_of_all >= wanted && longest_ * tiles_of_all <= 2 * all) unit = longest_;
    for (;; unit *= 2) {
      units_ = slots_ = 0;
      for (AttendSpan& s : spans_) {
        const int of_span = parts(s), tiles_of_span = tiles(s, group, kTileRows);
        s.splits = static_cast<int>(std::max<int64_t>((of_span + unit / 2) / unit, 1));
        s.unit_parts = (of_span + s.splits - 1) / s.splits;
        s.splits = (of_span + s.unit_parts - 1) / s.unit_parts;
        s.first_unit = units_;
        s.first_slot = slots_;
        units_ += tiles_of_span * s.splits;
        if (s.splits > 1) slots_ += tiles_of_span * of_span;
      }
      if (slots_ <= most_slots) return;
    }
  }
  // Copies spans and addresses into args; what does not fit there goes to memory of this object or of the
  // device.
  void fill(CudaDevice& on, AttendArgs& args) {
    args.spans = static_cast<int>(spans_.size());
    args.first_row = spans_.front().row;
    args.rows = spans_.back().row + spans_.back().count - args.first_row;
    const bool few = spans_.size() <= kAttendSpans;
    if (few) std::copy(spans_.begin(), spans_.end(), args.span);
    if (addresses_.size() <= 2 * kAttendPairs && few) {
      std::copy(addresses_.begin(), addresses_.end(), args.pairs);
    } else if (few) {
      args.table = on.table(addresses_);
    } else {
      const size_t table_bytes = addresses_.size() * 8, span_bytes = spans_.size() * sizeof(AttendSpan);
      std::vector<char> bytes(table_bytes + span_bytes);
      std::memcpy(bytes.data(), addresses_.data(), table_bytes);
      std::memcpy(bytes.data() + table_bytes, spans_.data(), span_bytes);
      tables_ = on.upload(bytes.data(), bytes.size());
      args.table = tables_.address<unsigned long long>();
      args.span_table = reinterpret_cast<AttendSpan*>(tables_.address<char>() + table_bytes);
    }
  }
  int units() const { return units_; }
  int slots() const { return slots_; }
  int longest() const { return longest_; }  // parts of the longest span
  int most_rows() const { return std::ranges::max_element(spans_, {}, &AttendSpan::count)->count; }
  int tile_rows() const { return tile_rows_; }
  int tiles(int group, int rows) const {
    int sum = 0;
    for (const AttendSpan& s : spans_) sum += tiles(s, group, rows);
    return sum;
  }

 private:
  static int parts(const AttendSpan& s) { return (s.length - 1) / kPart + 1 - s.begin; }
  static int tiles(const AttendSpan& s, int group, int rows) { return (s.count * group + rows - 1) / rows; }

  std::vector<AttendSpan> spans_;
  std::vector<unsigned long long> addresses_;
  int tile_rows_ = 0, units_ = 0, slots_ = 0, longest_ = 0;
  Block tables_;
};

void set_scores(CudaDevice& on, AttendArgs& args, const ScoreSpec& scores) {
  args.window = scores.window;
  args.scale = scores.scale * kLog2E;
  args.soft_cap = scores.soft_cap * kLog2E;
  if (!scores.sinks.empty()) args.sinks = on.data(scores.sinks, kOp);
}

// uploaded: the positions of all rows; null: they follow from the spans.
void set_rope(CudaDevice& on, AttendArgs& args, const Rope& rope, const int* uploaded, int of_row) {
  require(!rope.is_dynamic(), "rope", "there are no kernels for dynamic ropes on CUDA.");
  args.inv_freq = on.frequencies(rope.inv_freq);
  args.pairs_turned = static_cast<int>(rope.inv_freq.size());
  args.attention_factor = rope.attention_factor;
  args.far_from = rope.far_from;
  if (rope.far_from > 0) args.far_inv_freq = on.frequencies(rope.far_inv_freq);
  args.query_beta = rope.query_beta;
  args.query_period = rope.query_period;
  args.positions = uploaded;
  args.axes = of_row;
  if (of_row > 1) args.axis = on.frequencies(std::vector<float>(rope.axis.begin(), rope.axis.end()));
}

void launch_prepare(CudaDevice& on, const AttendArgs& args, Head head) {
  const int kept = args.k ? (head.values > 0 ? 1 : 2) * args.kv_heads : 0;
  const int units = args.rows * ((args.q ? args.heads : 0) + kept);
  on.launch(KernelShape(on, head).variant(), "prepare", {static_cast<unsigned>((units + 7) / 8)}, 256, 0,
            &args);
}

// Plan for few query rows, 16 at a time. If there would be too few blocks, a block takes only some of the
// parts, and another kernel joins the results.
void plan_few(CudaDevice& on, AttendArgs& args, LaunchSpans& spans, int head_dim, bool alone) {
  const int group = args.heads / args.kv_heads;
  args.slot_rows = std::min(kTileRows, spans.most_rows() * group);
  const int64_t slot_bytes = int64_t{args.kv_heads} * args.slot_rows * (head_dim * 4 + 8);
  constexpr int64_t kMostScratch = int64_t{1} << 30;
  spans.set_units(group, std::max(2 * on.info().multiprocessors / args.kv_heads, 1),
                  kMostScratch / slot_bytes);
  args.joined_ahead = std::min(kJoinedAhead, (spans.longest() + kTogether - 1) / kTogether);
  // Each block prepares its own queries; only if that is at most one query for each warp.
  args.prepares = alone && args.k && spans.most_rows() * group <= 4;
  spans.fill(on, args);
}
void launch_few(CudaDevice& on, AttendArgs& args, const LaunchSpans& spans, Head head) {
  const KernelShape shape(on, head);
  const auto rows = static_cast<size_t>(spans.slots()) * static_cast<size_t>(args.kv_heads * args.slot_rows);
  Block sums, largest;
  if (rows > 0) {
    sums = on.scratch(rows * static_cast<size_t>(head.dim) * 4);
    largest = on.scratch(rows * 8);
    args.sums = sums.address<float>();
    args.largest = largest.address<float>();
  }
  on.launch(shape.variant(), "attend", {static_cast<unsigned>(spans.units() * args.kv_heads)}, 128,
            shape.shared_bytes(), &args);
  if (rows == 0) return;
  const Grid grid{static_cast<unsigned>(head.dim / 32), static_cast<unsigned>(args.heads),
                  static_cast<unsigned>(args.rows)};
  const int bytes = args.joined_ahead * kTogether * 32 * 4 + 32 + std::min(spans.longest(), kRound) * 16;
  on.launch(shape.variant(), "combine", grid, 128, static_cast<unsigned>(bytes), &args);
}

// Plan for many query rows on Hopper: 128 per block, or 64 if that takes less time.
void plan_many(CudaDevice& on, AttendArgs& args, LaunchSpans& spans) {
  const int group = args.heads / args.kv_heads, processors = on.info().multiprocessors;
  const auto rounds = [&](int rows) {
    return (spans.tiles(group, rows) * args.kv_heads + processors - 1) / processors;
  };
  const bool half = 3 * rounds(kManyRows) < 4 * rounds(2 * kManyRows);
  spans.set_tiles(group, half ? kManyRows : 2 * kManyRows);
  spans.fill(on, args);
}
void launch_many(CudaDevice& on, const AttendArgs& args, const LaunchSpans& spans, int head_dim) {
  const int warpgroups = spans.tile_rows() / kManyRows;
  on.launch(AttentionManyVariant{.head_dim = head_dim, .warpgroups = warpgroups}, "attend_many",
            {static_cast<unsigned>(spans.units() * args.kv_heads)},
            static_cast<unsigned>(128 * warpgroups + 128), static_cast<unsigned>(on.info().shared_bytes),
            &args);
}
// Whether these spans can use attend_many(), and keep enough multiprocessors busy with it.
bool are_many(const CudaDevice& on, const AttendArgs& args, const LaunchSpans& spans, Head head) {
  return on.info().capability == 90 && head.values == 0 &&
         (head.dim == 64 || head.dim == 128 || head.dim == 256) && !spans.empty() &&
         spans.tiles(args.heads / args.kv_heads, kManyRows) * args.kv_heads * 4 >= on.info().multiprocessors;
}

// The next rows of a sequence. length: of its cache, including their keys and values, which may not be stored
// yet.
struct Rows {
  const PagedKv* kv;
  int length, begin, count;
  bool whole;
};
// Prepares all rows and computes their attention. common: the arguments that all launches share.
void attend_to(CudaDevice& on, const AttendArgs& common, std::span<const Rows> batch, Head head) {
  const int group = common.heads / common.kv_heads;
  const auto spans_of = [&](const auto& wanted) {
    LaunchSpans spans;
    for (const Rows& rows : batch)
      if (wanted(rows)) spans.add(*rows.kv, rows.length, rows.begin, rows.count, common.window, rows.whole);
    return spans;
  };
  const auto is_long = [&](const Rows& rows) { return rows.count * group >= kManyRows; };
  LaunchSpans many = spans_of(is_long);
  const bool any_many = are_many(on, common, many, head);
  LaunchSpans few = spans_of([&](const Rows& rows) { return !any_many || !is_long(rows); });
  AttendArgs of_few = common, of_many = common;
  // Other spans of the same sequence accompany an image's span, and they need all keys to be stored first.
  const bool apart = std::ranges::none_of(batch, &Rows::whole);
  if (!few.empty()) plan_few(on, of_few, few, head.dim, !any_many && apart);
  if (any_many) plan_many(on, of_many, many);
  if (any_many && !few.empty()) {
    LaunchSpans all = spans_of([](const Rows&) { return true; });
    AttendArgs of_all = common;
    all.fill(on, of_all);
    launch_prepare(on, of_all, head);
  } else {
    if (any_many || !of_few.prepares) launch_prepare(on, any_many ? of_many : of_few, head);
  }
  if (any_many) launch_many(on, of_many, many, head.dim);
  if (!few.empty()) launch_few(on, of_few, few, head);
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
  LaunchSpans spans;
  spans.add(kv, kv.length, 0, rows);
  spans.fill(on, args);
  args.k = on.data(k, "kv_append");
  if (kv.value_dim == 0) args.v = on.data(v, "kv_append");
  args.heads = args.kv_heads = kv.kv_heads;
  launch_prepare(on, args, Head(kv));
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
  set_rope(on, args, rope, uploaded.address<int>(), positions_of_row("rope", rope, positions, args.rows));
  if (!queries) args.query_beta = 0;
  args.spans = 1;
  args.span[0] = {.row = 0, .count = args.rows, .length = args.rows};
  launch_prepare(on, args, Head(x.shape(2)));
  return out;
}

Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole) {
  CudaDevice& on = cuda_device(q);
  const int width = kv.value_dim > 0 ? kv.value_dim : kv.head_dim;
  Tensor out = on.empty({q.shape(0), q.shape(1), width}, Dtype::f32);
  if (q.size() == 0) return out;
  const Block q16 = on.scratch(static_cast<size_t>(q.size()) * 2);
  AttendArgs args{};
  args.q = on.data(q, kOp);
  args.q16 = q16.address<unsigned short>();
  args.out = on.data(out, kOp);
  args.heads = q.shape(1);
  args.kv_heads = kv.kv_heads;
  set_scores(on, args, scores);
  const Rows rows{&kv, kv.length, 0, q.shape(0), whole};
  attend_to(on, args, {&rows, 1}, Head(kv));
  return out;
}

MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> batch) {
  const PagedKv& any = *batch.front().kv;
  const int rows = in.q.shape(0), head_dim = any.head_dim;
  const int width = in.heads * head_dim;
  CudaDevice& on = cuda_device(in.q);
  const MatmulInput out =
      in.plain ? MatmulInput(on.empty({rows, width}, Dtype::f32)) : make_packed_cleared(on, rows, width);
  const Block q16 = on.scratch(static_cast<size_t>(rows) * width * 2);
  AttendArgs args{};
  args.q = on.data(in.q, kOp);
  args.k = on.data(in.k, kOp);
  args.v = on.data(in.v, kOp);
  args.q16 = q16.address<unsigned short>();
  if (in.q_norm) args.q_norm = on.data(in.q_norm->weight, kOp), args.q_eps = in.q_norm->eps;
  if (in.k_norm) args.k_norm = on.data(in.k_norm->weight, kOp), args.k_eps = in.k_norm->eps;
  if (in.gate) args.gate = on.data(*in.gate, kOp);
  const int of_row = positions_of_row(kOp, *in.rope, in.positions, rows);
  Block uploaded;
  if (of_row > 1) uploaded = on.upload(in.positions.data(), in.positions.size_bytes());
  set_rope(on, args, *in.rope, of_row > 1 ? uploaded.address<int>() : nullptr, of_row);
  if (in.plain)
    args.out = on.data(out.values, kOp);
  else
    args.tiles = on.data<unsigned short>(out.values, kOp);
  args.tiles_rows = layout_rows(rows);
  args.heads = in.heads;
  args.kv_heads = any.kv_heads;
  set_scores(on, args, in.scores);
  std::vector<Rows> all;
  for (const AttentionSpan& s : batch) {
    for (int t = 0; t < s.count && of_row == 1;
         t++)  // with several positions per row they are passed explicitly
      require(in.positions[static_cast<size_t>(s.begin + t)] == s.kv->length + t, kOp,
              "row {} stands at position {}, but on CUDA it must follow the {} that are kept.", s.begin + t,
              in.positions[static_cast<size_t>(s.begin + t)], s.kv->length);
    make_room(on, *s.kv, s.count);
    s.kv->length += s.count;
    all.push_back({s.kv, s.kv->length, s.begin, s.count, s.whole});
  }
  attend_to(on, args, all, Head(head_dim));
  return out;
}

}  // namespace anabranch::ops::cuda
