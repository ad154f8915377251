// The CUDA backend against ops/reference, skipped where there is no device (cuda_without_device_test.cc has
// the rest).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/float16.h"
#include "ops/attention.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/device.h"
#include "ops/cuda/shapes.h"
#include "ops/cuda/weight.h"
#include "ops/cuda_cases.h"
#include "ops/delta_cases.h"
#include "ops/elementwise.h"
#include "ops/low_rank_cases.h"
#include "ops/open.h"
#include "ops/recurrence.h"
#include "ops/rope.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

std::unique_ptr<Device> opened;  // while the tests of Cuda run
cuda::CudaDevice& card() {
  return static_cast<cuda::CudaDevice&>(*opened);
}
Tensor on_card(const Tensor& x) {
  return card().to_device(x);
}

class Cuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda_unsupported().empty()) opened = open_device({.name = "cuda"}).value();
  }
  static void TearDownTestSuite() { opened.reset(); }
  void SetUp() override {
    if (!opened) GTEST_SKIP() << cuda_unsupported();
  }
};

// Under a tool that makes the device slow (bench/gpu/run.py --sanitize).
bool few_cases() {
  return std::getenv("ANABRANCH_FEW_CASES") != nullptr;
}

// x W^T in double of the numbers that the tensor cores multiply, and what fp32 sums may change: the tensor
// cores cut what does not fit, which is twice as much as rounding, for every product and for every sum.
void expect_product(const std::vector<float>& x, int rows, const Matrix& m, const Tensor& y,
                    const char* what) {
  std::vector<float> rounded(x);
  for (float& v : rounded) v = static_cast<float>(to_bf16(v));
  Matrix multiplied;
  multiplied.rows = m.rows;
  multiplied.cols = m.cols;
  for (int n = 0; n < m.rows; n++)
    for (int k = 0; k < m.cols; k++)
      multiplied.values.push_back(static_cast<float>(multiplied_weight(m, n, k)));
  auto exact = exact_product(rounded, rows, multiplied);
  for (double& tolerance : exact.tolerance) tolerance = tolerance * 4 + 1e-30;
  EXPECT_TRUE(within(to_vector(y), exact.y, exact.tolerance)) << what << ", " << rows << " rows";
}

TEST_F(Cuda, ProductsOfEveryFormat) {
  Random random(1);
  for (const auto& [n, k] : {std::pair{48, 128}, {40, 576}, {300, 1536}}) {
    if (few_cases() && k != 576) continue;
    for (const auto& [matrix, name] : formats(n, k)) {
      const Weight weight = Weight::make(card(), matrix.source());
      const auto x = random.vector(int64_t{100} * k);
      const Tensor all = on_card(to_tensor(x, {100, k}));
      Tensor first = to_host(linear(all.slice_rows(0, 1), weight));
      for (const int rows : {1, 3, 8, 9, 17, 32, 33, 64, 100}) {
        const Tensor y = to_host(linear(all.slice_rows(0, rows), weight));
        expect_product({x.begin(), x.begin() + int64_t{rows} * k}, rows, matrix, y, name);
        expect_same_bits(y.slice_rows(0, 1), first, fmt::format("{}: row 0 among {}", name, rows));
      }
    }
  }
}

TEST_F(Cuda, ARowsProductDoesNotDependOnTheOthers) {
  Rng rng(2);
  const int n = 768, k = 2048, rows = 3000;  // more tiles than multiprocessors
  const Matrix gate_matrix = affine_matrix(n, k, 4, 64, ScaleType::bf16, false, 1),
               up_matrix = affine_matrix(n, k, 4, 64, ScaleType::bf16, false, 2),
               down_matrix = affine_matrix(k, n, 4, 64, ScaleType::bf16, false, 3);
  const Weight gate = Weight::make(card(), gate_matrix.source()),
               up = Weight::make(card(), up_matrix.source()),
               down = Weight::make(card(), down_matrix.source());
  const RowNorm norm{on_card(random_tensor({k}, rng)), 1e-6f};
  const Tensor x = on_card(random_tensor({rows, k}, rng));
  const auto mlp = [&](int begin, int end) {
    const auto part = x.slice_rows(begin, end);
    return to_host(linear_add(linear_swiglu(part, gate, up, norm), down, part));
  };
  const Tensor whole = mlp(0, rows);
  for (const auto& [begin, end] : {std::pair{0, 1},
                                   {7, 8},
                                   {5, 9},
                                   {60, 76},
                                   {100, 132},
                                   {10, 150},
                                   {0, 64},
                                   {300, 428},
                                   {500, 756},
                                   {199, 200},
                                   {2300, 2340},
                                   {2950, 3000},
                                   {2999, 3000}})
    expect_same_bits(mlp(begin, end), whole.slice_rows(begin, end), fmt::format("rows {} to {}", begin, end));
}

