#include "ops/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kSerialElements = 32 << 10;
// With fewer multiplications of q and k, one thread does all the work.
constexpr int64_t kSerialWork = 16 << 10;
// Query rows that share a block's keys and values; each has its own scores and sums, in the L2 cache. The
// number is chosen so that every thread gets a few tasks, within these limits, and in steps of the rows that
// a kernel processes at once.
constexpr int64_t kMinRowBlock = 24, kMaxRowBlock = 96, kRowStep = 6;
// Blocks whose partial results exist at the same time.
constexpr int64_t kWave = 64;
// Lanes of a tile (ops/cpu/attention.h).
constexpr int64_t kTile = 16;

int64_t padded(int64_t n) {
  return (n + kTile - 1) / kTile * kTile;
}

// Makes the block writable: allocates a copy if others refer to it.
Tensor& writable(Tensor& block) {
  if (!block.is_unshared()) {
    Tensor copy = cpu_device(block).empty(block.shape(), block.dtype());
    std::memcpy(copy.data<char>(), block.data<char>(), block.nbytes());
    block = std::move(copy);
  }
  return block;
}

// Appends tokens [t0, t1) to one block; the first goes to column `column`.
struct Append {
  const CpuKernels& kernel;
  const float *k, *v;  // v: null if values are a part of the keys
  int64_t kv_heads, d;
  void *k_block, *v_block;
  int64_t t0, t1, column;
};

// Writes one token's converted keys and values, if they have tiles, to those of its head (layout:
// ops/cpu/attention.h).
template <class T>
void scatter(const T* k, const T* v, T* k_tiles, T* v_tiles, int64_t d, int64_t column) {
  T* to = k_tiles + column / kTile * kTile * d + column % kTile;
  for (int64_t i = 0; i < d; i++) to[i * kTile] = k[i];
  if (!v) return;
  for (int64_t i = 0; i < d; i += kTile)
    std::memcpy(v_tiles + i * kKvBlock + column * kTile, v + i,
                static_cast<size_t>(std::min(kTile, d - i)) * sizeof(T));
}

void append_f32(const Append& a, int64_t head) {
  float* k_tiles = static_cast<float*>(a.k_block) + head * a.d * kKvBlock;
  float* v_tiles = static_cast<float*>(a.v_block) + (a.v ? head * padded(a.d) * kKvBlock : 0);
  for (int64_t t = a.t0; t < a.t1; t++) {
    const int64_t from = (t * a.kv_heads + head) * a.d;
    scatter(a.k + from, a.v ? a.v + from : nullptr, k_tiles, v_tiles, a.d, a.column + t - a.t0);
  }
}

void append_f16(const Append& a, int64_t head) {
  auto* k_tiles = static_cast<uint16_t*>(a.k_block) + head * a.d * kKvBlock;
  auto* v_tiles = static_cast<uint16_t*>(a.v_block) + (a.v ? head * padded(a.d) * kKvBlock : 0);
  auto* k = static_cast<uint16_t*>(thread_scratch(0, static_cast<size_t>(4 * a.d)));
  auto* v = a.v ? k + a.d : nullptr;
  for (int64_t t = a.t0; t < a.t1; t++) {
    const int64_t from = (t * a.kv_heads + head) * a.d;
    a.kernel.to_f16(a.k + from, k, a.d);
    if (v) a.kernel.to_f16(a.v + from, v, a.d);
    scatter(k, v, k_tiles, v_tiles, a.d, a.column + t - a.t0);
  }
}

// One call of attention(). Rows (token, head in group) of a kv head are cut into row blocks.
struct Job {
  CpuDevice& device;
  AttentionArgs args;
  int64_t rows, dp, row_block_size, row_blocks;

  int64_t group() const { return args.heads / args.kv_heads; }
  int64_t row_begin(int64_t row_block) const { return row_block * row_block_size; }
  int64_t row_count(int64_t row_block) const { return std::min(row_block_size, rows - row_begin(row_block)); }
  // Blocks that some row of the row block sees: [first, last).
  int64_t first_of(int64_t row_block) const {
    if (args.window <= 0) return 0;
    const int64_t position = args.first_position + row_begin(row_block) / group();
    return std::max<int64_t>(0, position + 1 - args.window) / kKvBlock;
  }
  int64_t last_of(int64_t row_block) const {
    const int64_t row = args.whole ? rows - 1 : row_begin(row_block) + row_count(row_block) - 1;
    return (args.first_position + row / group()) / kKvBlock + 1;
  }
  const void* keys(int64_t block, int64_t kv_head) const {
    const int64_t bytes = args.head_dim * kKvBlock * (args.half ? 2 : 4);
    return static_cast<const char*>(args.k_blocks[block]) + kv_head * bytes;
  }
};

