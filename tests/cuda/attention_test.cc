// Attention on CUDA by kernels that the emulator runs on the CPU: close to the formula, and the same bits for
// any rows.
#include "ops/attention.h"

#include <cmath>

#include "cuda/emulated_card.h"
#include "ops/elementwise.h"
#include "ops/matrices.h"

namespace anabranch::ops {
namespace {

class EmulatedAttention : public EmulatedDevice {
 protected:
  Tensor random(const Shape& shape) { return random_tensor(shape, rng_); }

 private:
  Rng rng_{5};
};

PagedKv make_kv(int heads, int dim) {
  PagedKv kv;
  kv.kv_heads = heads;
  kv.head_dim = dim;
  return kv;
}

// A row of attention in double, which sees positions below `end`. Sinks, if there are any, are on the host.
std::vector<float> formula(const Tensor& q, const Tensor& k, const Tensor& v, int row, int position,
                           const ScoreSpec& scores, int end) {
  const int heads = q.shape(1), dim = q.shape(2), kv_heads = k.shape(1);
  std::vector<float> out;
  for (int h = 0; h < heads; h++) {
    const int of = h / (heads / kv_heads);
    std::vector<double> sum(static_cast<size_t>(dim));
    double weights = scores.sinks.empty() ? 0 : std::exp(double{scores.sinks.data<float>()[h]});
    for (int p = scores.window > 0 ? std::max(0, position - scores.window + 1) : 0; p < end; p++) {
      double score = 0;
      for (int d = 0; d < dim; d++)
        score += double{q.data<float>()[(row * heads + h) * dim + d]} *
                 double{k.data<float>()[(p * kv_heads + of) * dim + d]};
      score *= double{scores.scale};
      if (scores.soft_cap > 0) score = scores.soft_cap * std::tanh(score / scores.soft_cap);
      const double weight = std::exp(score);
      weights += weight;
      for (int d = 0; d < dim; d++)
        sum[static_cast<size_t>(d)] += weight * double{v.data<float>()[(p * kv_heads + of) * dim + d]};
    }
    for (const double x : sum) out.push_back(static_cast<float>(x / weights));
  }
  return out;
}

TEST_F(EmulatedAttention, CloseToTheFormula) {
  for (const auto& [dim, total, scores] :
       {std::tuple{32, 9000, ScoreSpec{0.2f}},
        {64, 4000, ScoreSpec{0.2f}},
        {64, 1000, ScoreSpec{0.2f, 300}},
        {32, 9000, ScoreSpec{0.2f, 8500}},
        {32, 140, ScoreSpec{0.2f, 3}},  // row 0 sees the last key of a part
        {96, 300, ScoreSpec{0.3f, 0, 2.0f}}}) {
    const int kv_heads = 2, heads = 4, rows = 11;
    const Tensor k = random({total, kv_heads, dim}), v = random({total, kv_heads, dim}),
                 q = random({rows, heads, dim});
    PagedKv kv = make_kv(kv_heads, dim);
    kv_append(kv, card().to_device(k), card().to_device(v));
    const Tensor there = card().to_device(q), y = to_host(attention(there, kv, scores));
    const int width = heads * dim;
    for (const int row : {0, rows - 1}) {
      const auto wanted = formula(q, k, v, row, total - rows + row, scores, total - rows + row + 1);
      for (int i = 0; i < width; i++)
        ASSERT_NEAR(y.data<float>()[row * width + i], wanted[static_cast<size_t>(i)], 2e-3)
            << dim << " " << total << " row " << row << " " << i;
    }
    expect_same_bits(to_host(attention(there.slice_rows(rows - 1, rows), kv, scores)),
                     y.slice_rows(rows - 1, rows),
                     fmt::format("the last of {} positions, {} dimensions", total, dim));
  }
}

// Sinks far below the scores, near them and far above them; a row's parts in one block or in several.
TEST_F(EmulatedAttention, Sinks) {
  for (const auto& [dim, total, window] : {std::tuple{32, 9000, 0}, {64, 300, 0}, {64, 1000, 150}}) {
    const int kv_heads = 2, heads = 4, rows = 11, width = heads * dim;
    const Tensor k = random({total, kv_heads, dim}), v = random({total, kv_heads, dim}),
                 q = random({rows, heads, dim});
    ScoreSpec scores{0.2f, window};
    scores.sinks = to_tensor({-40, 0.5f, 6, 9}, {heads});
    PagedKv kv = make_kv(kv_heads, dim);
    kv_append(kv, card().to_device(k), card().to_device(v));
    ScoreSpec on_card = scores;
    on_card.sinks = card().to_device(scores.sinks);
    const Tensor there = card().to_device(q), y = to_host(attention(there, kv, on_card));
    for (const int row : {0, rows - 1}) {
      const auto wanted = formula(q, k, v, row, total - rows + row, scores, total - rows + row + 1);
      for (int i = 0; i < width; i++)
        ASSERT_NEAR(y.data<float>()[row * width + i], wanted[static_cast<size_t>(i)], 2e-3)
            << dim << " " << total << " row " << row << " " << i;
    }
    expect_same_bits(to_host(attention(there.slice_rows(rows - 1, rows), kv, on_card)),
                     y.slice_rows(rows - 1, rows), fmt::format("the last of {} positions", total));
  }
}

// Values that are a part of the keys: close to the formula, and the same bits for any rows and blocks.
TEST_F(EmulatedAttention, ValuesInKeys) {
  for (const auto& [dim, values, total, rows] :
       {std::tuple{96, 64, 9000, 11}, {64, 40, 300, 300}, {128, 96, 700, 40}, {576, 512, 200, 3}}) {
    const int heads = 5, width = heads * values;
    const Tensor k = random({total, 1, dim}), q = random({rows, heads, dim});
    PagedKv kv = make_kv(1, dim), pieces;
    kv.value_dim = values;
    pieces = kv;
    kv_append(kv, card().to_device(k), Tensor());
    for (int at = 0; at < total; at += 150) {
      const PagedKv kept = pieces;  // a snapshot, whose keys stay as they are
      const Tensor last =
          kept.length > 0 ? to_host(attention(card().to_device(q).slice_rows(0, 1), kept, {0.1f})) : Tensor();
      kv_append(pieces, card().to_device(k).slice_rows(at, std::min(at + 150, total)), Tensor());
      if (kept.length > 0)
        expect_same_bits(to_host(attention(card().to_device(q).slice_rows(0, 1), kept, {0.1f})), last,
                         "a snapshot");
    }
    const Tensor there = card().to_device(q), y = to_host(attention(there, kv, {0.1f}));
    ASSERT_EQ(y.shape(), (Shape{rows, heads, values}));
    for (const int row : {0, rows / 2, rows - 1}) {
      const auto wanted = formula(q, k, k, row, total - rows + row, {0.1f}, total - rows + row + 1);
      for (int i = 0; i < width; i++)
        ASSERT_NEAR(y.data<float>()[row * width + i],
                    wanted[static_cast<size_t>(i / values * dim + dim - values + i % values)], 2e-3)
            << dim << " " << total << " row " << row << " " << i;
    }
    expect_same_bits(to_host(attention(there.slice_rows(rows - 1, rows), pieces, {0.1f})),
                     y.slice_rows(rows - 1, rows), fmt::format("the last of {} positions", total));
  }
}

// What a snapshot has, too, stays as it is when the sequence goes on, and the other way round.
TEST_F(EmulatedAttention, SharedBlocksAreNotWritten) {
  const int kv_heads = 2, dim = 32;
  const Tensor k = card().to_device(random({20, kv_heads, dim})),
               v = card().to_device(random({20, kv_heads, dim})),
               other = card().to_device(random({20, kv_heads, dim})),
               q = card().to_device(random({2, 4, dim}));
  const auto filled = [&](const Tensor& keys, const Tensor& values) {
    PagedKv kv = make_kv(kv_heads, dim);
    kv_append(kv, keys, values);
    return kv;
  };
  const Tensor trunk = to_host(attention(q, filled(k, v), {0.2f}));
  const std::vector<Tensor> keys = {k.slice_rows(0, 10), other.slice_rows(10, 20)},
                            values = {v.slice_rows(0, 10), other.slice_rows(10, 20)};
  const Tensor twig = to_host(attention(q, filled(concat_rows(keys), concat_rows(values)), {0.2f}));
  PagedKv kv = filled(k.slice_rows(0, 10), v.slice_rows(0, 10)), branch = kv;
  kv_append(kv, k.slice_rows(10, 20), v.slice_rows(10, 20));
  kv_append(branch, other.slice_rows(10, 20), other.slice_rows(10, 20));
  expect_same_bits(to_host(attention(q, kv, {0.2f})), trunk, "the trunk");
  expect_same_bits(to_host(attention(q, branch, {0.2f})), twig, "the branch");
}

// Rows that see each other both ways: close to the formula, and the same bits for any of them.
TEST_F(EmulatedAttention, WholeSpans) {
  for (const auto& [dim, total, rows, scores] : {std::tuple{32, 9000, 11, ScoreSpec{0.2f}},
                                                 {64, 300, 300, ScoreSpec{0.2f}},
                                                 {64, 1000, 40, ScoreSpec{0.2f, 300}},
                                                 {96, 270, 30, ScoreSpec{0.3f, 0, 2.0f}}}) {
    const int kv_heads = 2, heads = 4, width = heads * dim;
    const Tensor k = random({total, kv_heads, dim}), v = random({total, kv_heads, dim}),
                 q = random({rows, heads, dim});
    PagedKv kv = make_kv(kv_heads, dim);
    kv_append(kv, card().to_device(k), card().to_device(v));
    const Tensor there = card().to_device(q), y = to_host(attention(there, kv, scores, true));
    for (const int row : {0, rows / 2, rows - 1}) {
      const auto wanted = formula(q, k, v, row, total - rows + row, scores, total);
      for (int i = 0; i < width; i++)
        ASSERT_NEAR(y.data<float>()[row * width + i], wanted[static_cast<size_t>(i)], 2e-3)
            << dim << " " << total << " row " << row << " " << i;
    }
    if (scores.window > 0) continue;
    for (const auto& [begin, end] : {std::pair{0, 1}, {2, 7}, {rows - 9, rows}})
      expect_same_bits(to_host(attention(there.slice_rows(begin, end), kv, scores, true)),
                       y.slice_rows(begin, end), fmt::format("rows {} .. {} of {}", begin, end, rows));
  }
}

// A prompt with a picture between text: spans that see both ways, and positions of three axes.
TEST_F(EmulatedAttention, AttendsToAPicture) {
  const int heads = 4, kv_heads = 2, dim = 32, rows = 200, width = heads * dim;
  const Tensor q = card().to_device(random({rows, width})),
               k = card().to_device(random({rows, kv_heads * dim})),
               v = card().to_device(random({rows, kv_heads * dim}));
  Rope rope{{1.0f, 0.3f, 0.1f, 0.01f}};
  rope.axis = {0, 1, 2, 1};
  std::vector<int> positions;
  for (int i = 0; i < rows * 3; i++) positions.push_back(i * 7 % 50);
  const Matrix matrix = affine_matrix(32, width, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card(), matrix.source());
  PagedKv together = make_kv(kv_heads, dim), apart = together;
  for (const auto& [begin, end] : {std::pair{0, 20}, {20, 22}, {22, 180}, {180, 181}, {181, 200}}) {
    const int count = end - begin;
    const bool whole = end == 22 || end == 180;
    const Tensor q_part = q.slice_rows(begin, end), k_part = k.slice_rows(begin, end),
                 v_part = v.slice_rows(begin, end);
    const auto at = std::span<const int>(positions).subspan(static_cast<size_t>(begin * 3),
                                                            static_cast<size_t>(count) * 3);
    const AttentionSpan span{&together, 0, count, whole};
    const Tensor y = linear(
        attend({q_part, k_part, v_part, nullptr, nullptr, nullptr, at, &rope, heads, {0.2f}}, {&span, 1}),
        out);
    const auto turned = [&, count = count](const Tensor& x, int of) {
      return ops::rope(x.reshape({count, of, dim}), at, rope);
    };
    kv_append(apart, turned(k_part, kv_heads), v_part.reshape({count, kv_heads, dim}));
    const Tensor wanted =
        linear(attention(turned(q_part, heads), apart, {0.2f}, whole).reshape({count, width}), out);
    expect_same_bits(to_host(y), to_host(wanted), fmt::format("rows {} .. {}", begin, end));
  }
}

// Norms, rotation, cache, attention and gate: any way to cut the rows, few or many together.
TEST_F(EmulatedAttention, DoesNotDependOnChunks) {
  for (const auto& [dim, window] : {std::pair{32, 0}, {64, 150}}) {
    const int heads = 4, kv_heads = 2, rows = 400, width = heads * dim;
    const Tensor q = card().to_device(random({rows, width})), gate = card().to_device(random({rows, width})),
                 k = card().to_device(random({rows, kv_heads * dim})),
                 v = card().to_device(random({rows, kv_heads * dim}));
    const RowNorm norm{card().to_device(random({dim})), 1e-6f};
    const Rope rope{{1.0f, 0.3f, 0.01f}};
    const Weight out =
        Weight::make(card(), affine_matrix(32, width, 8, 64, ScaleType::f16, false, 9).source());
    const auto run = [&, window = window](const std::vector<int>& ends) {
      PagedKv kv = make_kv(kv_heads, dim);
      std::vector<Tensor> parts;
      int begin = 0;
      for (const int end : ends) {
        std::vector<int> positions;
        for (int i = begin; i < end; i++) positions.push_back(i);
        const auto cut = [&](const Tensor& x) { return x.slice_rows(begin, end); };
        const Tensor q_part = cut(q), k_part = cut(k), v_part = cut(v), gate_part = cut(gate);
        const AttentionSpan span{&kv, 0, end - begin};
        const AttentionInputs in{q_part, k_part,    v_part, &gate_part, &norm,
                                 &norm,  positions, &rope,  heads,      {0.2f, window}};
        const Tensor zero = card().zeros({end - begin, 32}, Dtype::f32);
        parts.push_back(linear_add(attend(in, {&span, 1}), out, zero));
        begin = end;
      }
      return to_host(concat_rows(parts));
    };
    const Tensor whole = run({rows});
    expect_same_bits(run({1, 2, 5, 13, 100, 126, 130, 255, 257, 258, 300, 383, 385, 400}), whole,
                     fmt::format("in chunks, {} dimensions", dim));
  }
}

}  // namespace
}  // namespace anabranch::ops
