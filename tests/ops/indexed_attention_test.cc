// Attention over the positions that an index chooses: against the reference, against attention() where all
// positions are seen, in any chunks, and the choice itself.
#include "ops/indexed_attention.h"

#include <numeric>

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

struct Layout {
  int heads, kv_heads, dim, index_heads, index_dim, ratio, blocks;
  std::string name() const {
    return fmt::format("{} / {} heads of {}, index of {} heads of {}, {} blocks of {}", heads, kv_heads, dim,
                       index_heads, index_dim, blocks, ratio);
  }
};
// Blocks that lie in one tile and block of positions, and blocks that do not.
constexpr Layout kLayouts[] = {
    {4, 2, 32, 4, 16, 16, 3}, {4, 1, 20, 6, 12, 5, 8}, {2, 2, 48, 5, 33, 1, 20}, {3, 3, 16, 4, 64, 48, 1}};

struct Inputs {
  Tensor q, k, v, index_q, index_k, norm;
};

Inputs make_inputs(const Layout& l, int tokens, Rng& rng) {
  return {random_tensor({tokens, l.heads, l.dim}, rng, 2),
          random_tensor({tokens, l.kv_heads, l.dim}, rng),
          random_tensor({tokens, l.kv_heads, l.dim}, rng),
          random_tensor({tokens, l.index_heads, l.index_dim}, rng),
          random_tensor({tokens, 1, l.index_dim}, rng),
          random_tensor({l.index_dim}, rng)};
}

struct Caches {
  PagedKv kv, keys;
  explicit Caches(const Layout& l) {
    kv.kv_heads = l.kv_heads, kv.head_dim = l.dim;
    keys.kv_heads = 1, keys.head_dim = keys.value_dim = l.index_dim;
  }
};

// Rows [begin, end), whose keys and values are appended first.
Tensor step(Device& device, const Layout& l, const Inputs& in, int begin, int end, Caches& caches) {
  const auto rows = [&](const Tensor& x) { return device.to_device(x.slice_rows(begin, end)); };
  kv_append(caches.kv, rows(in.k), rows(in.v));
  kv_append(caches.keys, rows(in.index_k), Tensor());
  const RowNorm norm{device.to_device(in.norm), 1e-6f};
  Rope rope;
  rope.inv_freq = {1, 0.3f, 0.02f};
  return indexed_attention(rows(in.q), caches.kv, rows(in.index_q), caches.keys,
                           {l.ratio, l.blocks, &norm, &rope}, {0.3f});
}

Tensor run(Device& device, const Layout& l, const Inputs& in, int chunk) {
  Caches caches(l);
  std::vector<Tensor> parts;
  for (int at = 0; at < in.q.shape(0); at += chunk)
    parts.push_back(step(device, l, in, at, std::min(at + chunk, in.q.shape(0)), caches));
  return concat_rows(parts);
}

TEST(IndexedAttention, EqualsReference) {
  Rng rng(1);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 330, rng);
    expect_close(run(cpu_device(0, true), l, in, 330), run(reference_device(), l, in, 330), 1e-4, l.name());
  }
}

TEST(IndexedAttention, SameBitsForAnyChunksThreadsAndTarget) {
  Rng rng(2);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 300, rng);
    for (const bool precise : {false, true}) {
      const Tensor whole = run(cpu_device(1, precise), l, in, 300);
      for (const int chunk : {1, 7, 64})
        expect_same_bits(run(cpu_device(2, precise), l, in, chunk), whole, l.name());
      for (const auto& target : cpu::runnable_targets())
        expect_same_bits(run(cpu_device(2, precise, target), l, in, 300), whole, target + ": " + l.name());
    }
  }
}

// Rows whose index leaves nothing out have the bits of attention().
TEST(IndexedAttention, IsAttentionWhereAllPositionsAreSeen) {
  Rng rng(3);
  for (const Layout& l : kLayouts) {
    const int most = (l.blocks + 1) * l.ratio - 1;
    const Inputs in = make_inputs(l, most + 1, rng);
    Device& device = cpu_device();
    const Tensor got = run(device, l, in, most + 1);
    Caches caches(l);
    kv_append(caches.kv, device.to_device(in.k), device.to_device(in.v));
    const Tensor all = attention(device.to_device(in.q), caches.kv, {0.3f});
    expect_same_bits(got.slice_rows(0, most), all.slice_rows(0, most), l.name());
    const auto last = to_vector(got.slice_rows(most, most + 1)),
               of_all = to_vector(all.slice_rows(most, most + 1));
    EXPECT_FALSE(same_bits(last, of_all)) << l.name();
  }
}