// So wide that a warp takes two or three tiles of weights for each read of x.
TEST_F(Cuda, WideMatricesGiveWhatNarrowOnesGive) {
  Rng rng(9);
  const int n = 96 * card().info().multiprocessors, k = 576;
  const Matrix gate_matrix = affine_matrix(n, k, 4, 64, ScaleType::bf16, false, 1),
               up_matrix = affine_matrix(n, k, 4, 64, ScaleType::bf16, false, 2),
               down_matrix = affine_matrix(40, n, 4, 32, ScaleType::bf16, false, 3);
  WeightSource first_rows = gate_matrix.source();
  first_rows.rows = 48;
  const Weight gate = Weight::make(card(), gate_matrix.source()),
               up = Weight::make(card(), up_matrix.source()),
               down = Weight::make(card(), down_matrix.source()), narrow = Weight::make(card(), first_rows);
  const RowNorm norm{on_card(random_tensor({k}, rng)), 1e-6f};
  const Tensor all = on_card(random_tensor({32, k}, rng));
  for (const int rows : {1, 7, 16, 21, 32}) {
    const Tensor x = all.slice_rows(0, rows);
    const Weight* both[] = {&gate, &up};
    const auto wide = linear(x, both, &norm);
    const Weight* one[] = {&narrow};
    const Tensor y = to_host(wide[0]), few = to_host(linear(x, one, &norm)[0]);
    for (int r = 0; r < rows; r++)
      expect_same_bits(y.reshape({rows * n}).slice_rows(r * n, r * n + 48),
                       few.slice_rows(r, r + 1).reshape({48}), fmt::format("row {} of {}", r, rows));
    expect_same_bits(to_host(linear(linear_swiglu(x, gate, up, norm), down)),
                     to_host(linear(swiglu(wide[0], wide[1]), down)), fmt::format("swiglu of {} rows", rows));
  }
}

TEST_F(Cuda, ManyInputs) {
  const int n = 48, k = 32832;
  const Matrix matrix = affine_matrix(n, k, 4, 64, ScaleType::bf16, false, 1);
  const Weight weight = Weight::make(card(), matrix.source());
  const auto x = Random(3).vector(int64_t{33} * k);
  const Tensor all = on_card(to_tensor(x, {33, k})), whole = to_host(linear(all, weight));
  expect_product(x, 33, matrix, whole, "many inputs");
  for (const int rows : {1, 17, 32})
    expect_same_bits(to_host(linear(all.slice_rows(0, rows), weight)), whole.slice_rows(0, rows),
                     fmt::format("{} of 33 rows", rows));
}

TEST_F(Cuda, EmbeddingRows) {
  for (const auto& [matrix, name] : formats(50, 192)) {
    const Weight table = Weight::make(card(), matrix.source());
    const std::vector<int> ids = {0, 49, 7, 8, 15, 16, 33};
    const auto rows = to_vector(to_host(embed(ids, table)));
    for (size_t i = 0; i < ids.size(); i++)
      for (int k = 0; k < 192; k++)
        ASSERT_NEAR(rows[i * 192 + static_cast<size_t>(k)], matrix.value(ids[i], k),
                    matrix.magnitude(ids[i], k) * (packing_error(matrix) + 4 * kUlp))
            << name << " row " << ids[i] << " input " << k;
  }
}

// op(device) on the card and on the reference.
template <class Op>
void expect_like_reference(const Op& op, double tolerance, const std::string& what) {
  expect_close(op(card()), op(reference_device()), tolerance, what);
}

