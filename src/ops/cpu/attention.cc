#include "ops/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kSerialElements = 32 << 10;
// Query rows that share a block's keys and values while those lie in the L2 cache.
constexpr int64_t kRowBlock = 48;

// The block, ready to be written: a new one, or a copy if others refer to it.
mx::array& writable(mx::array& block) {
  if (!is_unshared(block)) {
    mx::array copy = make_array(block.shape(), block.dtype());
    std::memcpy(copy.data<char>(), block.data<char>(), block.nbytes());
    block = std::move(copy);
  }
  return block;
}

// Tokens [t0, t1) of one kv head into one block, first of them at column `column`.
struct Append {
  const float *k, *v;
  int64_t kv_heads, d;
  mx::Dtype dtype;
  void *k_block, *v_block;
  int64_t t0, t1, column;
};

void append_f32(const Append& a, int64_t head) {
  float* kb = static_cast<float*>(a.k_block) + head * a.d * kKvBlock;
  float* vb = static_cast<float*>(a.v_block) + head * a.d * kKvBlock;
  for (int64_t t = a.t0; t < a.t1; t++) {
    const int64_t column = a.column + t - a.t0;
    const float* k = a.k + (t * a.kv_heads + head) * a.d;
    for (int64_t i = 0; i < a.d; i++) kb[i * kKvBlock + column] = k[i];
    std::memcpy(vb + column * a.d, a.v + (t * a.kv_heads + head) * a.d, static_cast<size_t>(a.d) * 4);
  }
}

void append_f16(const Append& a, int64_t head) {
  constexpr int64_t kTokens = 32;  // a cache line of keys for each dimension
  const CpuKernels& kernel = kernels();
  auto* kb = static_cast<uint16_t*>(a.k_block) + head * a.d * kKvBlock;
  auto* vb = static_cast<uint16_t*>(a.v_block) + head * a.d * kKvBlock;
  auto* rows = static_cast<uint16_t*>(thread_scratch(0, static_cast<size_t>(kTokens * a.d * 2)));
  for (int64_t t = a.t0; t < a.t1; t += kTokens) {
    const int64_t count = std::min(kTokens, a.t1 - t), column = a.column + t - a.t0;
    for (int64_t i = 0; i < count; i++) {
      const int64_t from = ((t + i) * a.kv_heads + head) * a.d;
      kernel.to_f16(a.k + from, rows + i * a.d, a.d);
      kernel.to_f16(a.v + from, vb + (column + i) * a.d, a.d);
    }
    for (int64_t j = 0; j < a.d; j++)
      for (int64_t i = 0; i < count; i++) kb[j * kKvBlock + column + i] = rows[i * a.d + j];
  }
}

// The work space of one attention() call's task on one thread.
AttentionPartial carve(float* base, int64_t rows) {
  return {base, base + rows, base + 2 * rows};
}
int64_t partial_floats(int64_t rows, int64_t dp) {
  return (rows * (dp + 2) + 15) / 16 * 16;
}

struct Job {
  AttentionArgs args;
  int64_t rows, dp, row_blocks, first_block, blocks;

  int64_t row_begin(int64_t row_block) const { return row_block * kRowBlock; }
  int64_t row_count(int64_t row_block) const { return std::min(kRowBlock, rows - row_begin(row_block)); }
  // Blocks that some row of the row block sees: [first, last).
  int64_t first_of(int64_t row_block) const {
    if (args.window <= 0) return 0;
    const int64_t position = args.first_position + row_begin(row_block) / (args.heads / args.kv_heads);
    return std::max<int64_t>(0, position + 1 - args.window) / kKvBlock;
  }
  int64_t last_of(int64_t row_block) const {
    const int64_t row = row_begin(row_block) + row_count(row_block) - 1;
    return (args.first_position + row / (args.heads / args.kv_heads)) / kKvBlock + 1;
  }
};

void clear(const AttentionPartial& p, int64_t rows) {
  for (int64_t r = 0; r < rows; r++) {
    p.max[r] = -std::numeric_limits<float>::infinity();
    p.sum[r] = 0;
  }
}

// One kv head and row block: all its blocks in order.
void run_rows(const Job& job, int64_t kv_head, int64_t row_block) {
  const CpuKernels& kernel = kernels();
  const int64_t begin = job.row_begin(row_block), rows = job.row_count(row_block);
  const int64_t floats = partial_floats(rows, job.dp);
  auto* base = static_cast<float*>(
      thread_scratch(1, static_cast<size_t>(2 * floats + kernel.attention_scratch_floats(job.args)) * 4));
  const AttentionPartial sum = carve(base, rows), part = carve(base + floats, rows);
  clear(sum, rows);
  for (int64_t b = job.first_of(row_block); b < job.last_of(row_block); b++) {
    kernel.attention_block(job.args, kv_head, begin, begin + rows, b, part, base + 2 * floats);
    kernel.attention_merge(job.args, rows, sum, part);
  }
  kernel.attention_finish(job.args, kv_head, begin, begin + rows, sum);
}

