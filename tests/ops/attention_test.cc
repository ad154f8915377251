#include "ops/attention.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

class Attention : public OpsTest {};

struct Layout {
  int heads, kv_heads, dim, window;
  std::string name() const {
    return fmt::format("{} / {} heads of {}, window {}", heads, kv_heads, dim, window);
  }
};
// Dims that fill the tiles of 16 and dims that do not, every size of group from 1 to 8, with and without
// windows.
const Layout kLayouts[] = {{4, 4, 16, 0},    {6, 2, 64, 0},   {8, 1, 32, 0}, {3, 3, 24, 0},
                           {8, 2, 128, 100}, {2, 1, 20, 300}, {5, 1, 80, 0}, {6, 1, 96, 40},
                           {8, 2, 256, 0},   {7, 1, 64, 257}, {9, 3, 64, 1}, {1, 1, 256, 256},
                           {2, 1, 33, 0},    {1, 1, 257, 0}};

struct Inputs {
  mx::array q, k, v;
};
Inputs make_inputs(const Layout& l, int tokens, Rng& rng) {
  return {random_array({tokens, l.heads, l.dim}, rng, 2), random_array({tokens, l.kv_heads, l.dim}, rng),
          random_array({tokens, l.kv_heads, l.dim}, rng)};
}

PagedKv make_cache(const Layout& l) {
  PagedKv kv;
  kv.kv_heads = l.kv_heads;
  kv.head_dim = l.dim;
  return kv;
}

// The whole sequence in chunks of these sizes (the last is repeated).
mx::array run(const Layout& l, const Inputs& in, const std::vector<int>& chunks) {
  PagedKv kv = make_cache(l);
  std::vector<mx::array> parts;
  const int tokens = in.q.shape(0);
  size_t i = 0;
  for (int t = 0; t < tokens;) {
    const int end = std::min(tokens, t + chunks[std::min(i++, chunks.size() - 1)]);
    kv_append(kv, slice_rows(in.k, t, end), slice_rows(in.v, t, end));
    parts.push_back(attention(slice_rows(in.q, t, end), kv, 0.3f, l.window));
    t = end;
  }
  return concat_rows(parts);
}

TEST_F(Attention, PreciseEqualsReference) {
  set_precise(true);
  Rng rng(1);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 530, rng);
    const mx::array ours = run(l, in, {530});
    set_backend(Backend::reference);
    const mx::array theirs = run(l, in, {200, 330});
    set_backend(Backend::cpu);
    // Outputs are means of values of size 1; scores of size 2 * 0.3 * sqrt(D) err by D roundings.
    expect_close(ours, theirs, 4e-5, l.name());
  }
}

TEST_F(Attention, HalfCacheIsNearReference) {
  Rng rng(2);
  const Layout l = {6, 2, 64, 0};
  const Inputs in = make_inputs(l, 300, rng);
  const mx::array ours = run(l, in, {300});
  set_backend(Backend::reference);
  expect_close(ours, run(l, in, {300}), 2e-2, l.name());
}

TEST_F(Attention, SameBitsForAnyChunks) {
  for (const bool precise : {false, true}) {
    set_precise(precise);
    Rng rng(3);
    for (const Layout& l : kLayouts) {
      const Inputs in = make_inputs(l, 530, rng);
      const mx::array whole = run(l, in, {530});
      expect_same_bits(run(l, in, {1}), whole, l.name() + " token by token");
      expect_same_bits(run(l, in, {7, 249, 1, 256, 3}), whole, l.name() + " in chunks");
      expect_same_bits(run(l, in, {256}), whole, l.name() + " in blocks");
    }
  }
}

TEST_F(Attention, SameBitsForAnyThreadsAndTarget) {
  Rng rng(4);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 270, rng);
    set_thread_count(1);
    const mx::array whole = run(l, in, {270});
    for (const auto& target : cpu::runnable_targets()) {
      ASSERT_TRUE(set_cpu_target(target));
      for (int threads : {1, 2, 5}) {
        if (target == "portable" && threads > 1) continue;
        set_thread_count(threads);
        expect_same_bits(run(l, in, {261, 3}), whole,
                         fmt::format("{} {} threads {}", l.name(), target, threads));
      }
    }
    set_cpu_target(cpu::runnable_targets().front());
  }
}

// Decode, verify and prefill use tiles of different heights and blocks in parallel or in order: rows at
// ragged lengths around the edges of blocks, 1, 2, 3, 8 at a time and all 40, on every target.
TEST_F(Attention, SameBitsForAnyNumberOfRows) {
  Rng rng(7);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 790, rng);
    for (const int end : {40, 255, 256, 257, 272, 511, 513, 790}) {
      PagedKv kv = make_cache(l);
      kv_append(kv, slice_rows(in.k, 0, end), slice_rows(in.v, 0, end));
      set_cpu_target(cpu::runnable_targets().front());
      set_thread_count(1);
      const mx::array whole = attention(slice_rows(in.q, end - 40, end), kv, 0.3f, l.window);
      for (const auto& target : cpu::runnable_targets()) {
        ASSERT_TRUE(set_cpu_target(target));
        for (const int threads : {1, 2}) {
          if (target == "portable" && (threads == 2 || end % 256 > 1))
            continue;  // slow, one path less to tell
          set_thread_count(threads);
          for (const int rows : {1, 2, 3, 8, 40}) {
            PagedKv shorter = kv;
            for (int t = end; t == end || t - rows >= end - 16; t -= rows) {
              kv_truncate(shorter, t);
              const int begin = t - rows;
              expect_same_bits(
                  attention(slice_rows(in.q, begin, t), shorter, 0.3f, l.window),
                  slice_rows(whole, begin - (end - 40), t - (end - 40)),
                  fmt::format("{} {} threads {}: rows {} .. {}", l.name(), target, threads, begin, t));
            }
          }
        }
      }
    }
  }
}