TEST_F(Cuda, ElementwiseOps) {
  Rng rng(3);
  const Tensor a = random_tensor({5, 300}, rng), b = random_tensor({5, 300}, rng),
               w = random_tensor({300}, rng);
  const auto check = [&](const char* what, double tolerance, const auto& op) {
    const auto run = [&](Device& d) { return op(d.to_device(a), d.to_device(b), d.to_device(w)); };
    expect_like_reference(run, tolerance, what);
  };
  using T = const Tensor&;
  check("rms_norm", 1e-5, [](T x, T, T v) { return rms_norm(x, v, 1e-6f); });
  check("layer_norm", 1e-5,
        [](T x, T y, T v) { return layer_norm(x, v, y.slice_rows(0, 1).reshape({300}), 1e-6f); });
  check("gelu by tanh", 1e-5, [](T x, T, T) { return gelu(x, Gelu::tanh); });
  check("gelu by erf", 1e-5, [](T x, T, T) { return gelu(x, Gelu::erf); });
  check("add", 0, [](T x, T y, T) { return ops::add(x, y); });
  check("add_bias", 0, [](T x, T, T v) { return add_bias(x, v); });
  check("swiglu", 1e-5, [](T x, T y, T) { return swiglu(x, y); });
  check("gelu", 1e-5, [](T x, T y, T) { return swiglu(x, y, Activation::gelu_tanh); });
  check("scale", 0, [](T x, T, T) { return ops::scale(x, 1.7f); });
  check("soft_cap", 1e-5, [](T x, T, T) { return soft_cap(x, 2.5f); });
  check("sigmoid_gate", 1e-5, [](T x, T y, T) { return sigmoid_gate(x, y); });
  check("take_rows", 0, [](T x, T, T) { return take_rows(x, std::vector<int>{4, 0, 0}); });
  check("concat_rows", 0, [](T x, T y, T) { return concat_rows({x, y.slice_rows(1, 3)}); });
  check("copy_rows", 0, [](T x, T, T) { return copy_rows(x, 2, 4); });
  const Tensor heads = random_tensor({3, 2, 64}, rng);
  const std::vector<int> positions = {0, 5, 100000};
  const std::vector<float> frequencies = {1.0f, 0.3f, 0.01f};
  expect_like_reference(
      [&](Device& d) {
        return rope(d.to_device(heads), positions, Rope{frequencies, 1.1f});
      },
      1e-5, "rope");
  const std::vector<int> of_axes = {0, 3, 9, 5, 5, 5, 100, 7, 1};
  Rope three{frequencies, 1.1f};
  three.axis = {2, 0, 1};
  expect_like_reference([&](Device& d) { return rope(d.to_device(heads), of_axes, three); }, 1e-5,
                        "rope over axes");
}

TEST_F(Cuda, BestOfRows) {
  Rng rng(8);
  for (const int width : {1, 2, 65, 1000, 5000}) {
    const Tensor x = rows_to_choose_from(width, rng);
    const auto want = best_of_rows(cpu_device().to_device(x));
    EXPECT_EQ(best_of_rows(on_card(x)), want) << "width " << width;
  }
}

// As the engine does for a row that it finds later to need.
TEST_F(Cuda, AnyThreadBringsTensorsToTheHost) {
  Rng rng(10);
  std::vector<Tensor> there, here;
  for (int i = 0; i < 8; i++) {
    here.push_back(random_tensor({3, 1000}, rng));
    there.push_back(on_card(here.back()));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < here.size(); i++) threads.emplace_back([&, i] { there[i] = to_host(there[i]); });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < here.size(); i++) expect_same_bits(there[i], here[i], "a tensor");
}

PagedKv make_kv(int heads, int dim) {
  PagedKv kv;
  kv.kv_heads = heads;
  kv.head_dim = dim;
  return kv;
}

TEST_F(Cuda, AttentionEqualsReference) {
  Rng rng(4);
  for (const int dim : {32, 64, 96, 128, 256, 512}) {
    for (const int group : {1, 3, 4}) {
      if (few_cases() && (group != 3 || dim % 128 == 96)) continue;
      for (const auto& [before, rows, window] :
           {std::tuple{0, 1, 0}, {700, 1, 0}, {700, 5, 0}, {130, 40, 0}, {600, 3, 200}, {0, 300, 100}}) {
        const int heads = 2, total = before + rows;
        const Tensor k = random_tensor({total, heads, dim}, rng), v = random_tensor({total, heads, dim}, rng),
                     q = random_tensor({rows, heads * group, dim}, rng);
        const auto op = [&, window = window](Device& d) {
          PagedKv kv = make_kv(heads, dim);
          kv_append(kv, d.to_device(k), d.to_device(v));
          return attention(d.to_device(q), kv, {1.0f / std::sqrt(static_cast<float>(dim)), window});
        };
        // f16 queries, keys, weights and values: each a rounding of 2^-11 of numbers of size up to 4.
        expect_like_reference(op, 2e-2,
                              fmt::format("D {} group {} {}+{} window {}", dim, group, before, rows, window));
      }
    }
  }
}