// Few rows and many blocks: blocks run in parallel, each into its own partial, merged in order afterwards.
void run_blocks(const Job& job) {
  const CpuKernels& kernel = kernels();
  const int64_t floats = partial_floats(kRowBlock, job.dp), per_head = job.row_blocks * job.blocks;
  const int64_t heads = job.args.kv_heads;
  auto* partials = static_cast<float*>(thread_scratch(2, static_cast<size_t>(heads * per_head * floats) * 4));
  parallel_for(heads * per_head, 1, [&](int64_t first, int64_t last) {
    auto* scratch = static_cast<float*>(
        thread_scratch(1, static_cast<size_t>(kernel.attention_scratch_floats(job.args)) * 4));
    for (int64_t u = first; u < last; u++) {
      const int64_t head = u / per_head, row_block = u % per_head / job.blocks, block = u % job.blocks;
      const int64_t begin = job.row_begin(row_block), rows = job.row_count(row_block);
      const AttentionPartial part = carve(partials + u * floats, rows);
      kernel.attention_block(job.args, head, begin, begin + rows, job.first_block + block, part, scratch);
    }
  });
  for (int64_t i = 0; i < heads * job.row_blocks; i++) {
    const int64_t head = i / job.row_blocks, row_block = i % job.row_blocks, rows = job.row_count(row_block);
    const AttentionPartial sum = carve(partials + i * job.blocks * floats, rows);
    for (int64_t b = 1; b < job.blocks; b++)
      kernel.attention_merge(job.args, rows, sum, carve(partials + (i * job.blocks + b) * floats, rows));
    kernel.attention_finish(job.args, head, job.row_begin(row_block), job.row_begin(row_block) + rows, sum);
  }
}

}  // namespace

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v) {
  const mx::Dtype dtype = precise() ? mx::float32 : mx::float16;
  const int tokens = k.shape(0), d = kv.head_dim;
  Append a{
      read_f32(k, "kv_append"), read_f32(v, "kv_append"), kv.kv_heads, d, dtype, nullptr, nullptr, 0, 0, 0};
  for (int t = 0; t < tokens;) {
    const size_t block = static_cast<size_t>(kv.length / kKvBlock);
    if (block == kv.k.size()) {
      kv.k.push_back(make_zeros({kv.kv_heads, d, kKvBlock}, dtype));
      kv.v.push_back(make_zeros({kv.kv_heads, kKvBlock, d}, dtype));
    }
    a.k_block = writable(kv.k[block]).data<char>();
    a.v_block = writable(kv.v[block]).data<char>();
    a.column = kv.length % kKvBlock;
    a.t0 = t;
    a.t1 = std::min<int64_t>(tokens, t + kKvBlock - a.column);
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; h++) dtype == mx::float32 ? append_f32(a, h) : append_f16(a, h);
    };
    if ((a.t1 - a.t0) * kv.kv_heads * d < kSerialElements)
      body(0, kv.kv_heads);
    else
      parallel_for(kv.kv_heads, 1, body);
    kv.length += static_cast<int>(a.t1 - a.t0);
    t = static_cast<int>(a.t1);
  }
}

mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window) {
  mx::array out = make_array(q.shape(), mx::float32);
  const int64_t tokens = q.shape(0);
  if (tokens == 0) return out;
  std::vector<const void*> k_blocks, v_blocks;
  for (size_t b = 0; b < kv.k.size(); b++) {
    k_blocks.push_back(kv.k[b].data<char>());
    v_blocks.push_back(kv.v[b].data<char>());
  }
  Job job;
  AttentionArgs& a = job.args;
  a.k_blocks = k_blocks.data();
  a.v_blocks = v_blocks.data();
  a.half = kv.k[0].dtype() == mx::float16;
  a.kv_heads = kv.kv_heads;
  a.heads = q.shape(1);
  a.head_dim = kv.head_dim;
  a.tokens = tokens;
  a.first_position = kv.length - tokens;
  a.window = window;
  a.scale = scale;
  a.q = read_f32(q, "attention");
  a.out = out.data<float>();
  job.rows = tokens * (a.heads / a.kv_heads);
  job.dp = (a.head_dim + 15) / 16 * 16;
  job.row_blocks = (job.rows + kRowBlock - 1) / kRowBlock;
  job.first_block = job.first_of(0);
  job.blocks = job.last_of(job.row_blocks - 1) - job.first_block;
  const int64_t tasks = a.kv_heads * job.row_blocks;
  if (job.blocks > 1 && tasks < 4 * thread_count()) {
    run_blocks(job);
    return out;
  }
  const auto body = [&](int64_t begin, int64_t end) {
    // Later rows see more blocks: they go first, so that no thread is left with the longest task.
    for (int64_t u = begin; u < end; u++) run_rows(job, u % a.kv_heads, job.row_blocks - 1 - u / a.kv_heads);
  };
  if (job.rows * a.kv_heads * a.head_dim * (a.first_position + tokens) < (1 << 18))
    body(0, tasks);
  else
    parallel_for(tasks, 1, body);
  return out;
}

}  // namespace anabranch::ops::cpu
