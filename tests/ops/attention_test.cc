#include "ops/attention.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

struct Layout {
  int heads, kv_heads, dim, window;
  float soft_cap = 0;
  int value_dim = 0;
  bool sinks = false;
  std::string name() const {
    return fmt::format("{} / {} heads of {}, window {}, cap {}, values {}, sinks {}", heads, kv_heads, dim,
                       window, soft_cap, value_dim, sinks);
  }
};
// Dims that fill the tiles of 16 and dims that do not, every size of group from 1 to 8, with and without
// windows, with values that are a part of the keys or not, with and without sinks.
const Layout kLayouts[] = {{4, 4, 16, 0},
                           {6, 2, 64, 0},
                           {8, 1, 32, 0},
                           {3, 3, 24, 0},
                           {8, 2, 128, 100},
                           {2, 1, 20, 300},
                           {5, 1, 80, 0},
                           {6, 1, 96, 40},
                           {8, 2, 256, 0},
                           {7, 1, 64, 257},
                           {9, 3, 64, 1},
                           {1, 1, 256, 256},
                           {2, 1, 33, 0},
                           {1, 1, 257, 0},
                           {4, 2, 64, 0, 3},
                           {8, 1, 512, 300, 1.5f},
                           {4, 1, 40, 0, 0, 24},
                           {5, 1, 33, 0, 0, 17},
                           {20, 1, 96, 0, 0, 64},
                           {2, 2, 18, 100, 0, 18},
                           {3, 1, 288, 300, 2, 256},
                           {6, 2, 24, 0, 0, 0, true},
                           {4, 1, 64, 257, 0, 0, true}};

ScoreSpec scores_of(Device& device, const Layout& l) {
  ScoreSpec scores{0.3f, l.window, l.soft_cap};
  Rng rng(7);
  if (l.sinks) scores.sinks = device.to_device(random_tensor({l.heads}, rng, 9));
  return scores;
}

struct Inputs {
  Tensor q, k, v;
};
Inputs make_inputs(const Layout& l, int tokens, Rng& rng) {
  return {random_tensor({tokens, l.heads, l.dim}, rng, 2), random_tensor({tokens, l.kv_heads, l.dim}, rng),
          random_tensor({tokens, l.kv_heads, l.dim}, rng)};
}

Inputs on(Device& device, const Inputs& in) {
  return {device.to_device(in.q), device.to_device(in.k), device.to_device(in.v)};
}

PagedKv make_cache(const Layout& l) {
  PagedKv kv;
  kv.kv_heads = l.kv_heads;
  kv.head_dim = l.dim;
  kv.value_dim = l.value_dim;
  return kv;
}

// The whole sequence on the device, in chunks of these sizes (the last is repeated).
Tensor run(Device& device, const Layout& l, const Inputs& inputs, const std::vector<int>& chunks) {
  const Inputs in = on(device, inputs);
  PagedKv kv = make_cache(l);
  std::vector<Tensor> parts;
  const int tokens = in.q.shape(0);
  size_t i = 0;
  for (int t = 0; t < tokens;) {
    const int end = std::min(tokens, t + chunks[std::min(i++, chunks.size() - 1)]);
    kv_append(kv, in.k.slice_rows(t, end), in.v.slice_rows(t, end));
    parts.push_back(attention(in.q.slice_rows(t, end), kv, scores_of(device, l)));
    t = end;
  }
  return concat_rows(parts);
}

TEST(Attention, PreciseEqualsReference) {
  Rng rng(1);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 530, rng);
    const Tensor ours = run(cpu_device(0, true), l, in, {530});
    const Tensor theirs = run(reference_device(), l, in, {200, 330});
    // Outputs are means of values of size 1; scores of size 2 * 0.3 * sqrt(D) err by D roundings.
    expect_close(ours, theirs, 4e-5, l.name());
  }
}

TEST(Attention, HalfCacheIsNearReference) {
  Rng rng(2);
  const Layout l = {6, 2, 64, 0};
  const Inputs in = make_inputs(l, 300, rng);
  const Tensor ours = run(cpu_device(), l, in, {300});
  expect_close(ours, run(reference_device(), l, in, {300}), 2e-2, l.name());
}