// Rows that see each other both ways: as the reference, and the same bits for any of them.
TEST_F(Cuda, AttentionOfWholeSpans) {
  Rng rng(14);
  for (const auto& [dim, group, total, rows, window] : {std::tuple{64, 1, 1024, 1024, 0},
                                                        {128, 1, 700, 700, 0},
                                                        {256, 2, 400, 270, 0},
                                                        {96, 1, 300, 300, 0},
                                                        {64, 4, 9000, 5, 0},
                                                        {256, 2, 900, 256, 300}}) {
    const int heads = 2;
    const Tensor k = random_tensor({total, heads, dim}, rng), v = random_tensor({total, heads, dim}, rng),
                 q = random_tensor({rows, heads * group, dim}, rng);
    const ScoreSpec scores{1.0f / std::sqrt(static_cast<float>(dim)), window};
    const auto what = fmt::format("D {} group {} {} of {} window {}", dim, group, rows, total, window);
    expect_like_reference(
        [&, dim = dim](Device& d) {
          PagedKv kv = make_kv(heads, dim);
          kv_append(kv, d.to_device(k), d.to_device(v));
          return attention(d.to_device(q), kv, scores, true);
        },
        2e-2, what);
    if (window > 0) continue;
    PagedKv kv = make_kv(heads, dim);
    kv_append(kv, on_card(k), on_card(v));
    const Tensor there = on_card(q), whole = to_host(attention(there, kv, scores, true));
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 4}, {0, rows - 1}})
      expect_same_bits(to_host(attention(there.slice_rows(begin, end), kv, scores, true)),
                       whole.slice_rows(begin, end), fmt::format("{}: {} .. {}", what, begin, end));
  }
}

// So many positions that parts are joined in several rounds; the kernel for many rows gives the same.
TEST_F(Cuda, AttentionOverManyParts) {
  Rng rng(12);
  const int heads = 2, group = 4, rows = 520;
  for (const auto& [total, dim] : {std::pair{4096, 128}, {4097, 256}, {9000, 128}, {3000, 64}, {40000, 64}}) {
    if (few_cases() && total > 9000) continue;
    const Tensor k = random_tensor({total, heads, dim}, rng), v = random_tensor({total, heads, dim}, rng),
                 q = on_card(random_tensor({rows, heads * group, dim}, rng));
    PagedKv kv = make_kv(heads, dim);
    kv_append(kv, on_card(k), on_card(v));
    for (const int window : {0, 5000}) {
      const Tensor whole = to_host(attention(q, kv, {0.1f, window}));
      for (const int last : {1, 3, 17})
        expect_same_bits(to_host(attention(q.slice_rows(rows - last, rows), kv, {0.1f, window})),
                         whole.slice_rows(rows - last, rows),
                         fmt::format("the last {} of {} positions, window {}", last, total, window));
    }
  }
}

// A whole mixer's attention: any way to cut the rows gives the same bits.
TEST_F(Cuda, AttentionDoesNotDependOnChunksOrNeighbours) {
  Rng rng(5);
  const int heads = 8, kv_heads = 2, dim = 64, rows = 700;
  const Tensor q = on_card(random_tensor({rows, heads * dim}, rng)),
               k = on_card(random_tensor({rows, kv_heads * dim}, rng)),
               v = on_card(random_tensor({rows, kv_heads * dim}, rng)),
               gate = on_card(random_tensor({rows, heads * dim}, rng));
  const RowNorm norm{on_card(random_tensor({dim}, rng)), 1e-6f};
  const Rope rope{{1.0f, 0.3f, 0.01f}};
  const Matrix square = affine_matrix(heads * dim, heads * dim, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card(), square.source());
  const Tensor zero = card().zeros({rows, heads * dim}, Dtype::f32);
  const auto run = [&](const std::vector<int>& ends) {
    PagedKv kv = make_kv(kv_heads, dim);
    std::vector<Tensor> parts;
    int begin = 0;
    for (const int end : ends) {
      std::vector<int> positions;
      for (int i = begin; i < end; i++) positions.push_back(i);
      const auto cut = [&](const Tensor& x) { return x.slice_rows(begin, end); };
      const auto q_part = cut(q), k_part = cut(k), v_part = cut(v), gate_part = cut(gate);
      AttentionInputs in{q_part, k_part, v_part, &gate_part, &norm, &norm, positions, &rope, heads, {0.125f}};
      const AttentionSpan span{&kv, 0, end - begin};
      parts.push_back(linear_add(attend(in, {&span, 1}), out, cut(zero)));
      begin = end;
    }
    return to_host(concat_rows(parts));
  };
  const Tensor whole = run({700});
  expect_same_bits(run({1, 2, 3, 7, 20, 100, 255, 256, 257, 290, 500, 516, 699, 700}), whole, "in chunks");
}