// Size of a partial result in floats. make_partial() places its arrays there and clears them.
int64_t partial_floats(int64_t rows, int64_t dp) {
  return 2 * padded(rows) + rows * dp;
}
AttentionPartial make_partial(float* base, int64_t rows, int64_t dp) {
  const int64_t n = padded(rows);
  std::fill(base, base + n, -std::numeric_limits<float>::infinity());
  std::fill(base + n, base + partial_floats(rows, dp), 0.0f);
  return {base, base + n, base + 2 * n};
}

// Processes all blocks of one kv head and row block in order.
void run_rows(const Job& job, int64_t kv_head, int64_t row_block) {
  const CpuKernels& kernel = job.device.kernels();
  const int64_t begin = job.row_begin(row_block), rows = job.row_count(row_block);
  const int64_t partial = partial_floats(rows, job.dp), last = job.last_of(row_block);
  const int64_t floats =
      partial + padded(rows * job.args.head_dim) + kernel.attention_scratch_floats(job.args, rows);
  auto* base = static_cast<float*>(thread_scratch(1, static_cast<size_t>(floats) * 4));
  float *q = base + partial, *scratch = q + padded(rows * job.args.head_dim);
  const AttentionPartial sum = make_partial(base, rows, job.dp);
  kernel.attention_pack(job.args, kv_head, begin, begin + rows, q);
  for (int64_t b = job.first_of(row_block); b < last; b++) {
    const void* next = b + 1 < last ? job.keys(b + 1, kv_head) : nullptr;
    kernel.attention_block(job.args, kv_head, begin, begin + rows, b, q, next, sum, scratch);
  }
  kernel.attention_finish(job.args, kv_head, begin, begin + rows, sum);
}

// For few tasks and many blocks: blocks run in parallel, each into its own partial result, and these are
// merged in order afterwards. Units of work are ordered (block, kv head, row block), like keys and values in
// memory.
struct BlockJob {
  const Job& job;
  int64_t tasks;                   // kv heads * row blocks
  int64_t q_floats, partial_size;  // of a task
  float *q, *sums, *partials;

  AttentionPartial at(float* base, int64_t i, int64_t rows) const {
    float* p = base + i * partial_size;
    return {p, p + padded(rows), p + 2 * padded(rows)};
  }
  void run_unit(int64_t block, int64_t task, int64_t unit, int64_t last_block) const {
    const CpuKernels& kernel = job.device.kernels();
    const int64_t head = task / job.row_blocks, row_block = task % job.row_blocks;
    const int64_t begin = job.row_begin(row_block), rows = job.row_count(row_block);
    const void* next = head + 1 < job.args.kv_heads ? job.keys(block, head + 1)
                       : block + 1 < last_block     ? job.keys(block + 1, 0)
                                                    : nullptr;
    auto* scratch = static_cast<float*>(
        thread_scratch(1, static_cast<size_t>(kernel.attention_scratch_floats(job.args, rows)) * 4));
    kernel.attention_block(job.args, head, begin, begin + rows, block, q + task * q_floats, next,
                           make_partial(partials + unit * partial_size, rows, job.dp), scratch);
  }
};

void run_blocks(const Job& job) {
  const CpuKernels& kernel = job.device.kernels();
  ThreadPool& threads = job.device.threads();
  const int64_t rows = job.row_count(0);
  BlockJob b{job,
             job.args.kv_heads * job.row_blocks,
             padded(rows * job.args.head_dim),
             padded(partial_floats(rows, job.dp)),
             nullptr,
             nullptr,
             nullptr};
  const int64_t first = job.first_of(0), last = job.last_of(job.row_blocks - 1);
  const int64_t wave = std::min(kWave, last - first);
  const int64_t floats = b.tasks * (b.q_floats + (1 + wave) * b.partial_size);
  b.q = static_cast<float*>(thread_scratch(2, static_cast<size_t>(floats) * 4));
  b.sums = b.q + b.tasks * b.q_floats;
  b.partials = b.sums + b.tasks * b.partial_size;
  for (int64_t i = 0; i < b.tasks; i++) {
    const int64_t head = i / job.row_blocks, row_block = i % job.row_blocks, begin = job.row_begin(row_block);
    kernel.attention_pack(job.args, head, begin, begin + job.row_count(row_block), b.q + i * b.q_floats);
    make_partial(b.sums + i * b.partial_size, job.row_count(row_block), job.dp);
  }
  for (int64_t start = first; start < last; start += wave) {
    const int64_t blocks = std::min(wave, last - start), units = blocks * b.tasks;
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; u++) b.run_unit(start + u / b.tasks, u % b.tasks, u, last);
    };
    threads.parallel_for(units, 1, run);
    for (int64_t i = 0; i < b.tasks; i++) {
      const int64_t n = job.row_count(i % job.row_blocks);
      for (int64_t u = i; u < units; u += b.tasks)
        kernel.attention_merge(job.args, n, b.at(b.sums, i, n), b.at(b.partials, u, n));
    }
  }
  for (int64_t i = 0; i < b.tasks; i++) {
    const int64_t head = i / job.row_blocks, row_block = i % job.row_blocks, begin = job.row_begin(row_block);
    const int64_t n = job.row_count(row_block);
    kernel.attention_finish(job.args, head, begin, begin + n, b.at(b.sums, i, n));
  }
}

}  // namespace

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim) {
  const int tile = static_cast<int>(kTile), tiles = static_cast<int>(padded(head_dim) / kTile);
  return {{kv_heads, kKvBlock / tile, head_dim, tile}, {kv_heads, tiles, kKvBlock, tile}};
}