TEST(Attention, SameBitsForAnyChunks) {
  for (const bool precise : {false, true}) {
    Device& cpu = cpu_device(0, precise);
    Rng rng(3);
    for (const Layout& l : kLayouts) {
      const Inputs in = make_inputs(l, 530, rng);
      const Tensor whole = run(cpu, l, in, {530});
      expect_same_bits(run(cpu, l, in, {1}), whole, l.name() + " token by token");
      expect_same_bits(run(cpu, l, in, {7, 249, 1, 256, 3}), whole, l.name() + " in chunks");
      expect_same_bits(run(cpu, l, in, {256}), whole, l.name() + " in blocks");
    }
  }
}

TEST(Attention, SameBitsForAnyThreadsAndTarget) {
  Rng rng(4);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 270, rng);
    const Tensor whole = run(cpu_device(1), l, in, {270});
    for (const auto& target : cpu::runnable_targets()) {
      for (int threads : {1, 2, 5}) {
        if (target == "portable" && threads > 1) continue;
        expect_same_bits(run(cpu_device(threads, false, target), l, in, {261, 3}), whole,
                         fmt::format("{} {} threads {}", l.name(), target, threads));
      }
    }
  }
}

// The queries of the last `rows` positions before `end`, on the device.
Tensor last_queries(Device& device, const Inputs& in, int end, int rows) {
  return device.to_device(in.q.slice_rows(end - rows, end));
}

// A cache on the device with the first `end` positions.
PagedKv filled_cache(Device& device, const Layout& l, const Inputs& in, int end) {
  PagedKv kv = make_cache(l);
  kv_append(kv, device.to_device(in.k.slice_rows(0, end)), device.to_device(in.v.slice_rows(0, end)));
  return kv;
}

// Decode, verify and prefill use tiles of different heights, and work through blocks in parallel or in order.
// Rows at ragged lengths around the edges of blocks, 1, 2, 3, 8 at a time and all 40, on every target.
TEST(Attention, SameBitsForAnyNumberOfRows) {
  Rng rng(7);
  for (const Layout& l : kLayouts) {
    const Inputs in = make_inputs(l, 790, rng);
    for (const int end : {40, 255, 256, 257, 272, 511, 513, 790}) {
      const Tensor whole = attention(last_queries(cpu_device(1), in, end, 40),
                                     filled_cache(cpu_device(1), l, in, end), {0.3f, l.window, l.soft_cap});
      for (const auto& target : cpu::runnable_targets()) {
        for (const int threads : {1, 2}) {
          if (target == "portable" && (threads == 2 || end % 256 > 1)) continue;  // slow, and one path less
          Device& cpu = cpu_device(threads, false, target);
          const PagedKv kv = filled_cache(cpu, l, in, end);
          for (const int rows : {1, 2, 3, 8, 40}) {
            PagedKv shorter = kv;
            for (int t = end; t == end || t - rows >= end - 16; t -= rows) {
              kv_truncate(shorter, t);
              const int begin = t - rows;
              expect_same_bits(
                  attention(last_queries(cpu, in, t, rows), shorter, {0.3f, l.window, l.soft_cap}),
                  whole.slice_rows(begin - (end - 40), t - (end - 40)),
                  fmt::format("{} {} threads {}: rows {} .. {}", l.name(), target, threads, begin, t));
            }
          }
        }
      }
    }
  }
}

// More blocks than have partials at a time (64), with rows in one tile and in several.
TEST(Attention, SameBitsInLongContexts) {
  Rng rng(8);
  const Layout l = {4, 2, 16, 0};
  const int length = 65 * kKvBlock + 30;
  const Inputs in = make_inputs(l, length, rng);
  const int row_counts[] = {1, 9, 30};
  const auto play = [&](Device& device) {
    const PagedKv kv = filled_cache(device, l, in, length);
    std::vector<Tensor> results;
    for (const int rows : row_counts)
      results.push_back(attention(last_queries(device, in, length, rows), kv, {0.3f}));
    return results;
  };
  const std::vector<Tensor> whole = play(cpu_device(1));
  for (const int threads : {2, 5}) {
    const std::vector<Tensor> results = play(cpu_device(threads));
    for (size_t i = 0; i < results.size(); i++)
      expect_same_bits(results[i], whole[i], fmt::format("{} rows, {} threads", row_counts[i], threads));
  }
}