// More sequences than a launch takes at once, of mixed lengths, some with prompts among others that decode.
TEST_F(Cuda, AttentionOfManySequences) {
  Rng rng(10);
  const int heads = 8, kv_heads = 2, dim = 64, sequences = 40;
  const Rope rope{{1.0f, 0.3f, 0.01f}};
  const Matrix square = affine_matrix(heads * dim, heads * dim, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card(), square.source());
  for (const int window : {0, 200}) {
    struct Sequence {
      PagedKv together, alone;
      int before, count;
    };
    std::vector<Sequence> all;
    int rows = 0;
    for (int i = 0; i < sequences; i++) {
      all.push_back({make_kv(kv_heads, dim), make_kv(kv_heads, dim), i * i * 37 % 900,
                     i % 5 == 3 ? 40 + i : 1 + i % 2});
      Sequence& s = all.back();
      rows += s.count;
      if (s.before == 0) continue;
      const Tensor k = on_card(random_tensor({s.before, kv_heads, dim}, rng)),
                   v = on_card(random_tensor({s.before, kv_heads, dim}, rng));
      kv_append(s.together, k, v);
      kv_append(s.alone, k, v);
    }
    const Tensor q = on_card(random_tensor({rows, heads * dim}, rng)),
                 k = on_card(random_tensor({rows, kv_heads * dim}, rng)),
                 v = on_card(random_tensor({rows, kv_heads * dim}, rng));
    std::vector<int> positions;
    std::vector<AttentionSpan> spans;
    for (Sequence& s : all) {
      spans.push_back({&s.together, static_cast<int>(positions.size()), s.count});
      for (int i = 0; i < s.count; i++) positions.push_back(s.before + i);
    }
    const auto run = [&](const Tensor& q_part, const Tensor& k_part, const Tensor& v_part,
                         std::span<const int> at, std::span<const AttentionSpan> parts) {
      return to_host(linear(
          attend({q_part, k_part, v_part, nullptr, nullptr, nullptr, at, &rope, heads, {0.125f, window}},
                 parts),
          out));
    };
    const Tensor y = run(q, k, v, positions, spans);
    for (size_t i = 0; i < all.size(); i++) {
      const int begin = spans[i].begin, end = begin + spans[i].count;
      const AttentionSpan span{&all[i].alone, 0, spans[i].count};
      const auto at = std::span<const int>(positions).subspan(static_cast<size_t>(begin),
                                                              static_cast<size_t>(end - begin));
      expect_same_bits(
          run(q.slice_rows(begin, end), k.slice_rows(begin, end), v.slice_rows(begin, end), at, {&span, 1}),
          y.slice_rows(begin, end), fmt::format("sequence {}, window {}", i, window));
    }
  }
}

TEST_F(Cuda, GatedDeltaEqualsReference) {
  expect_delta_like_reference(card());
}
TEST_F(Cuda, DraftsOfGatedDelta) {
  expect_drafts_of_delta(card());
}
TEST_F(Cuda, GatedDeltaOfManySequences) {
  expect_delta_of_many_sequences(card());
}
TEST_F(Cuda, GatedDeltaSpansOfOneSequence) {
  expect_delta_of_spans(card());
}

TEST_F(Cuda, LowRankSums) {
  constexpr int kRanks[] = {1, 3, 8, 16, 64, 1024};
  expect_low_rank_of_shapes(card(), kRanks);
  expect_low_rank_of_many_parts(card());
  expect_low_rank_of_columns_and_pieces(card());
  expect_low_rank_of_outputs(card());
  expect_low_rank_downs(card());
  expect_low_rank_in_order(card());
  expect_low_rank_rows_stand_alone(card());
}

// Two devices of one card are independent of each other.
TEST_F(Cuda, ASecondDevice) {
  Rng rng(13);
  const Matrix matrix = affine_matrix(300, 576, 4, 64, ScaleType::bf16, false, 1);
  const Tensor x = random_tensor({5, 576}, rng);
  const auto product = [&](Device& device, const Weight& weight) {
    return to_vector(linear(device.to_device(x), weight));
  };
  const Weight weight = Weight::make(card(), matrix.source());
  const auto want = product(card(), weight);
  {
    const auto second = open_device({.name = "cuda"}).value();
    const Weight other = Weight::make(*second, matrix.source());
    for (int i = 0; i < 3; i++) {
      EXPECT_TRUE(bits_agree(product(*second, other), want));
      EXPECT_TRUE(bits_agree(product(card(), weight), want));
    }
    EXPECT_THROW(linear(card().to_device(x), other), std::invalid_argument);
  }
  EXPECT_TRUE(bits_agree(product(card(), weight), want)) << "after the second device closed";
}

}  // namespace
}  // namespace anabranch::ops