void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v) {
  CpuDevice& device = cpu_device(k);
  const bool half = device.kv_dtype() == Dtype::f16;
  const int tokens = k.shape(0), d = kv.head_dim;
  const float* values = kv.value_dim > 0 ? nullptr : v.data<float>();
  Append a{device.kernels(), k.data<float>(), values, kv.kv_heads, d, nullptr, nullptr, 0, 0, 0};
  for (int t = 0; t < tokens;) {
    const size_t block = static_cast<size_t>(kv.length / kKvBlock);
    if (block == kv.k.size()) kv_add_block(device, kv);
    a.k_block = writable(kv.k[block]).data<char>();
    if (values) a.v_block = writable(kv.v[block]).data<char>();
    a.column = kv.length % kKvBlock;
    a.t0 = t;
    a.t1 = std::min<int64_t>(tokens, t + kKvBlock - a.column);
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; h++) half ? append_f16(a, h) : append_f32(a, h);
    };
    if ((a.t1 - a.t0) * kv.kv_heads * d < kSerialElements)
      body(0, kv.kv_heads);
    else
      device.threads().parallel_for(kv.kv_heads, 1, body);
    kv.length += static_cast<int>(a.t1 - a.t0);
    t = static_cast<int>(a.t1);
  }
}

Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole) {
  CpuDevice& device = cpu_device(q);
  ThreadPool& threads = device.threads();
  const int value_dim = kv.value_dim > 0 ? kv.value_dim : kv.head_dim;
  Tensor out = device.make({q.shape(0), q.shape(1), value_dim});
  const int64_t tokens = q.shape(0);
  if (tokens == 0) return out;
  const size_t blocks = kv.k.size();
  auto** pointers = static_cast<const void**>(thread_scratch(3, 2 * blocks * sizeof(void*)));
  for (size_t b = 0; b < blocks; b++) {
    const bool there = !kv.k[b].empty();
    pointers[b] = there ? kv.k[b].data<char>() : nullptr;
    pointers[blocks + b] = there && kv.value_dim == 0 ? kv.v[b].data<char>() : nullptr;
  }
  Job job{device};
  AttentionArgs& a = job.args;
  a.k_blocks = pointers;
  a.v_blocks = kv.value_dim > 0 ? nullptr : pointers + blocks;
  a.half = kv.k.back().dtype() == Dtype::f16;
  a.kv_heads = kv.kv_heads;
  a.heads = q.shape(1);
  a.head_dim = kv.head_dim;
  a.value_dim = value_dim;
  a.tokens = tokens;
  a.first_position = kv.length - tokens;
  a.window = scores.window;
  a.whole = whole;
  a.scale = scores.scale;
  a.soft_cap = scores.soft_cap;
  a.sinks = scores.sinks.empty() ? nullptr : scores.sinks.data<float>();
  a.q = q.data<float>();
  a.out = out.data<float>();
  job.rows = tokens * job.group();
  job.dp = padded(a.value_dim);
  job.row_block_size = std::clamp(job.rows * a.kv_heads / (4 * threads.size()), kMinRowBlock, kMaxRowBlock) /
                       kRowStep * kRowStep;
  job.row_blocks = (job.rows + job.row_block_size - 1) / job.row_block_size;
  const int64_t tasks = a.kv_heads * job.row_blocks;
  const int64_t work = job.rows * a.kv_heads * a.head_dim * (a.first_position + tokens);
  const bool serial = work < kSerialWork || threads.size() == 1;
  if (!serial && tasks < 2 * threads.size() && kv.length > kKvBlock) {
    run_blocks(job);
    return out;
  }
  const auto body = [&](int64_t begin, int64_t end) {
    // Later rows see more blocks, so they go first: otherwise the longest task could run alone at the end.
    for (int64_t u = begin; u < end; u++) run_rows(job, u % a.kv_heads, job.row_blocks - 1 - u / a.kv_heads);
  };
  if (serial)
    body(0, tasks);
  else
    threads.parallel_for(tasks, 1, body);
  return out;
}

}  // namespace anabranch::ops::cpu