// The last rows of a cache that see each other both ways, after some that do not see them.
TEST(Attention, WholeEqualsReference) {
  Rng rng(9);
  for (const Layout& l : kLayouts)
    for (const auto& [length, rows] : {std::pair{300, 300}, {530, 100}, {257, 2}}) {
      const Inputs in = make_inputs(l, length, rng);
      const auto op = [&, length = length, rows = rows](Device& device) {
        return attention(last_queries(device, in, length, rows), filled_cache(device, l, in, length),
                         {0.3f, l.window, l.soft_cap}, true);
      };
      // As PreciseEqualsReference, of three times as many outputs.
      expect_close(op(cpu_device(0, true)), op(reference_device()), 6e-5, l.name());
    }
}

TEST(Attention, WholeHasTheSameBitsForAnyRows) {
  Rng rng(10);
  for (const Layout& l : kLayouts) {
    if (l.window > 0) continue;  // a row's own position matters then, and queries stand at the end
    const int length = 530;
    const Inputs in = make_inputs(l, length, rng);
    const Tensor whole = attention(last_queries(cpu_device(1), in, length, length),
                                   filled_cache(cpu_device(1), l, in, length), {0.3f, 0, l.soft_cap}, true);
    for (const auto& target : cpu::runnable_targets())
      for (const int threads : {1, 2}) {
        if (target == "portable" && threads == 2) continue;
        Device& cpu = cpu_device(threads, false, target);
        const PagedKv kv = filled_cache(cpu, l, in, length);
        for (const auto& [begin, end] : {std::pair{0, 1}, {3, 43}, {0, 200}, {255, 257}, {522, 530}})
          expect_same_bits(
              attention(cpu.to_device(in.q.slice_rows(begin, end)), kv, {0.3f, 0, l.soft_cap}, true),
              whole.slice_rows(begin, end), fmt::format("{} {} {} .. {}", l.name(), target, begin, end));
      }
  }
}

// attend() as the ops it is made of: a prompt with a picture between text, with positions of three axes.
TEST(Attention, AttendsToAPicture) {
  Rng rng(11);
  const int heads = 4, dim = 16, rows = 300;
  Rope rope{{1.0f, 0.5f, 0.2f, 0.1f}};
  rope.axis = {0, 1, 2, 1};
  std::vector<int> positions;
  for (int i = 0; i < rows * 3; i++) positions.push_back(i * 7 % 50);
  const Tensor q = random_tensor({rows, heads * dim}, rng), k = random_tensor({rows, heads * dim}, rng),
               v = random_tensor({rows, heads * dim}, rng);
  for (Device* device : cpu_and_reference()) {
    const Tensor q_there = device->to_device(q), k_there = device->to_device(k),
                 v_there = device->to_device(v);
    PagedKv together = make_cache({heads, heads, dim, 0}), apart = together;
    const auto cut = [&](const Tensor& x, int begin, int end) { return x.slice_rows(begin, end); };
    std::vector<Tensor> parts, wanted;
    for (const auto& [begin, end] : {std::pair{0, 20}, {20, 280}, {280, 300}}) {
      const AttentionSpan span{&together, 0, end - begin, begin == 20};
      const Tensor q_part = cut(q_there, begin, end), k_part = cut(k_there, begin, end),
                   v_part = cut(v_there, begin, end);
      const auto at = std::span<const int>(positions).subspan(static_cast<size_t>(begin * 3),
                                                              static_cast<size_t>(end - begin) * 3);
      parts.push_back(
          attend({q_part, k_part, v_part, nullptr, nullptr, nullptr, at, &rope, heads, {0.25f}}, {&span, 1})
              .values);
      const auto turned = [&](const Tensor& x) {
        return ops::rope(x.reshape({end - begin, heads, dim}), at, rope);
      };
      kv_append(apart, turned(k_part), v_part.reshape({end - begin, heads, dim}));
      wanted.push_back(
          attention(turned(q_part), apart, {0.25f, 0, 0}, begin == 20).reshape({end - begin, heads * dim}));
    }
    expect_same_bits(concat_rows(parts), concat_rows(wanted), "a picture between text");
  }
}