// More blocks than have partials at a time (64), with rows in one tile and in several.
TEST_F(Attention, SameBitsInLongContexts) {
  Rng rng(8);
  const Layout l = {4, 2, 16, 0};
  const int length = 65 * kKvBlock + 30;
  const Inputs in = make_inputs(l, length, rng);
  PagedKv kv = make_cache(l);
  kv_append(kv, in.k, in.v);
  for (const int rows : {1, 9, 30}) {
    const mx::array q = slice_rows(in.q, length - rows, length);
    set_thread_count(1);
    const mx::array whole = attention(q, kv, 0.3f);
    for (const int threads : {2, 5}) {
      set_thread_count(threads);
      expect_same_bits(attention(q, kv, 0.3f), whole, fmt::format("{} rows, {} threads", rows, threads));
    }
  }
}

TEST_F(Attention, TruncationForgets) {
  Rng rng(5);
  const Layout l = {4, 2, 32, 0};
  const Inputs in = make_inputs(l, 300, rng), other = make_inputs(l, 300, rng);
  PagedKv kv = make_cache(l);
  kv_append(kv, slice_rows(in.k, 0, 255), slice_rows(in.v, 0, 255));
  kv_append(kv, slice_rows(other.k, 0, 45), slice_rows(other.v, 0, 45));
  kv_truncate(kv, 255);
  EXPECT_EQ(kv.k.size(), 1u);
  kv_append(kv, slice_rows(in.k, 255, 300), slice_rows(in.v, 255, 300));
  expect_same_bits(attention(slice_rows(in.q, 255, 300), kv, 0.3f), slice_rows(run(l, in, {300}), 255, 300),
                   "truncated");
  kv_truncate(kv, 0);
  EXPECT_TRUE(kv.k.empty() && kv.v.empty());
  EXPECT_EQ(kv.length, 0);
}

TEST_F(Attention, SharedBlocksAreNotWritten) {
  Rng rng(6);
  const Layout l = {4, 2, 32, 0};
  const Inputs in = make_inputs(l, 20, rng), other = make_inputs(l, 20, rng);
  for (auto backend : {Backend::cpu, Backend::reference}) {
    set_backend(backend);
    PagedKv kv = make_cache(l);
    kv_append(kv, slice_rows(in.k, 0, 10), slice_rows(in.v, 0, 10));
    PagedKv branch = kv;
    kv_append(branch, slice_rows(other.k, 10, 20), slice_rows(other.v, 10, 20));
    kv_append(kv, slice_rows(in.k, 10, 20), slice_rows(in.v, 10, 20));
    expect_same_bits(attention(slice_rows(in.q, 10, 20), kv, 0.3f), slice_rows(run(l, in, {10}), 10, 20),
                     "trunk");
    const void* before = kv.k[0].data<char>();
    kv_append(kv, slice_rows(in.k, 0, 1), slice_rows(in.v, 0, 1));
    if (backend == Backend::cpu) {
      EXPECT_EQ(kv.k[0].data<char>(), before) << "an unshared block is written in place";
    }
  }
}

TEST_F(Attention, HugeValuesSaturate) {
  const Layout l = {1, 1, 16, 0};
  PagedKv kv = make_cache(l);
  const mx::array big = mx::full({1, 1, 16}, 1e6f), q = mx::full({1, 1, 16}, 1e-6f);
  kv_append(kv, big, big);
  for (float y : to_vector(attention(q, kv, 1.0f))) EXPECT_EQ(y, 65504.0f);
}

TEST_F(Attention, RefusesWrongShapes) {
  PagedKv kv = make_cache({4, 2, 32, 0});
  EXPECT_THROW(kv_append(kv, mx::zeros({1, 4, 32}), mx::zeros({1, 4, 32})), std::invalid_argument);
  EXPECT_THROW(attention(mx::zeros({1, 4, 32}), kv, 1), std::invalid_argument);
  kv_append(kv, mx::zeros({1, 2, 32}), mx::zeros({1, 2, 32}));
  EXPECT_THROW(attention(mx::zeros({1, 3, 32}), kv, 1), std::invalid_argument);
  EXPECT_THROW(attention(mx::zeros({1, 4, 16}), kv, 1), std::invalid_argument);
  EXPECT_THROW(kv_truncate(kv, 2), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
