#include "ops/cpu/indexed_attention.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kIndexSerial = 32 << 10;  // with fewer values, one thread does all the work
constexpr int64_t kKvTile = 16;             // positions of a tile of keys, dimensions of a tile of values

// body(begin, end) over `count` units of `each` values.
template <class Body>
void over_units(CpuDevice& device, int64_t count, int64_t each, const Body& body) {
  if (count * each < kIndexSerial) return body(0, count);
  device.threads().parallel_for(count, std::max<int64_t>(1, kIndexSerial / 4 / each), body);
}

// Positions [from, from + count) of a block go to [to, to + count) of another.
struct GatherRun {
  int64_t from, to, count;
};

// Copies one head's keys (layout: ops/cpu/attention.h). T: as wide as the elements.
template <class T>
void copy_keys(const T* from, T* to, int64_t d, const GatherRun& run) {
  for (int64_t i = 0; i < run.count;) {
    const int64_t p = run.from + i, column = run.to + i;
    const T* source = from + p / kKvTile * kKvTile * d + p % kKvTile;
    T* target = to + column / kKvTile * kKvTile * d + column % kKvTile;
    if (p % kKvTile == 0 && column % kKvTile == 0 && run.count - i >= kKvTile) {
      std::memcpy(target, source, static_cast<size_t>(kKvTile * d) * sizeof(T));
      i += kKvTile;
      continue;
    }
    for (int64_t j = 0; j < d; j++) target[j * kKvTile] = source[j * kKvTile];
    i++;
  }
}

// The same for values, of which each tile of dimensions has the positions in a row.
template <class T>
void copy_values(const T* from, T* to, int64_t tiles, const GatherRun& run) {
  for (int64_t t = 0; t < tiles; t++)
    std::memcpy(to + (t * kKvBlock + run.to) * kKvTile, from + (t * kKvBlock + run.from) * kKvTile,
                static_cast<size_t>(run.count * kKvTile) * sizeof(T));
}

// Fills one block of `out` from positions [begin, end) of the list.
template <class T>
void gather_block(const PagedKv& kv, std::span<const int> positions, PagedKv& out, int64_t block) {
  const auto begin = static_cast<size_t>(block * kKvBlock);
  const size_t end = std::min(positions.size(), begin + kKvBlock);
  const int64_t d = kv.head_dim, tiles = (d + kKvTile - 1) / kKvTile;
  T* k = out.k[static_cast<size_t>(block)].data<T>();
  T* v = kv.value_dim > 0 ? nullptr : out.v[static_cast<size_t>(block)].data<T>();
  for (size_t i = begin; i < end;) {
    size_t next = i + 1;
    while (next < end && positions[next] == positions[next - 1] + 1 && positions[next] % kKvBlock != 0)
      next++;
    const auto source = static_cast<size_t>(positions[i] / kKvBlock);
    const GatherRun run{positions[i] % kKvBlock, static_cast<int64_t>(i - begin),
                        static_cast<int64_t>(next - i)};
    const T* from_k = kv.k[source].data<T>();
    const T* from_v = v ? kv.v[source].data<T>() : nullptr;
    for (int64_t head = 0; head < kv.kv_heads; head++) {
      copy_keys(from_k + head * d * kKvBlock, k + head * d * kKvBlock, d, run);
      const int64_t values = head * tiles * kKvTile * kKvBlock;
      if (v) copy_values(from_v + values, v + values, tiles, run);
    }
    i = next;
  }
}

}  // namespace

Tensor index_keys(const PagedKv& keys, int ratio, int blocks) {
  CpuDevice& device = cpu_device(keys.k.front());
  const int64_t d = keys.head_dim;
  const bool half = keys.k.front().dtype() == Dtype::f16;
  Tensor out = device.make({blocks, keys.head_dim});
  float* means = out.data<float>();
  over_units(device, blocks, d * ratio, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      float* sum = means + b * d;
      std::fill_n(sum, d, 0.0f);
      for (int64_t p = b * ratio; p < (b + 1) * ratio;) {
        const int64_t block = p / kKvBlock, last = std::min<int64_t>((b + 1) * ratio, (block + 1) * kKvBlock);
        device.kernels().add_keys(keys.k[static_cast<size_t>(block)].data<char>(), half, d,
                                  p - block * kKvBlock, last - block * kKvBlock, sum);
        p = last;
      }
      for (int64_t i = 0; i < d; i++) sum[i] /= static_cast<float>(ratio);
    }
  });
  return out;
}

Tensor index_scores(const Tensor& q, const Tensor& keys) {
  CpuDevice& device = cpu_device(q);
  const int64_t rows = q.shape(0), heads = q.shape(1), d = q.shape(2), blocks = keys.shape(0);
  Tensor out = device.make({q.shape(0), keys.shape(0)});
  const float *from = q.data<float>(), *of_blocks = keys.data<float>();
  float* to = out.data<float>();
  over_units(device, rows, blocks * heads * d, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
      device.kernels().index_scores(from + row * heads * d, of_blocks, to + row * blocks, heads, d, blocks);
  });
  return out;
}

void kv_gather(const PagedKv& kv, std::span<const int> positions, PagedKv& out) {
  const bool half = out.k.front().dtype() == Dtype::f16;
  const auto blocks = static_cast<int64_t>(out.k.size());
  over_units(cpu_device(out.k.front()), blocks, int64_t{kv.kv_heads} * kv.head_dim * kKvBlock,
             [&](int64_t begin, int64_t end) {
               for (int64_t b = begin; b < end; b++)
                 half ? gather_block<uint16_t>(kv, positions, out, b)
                      : gather_block<float>(kv, positions, out, b);
             });
}

}  // namespace anabranch::ops::cpu