TEST(Attention, TruncationForgets) {
  Rng rng(5);
  const Layout l = {4, 2, 32, 0};
  Device& cpu = cpu_device();
  const Inputs in = on(cpu, make_inputs(l, 300, rng)), other = on(cpu, make_inputs(l, 300, rng));
  PagedKv kv = filled_cache(cpu, l, in, 255);
  kv_append(kv, other.k.slice_rows(0, 45), other.v.slice_rows(0, 45));
  kv_truncate(kv, 255);
  EXPECT_EQ(kv.k.size(), 1u);
  kv_append(kv, in.k.slice_rows(255, 300), in.v.slice_rows(255, 300));
  expect_same_bits(attention(in.q.slice_rows(255, 300), kv, {0.3f}),
                   run(cpu, l, in, {300}).slice_rows(255, 300), "truncated");
  kv_truncate(kv, 0);
  EXPECT_TRUE(kv.k.empty() && kv.v.empty());
  EXPECT_EQ(kv.length, 0);
}

TEST(Attention, SharedBlocksAreNotWritten) {
  Rng rng(6);
  const Layout l = {4, 2, 32, 0};
  const Inputs trunk = make_inputs(l, 20, rng), twig = make_inputs(l, 20, rng);
  for (Device* device : cpu_and_reference()) {
    const Inputs in = on(*device, trunk), other = on(*device, twig);
    PagedKv kv = filled_cache(*device, l, in, 10);
    PagedKv branch = kv;
    kv_append(branch, other.k.slice_rows(10, 20), other.v.slice_rows(10, 20));
    kv_append(kv, in.k.slice_rows(10, 20), in.v.slice_rows(10, 20));
    expect_same_bits(attention(in.q.slice_rows(10, 20), kv, {0.3f}),
                     run(*device, l, in, {10}).slice_rows(10, 20), "trunk");
    if (device->kind() == DeviceKind::reference) continue;
    const void* before = kv.k[0].data<char>();
    kv_append(kv, in.k.slice_rows(0, 1), in.v.slice_rows(0, 1));
    EXPECT_EQ(kv.k[0].data<char>(), before) << "an unshared block is written in place";
  }
}

TEST(Attention, HugeValuesSaturate) {
  Device& cpu = cpu_device();
  PagedKv kv = make_cache({1, 1, 16, 0});
  const auto all = [&](float v) { return cpu.to_device(to_tensor(std::vector<float>(16, v), {1, 1, 16})); };
  kv_append(kv, all(1e6f), all(1e6f));
  for (float y : to_vector(attention(all(1e-6f), kv, {1.0f}))) EXPECT_EQ(y, 65504.0f);
}

// Values that are a part of the keys take no memory, and give the bits that a copy of them gives.
TEST(Attention, PartOfTheKeysAsValues) {
  Rng rng(12);
  const Layout l = {6, 1, 48, 0, 0, 48}, own = {6, 1, 48, 0};
  Inputs in = make_inputs(l, 300, rng);
  in.v = in.k;
  for (const bool precise : {false, true}) {
    Device& cpu = cpu_device(0, precise);
    for (const int rows : {1, 5, 40})
      expect_same_bits(attention(last_queries(cpu, in, 300, rows), filled_cache(cpu, l, in, 300), {0.3f}),
                       attention(last_queries(cpu, in, 300, rows), filled_cache(cpu, own, in, 300), {0.3f}),
                       fmt::format("{} rows", rows));
    const PagedKv kv = filled_cache(cpu, l, in, 300);
    EXPECT_EQ(kv.v.size(), 2u);
    EXPECT_TRUE(kv.v[0].empty() && kv.v[1].empty());
  }
}

TEST(Attention, RefusesWrongShapes) {
  PagedKv kv = make_cache({4, 2, 32, 0});
  const auto zeros = [](const Shape& shape) { return cpu_device().zeros(shape, Dtype::f32); };
  EXPECT_THROW(kv_append(kv, zeros({1, 4, 32}), zeros({1, 4, 32})), std::invalid_argument);
  EXPECT_THROW(attention(zeros({1, 4, 32}), kv, {1}), std::invalid_argument);
  kv_append(kv, zeros({1, 2, 32}), zeros({1, 2, 32}));
  EXPECT_THROW(attention(zeros({1, 3, 32}), kv, {1}), std::invalid_argument);
  EXPECT_THROW(attention(zeros({1, 4, 16}), kv, {1}), std::invalid_argument);
  EXPECT_THROW(kv_truncate(kv, 2), std::invalid_argument);
  kv.value_dim = 33;
  EXPECT_THROW(attention(zeros({1, 4, 32}), kv, {1}), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