TEST(IndexedAttention, GathersPositionsInOrder) {
  Rng rng(4);
  const Layout l = kLayouts[1];
  const Inputs in = make_inputs(l, 600, rng);
  for (const bool precise : {false, true}) {
    Device& device = cpu_device(2, precise);
    Caches whole(l), some(l);
    kv_append(whole.kv, device.to_device(in.k), device.to_device(in.v));
    std::vector<int> all(600), positions;
    std::iota(all.begin(), all.end(), 0);
    for (int p = 0; p < 600; p++)
      if (p % 7 != 3 && (p < 256 || p >= 290)) positions.push_back(p);
    for (const int p : positions)
      kv_append(some.kv, device.to_device(in.k.slice_rows(p, p + 1)),
                device.to_device(in.v.slice_rows(p, p + 1)));
    const PagedKv same = kv_gather(whole.kv, all), gathered = kv_gather(whole.kv, positions);
    EXPECT_EQ(gathered.length, static_cast<int>(positions.size()));
    const Tensor q = device.to_device(in.q.slice_rows(599, 600));
    expect_same_bits(attention(q, gathered, {0.3f}), attention(q, some.kv, {0.3f}), "some");
    expect_same_bits(attention(q, same, {0.3f}), attention(q, whole.kv, {0.3f}), "all");
  }
}

TEST(IndexedAttention, ChoosesTheBestBlocksAndOfEqualOnesTheFirst) {
  const IndexSpec spec{3, 2};
  const auto seen = [&](std::vector<float> scores, int position) {
    return seen_positions(scores, position, spec);
  };
  EXPECT_EQ(seen({}, 1), (std::vector<int>{0, 1}));
  EXPECT_EQ(seen({0}, 2), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(seen({0, 1, 2}, 8), (std::vector<int>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(seen({5, 1, 2}, 10), (std::vector<int>{0, 1, 2, 6, 7, 8, 9, 10}));
  EXPECT_EQ(seen({0, 0, 0}, 8), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(seen({1, 2, 1, 1}, 11), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(seen({NAN, 0, 0}, 8), (std::vector<int>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(seen({NAN, NAN, NAN}, 8), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(IndexedAttention, MeansAndScores) {
  for (Device* device : {&cpu_device(0, true), &reference_device()}) {
    PagedKv keys;
    keys.kv_heads = 1, keys.head_dim = keys.value_dim = 2;
    kv_append(keys, device->to_device(to_tensor({1, 2, 3, 6, 5, -2, 7, 4, 9, 9}, {5, 1, 2})), Tensor());
    const Tensor means = index_keys(keys, 2, 2);
    EXPECT_EQ(to_vector(means), (std::vector<float>{2, 4, 6, 1}));
    // Two heads of four dimensions; the second is against the first key.
    const Tensor q = device->to_device(to_tensor({1, 2, 0, 0, -1, 0, 0, 3}, {1, 2, 4}));
    const Tensor of_keys = device->to_device(to_tensor({2, 1, 5, 0, -2, 0, 0, 1}, {2, 4}));
    EXPECT_EQ(to_vector(index_scores(q, of_keys)), (std::vector<float>{2, 2.5f}));
  }
}

TEST(IndexedAttention, RefusesWhatDoesNotFit) {
  Device& cpu = cpu_device();
  Caches caches(kLayouts[0]);
  kv_append(caches.kv, cpu.zeros({4, 2, 32}, Dtype::f32), cpu.zeros({4, 2, 32}, Dtype::f32));
  const auto gather = [&](std::vector<int> positions) { return kv_gather(caches.kv, positions); };
  EXPECT_EQ(gather({}).length, 0);
  EXPECT_THROW(gather({1, 1}), std::invalid_argument);
  EXPECT_THROW(gather({-1}), std::invalid_argument);
  EXPECT_THROW(gather({3, 4}), std::invalid_argument);
  EXPECT_THROW(seen_positions(std::vector<float>{1}, 5, {3, 1}), std::invalid_argument);
  EXPECT_THROW(index_keys(caches.kv, 2, 1), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
