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
#include "ops/elementwise.h"
#include "ops/gated_delta.h"
#include "ops/open.h"
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

class Cuda : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda_unsupported().empty()) opened = open_device({.device = "cuda"}).value();
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

// So many positions that parts are joined in several rounds; a block that takes all parts of many rows gives
// the same.
TEST_F(Cuda, AttentionOverManyParts) {
  Rng rng(12);
  const int heads = 2, group = 4, dim = 128, rows = 520;
  for (const int total : {4096, 4097, 9000}) {
    const Tensor k = random_tensor({total, heads, dim}, rng), v = random_tensor({total, heads, dim}, rng),
                 q = on_card(random_tensor({rows, heads * group, dim}, rng));
    PagedKv kv = make_kv(heads, dim);
    kv_append(kv, on_card(k), on_card(v));
    for (const int window : {0, 5000}) {
      const Tensor whole = to_host(attention(q, kv, {0.1f, window}));
      for (const int last : {1, 3})
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

struct Delta {
  GatedDeltaShape shape;
  Tensor qkv, z, b, a;
  GatedDeltaWeights weights;
};
Delta make_delta(const GatedDeltaShape& s, int rows, Rng& rng) {
  const int c = s.conv_channels(), hv = s.value_heads;
  const auto in = [&](const Shape& shape, float scale = 1.0f) { return random_tensor(shape, rng, scale); };
  return {s,
          in({rows, c}),
          in({rows, hv * s.value_dim}),
          in({rows, hv}),
          in({rows, hv}),
          {in({s.conv_kernel, c}, 0.5f), in({hv}), in({hv}), in({s.value_dim})}};
}
Delta on_device(const Delta& d, Device& device) {
  const auto there = [&](const Tensor& x) { return device.to_device(x); };
  const GatedDeltaWeights& w = d.weights;
  return {d.shape,    there(d.qkv),
          there(d.z), there(d.b),
          there(d.a), {there(w.conv_weight), there(w.a_log), there(w.dt_bias), there(w.norm_weight), w.eps}};
}
Tensor delta_rows(const Delta& d, int begin, int end, GatedDeltaState& state, bool trial = false) {
  const auto cut = [&](const Tensor& x) { return x.slice_rows(begin, end); };
  const Tensor qkv = cut(d.qkv), z = cut(d.z), b = cut(d.b), a = cut(d.a);
  const GatedDeltaSpan span{&state, 0, end - begin, trial};
  return gated_delta_plain({qkv, z, b, a}, d.shape, d.weights, {&span, 1});
}

TEST_F(Cuda, GatedDeltaEqualsReference) {
  Rng rng(6);
  for (const auto& shape : kDeltaShapes) {
    const Delta d = make_delta(shape, 70, rng);
    expect_like_reference(
        [&](Device& device) {
          const Delta here = on_device(d, device);
          auto state = make_gated_delta_state(device, shape);
          const auto one = delta_rows(here, 0, 50, state);
          return concat_rows({one, delta_rows(here, 50, 70, state)});
        },
        5e-4, fmt::format("{} heads of {}", shape.value_heads, shape.key_dim));
  }
}

// Rounds of speculation with everything, something or nothing accepted leave what plain steps leave.
TEST_F(Cuda, TrialsOfGatedDelta) {
  Rng rng(7);
  for (const auto& shape : kDeltaShapes) {
    const Delta d = on_device(make_delta(shape, 60, rng), card());
    auto plain = make_gated_delta_state(card(), shape), tried = make_gated_delta_state(card(), shape);
    std::vector<Tensor> expected;
    for (int t = 0; t < 60; t++) expected.push_back(to_host(delta_rows(d, t, t + 1, plain)));
    int at = 0;
    for (const auto& [drafted, kept] : {std::pair{4, 4}, {5, 2}, {3, 0}, {16, 9}, {1, 1}, {7, 1}}) {
      const Tensor y = to_host(delta_rows(d, at, at + drafted, tried, true));
      for (int i = 0; i < drafted; i++)
        expect_same_bits(y.slice_rows(i, i + 1), expected[static_cast<size_t>(at + i)],
                         fmt::format("token {} of a draft of {}", at + i, drafted));
      std::vector<int> path;
      for (int i = 0; i < kept; i++) path.push_back(i);
      gated_delta_commit(tried, path);
      at += kept;
    }
    // Two drafts in one trial, then a snapshot, and on from there for good.
    delta_rows(d, at, at + 2, tried, true);
    delta_rows(d, at + 2, at + 5, tried, true);
    const std::vector<int> path = {0, 1, 2};
    gated_delta_commit(tried, path);
    at += 3;
    gated_delta_fold(shape, tried);
    auto again = make_gated_delta_state(card(), shape);
    delta_rows(d, 0, at, again);
    expect_same_bits(to_host(tried.s), to_host(again.s), "state");
    expect_same_bits(to_host(tried.conv), to_host(again.conv), "conv rows");
    const GatedDeltaState snapshot = tried;
    const auto before = to_vector(to_host(snapshot.s));
    const Tensor rest = to_host(delta_rows(d, at, 60, tried));
    for (int t = at; t < 60; t++)
      expect_same_bits(rest.slice_rows(t - at, t - at + 1), expected[static_cast<size_t>(t)],
                       fmt::format("token {} after the trials", t));
    EXPECT_TRUE(bits_agree(to_vector(to_host(snapshot.s)), before)) << "a snapshot changed";
  }
}

// More sequences than a launch takes at once; in every step of theirs some take tokens for good, with or
// without accepted ones to apply first, and some are on trial: anew, after others on trial, after some were
// accepted.
TEST_F(Cuda, GatedDeltaOfManySequences) {
  Rng rng(11);
  const GatedDeltaShape shape = kDeltaShapes[0];
  constexpr int kSequences = 40, kSteps = 7;
  const Matrix square = affine_matrix(128, 128, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card(), square.source());
  const auto numbers = [](const GatedDeltaState& state) {
    std::vector<Tensor> all = {to_host(state.s), to_host(state.conv)};
    if (const auto& w = state.window)
      for (const auto* x : {&w->k, &w->delta, &w->decay, &w->rows}) all.push_back(to_host(*x));
    return all;
  };
  struct Sequence {
    GatedDeltaState together, alone;
    std::optional<GatedDeltaState> copy = {};  // of `together`, which goes on
    std::vector<Tensor> copied = {};           // what it held then
  };
  std::vector<Sequence> all;
  for (int i = 0; i < kSequences; i++)
    all.push_back({make_gated_delta_state(card(), shape), make_gated_delta_state(card(), shape)});
  for (int step = 0; step < kSteps; step++) {
    std::vector<GatedDeltaSpan> spans;
    int rows = 0;
    for (int i = 0; i < kSequences; i++) {
      Sequence& s = all[static_cast<size_t>(i)];
      const int turn = (i + step) % 5;  // 0: for good; 1: on trial; 2: more; 3: some accepted; 4: none
      const int open = s.together.window ? s.together.window->open : 0;
      const std::vector<int> entries = {0, 1, 2, 3, 4, 5, 6, 7};
      const int accepted = turn == 4 ? 0 : std::min(open, 1 + i % 3);
      for (GatedDeltaState* state : {&s.together, &s.alone})
        if (turn != 1 && turn != 2) gated_delta_commit(*state, std::span(entries).first(accepted));
      if (step == 3 && i % 4 == 0) s.copy = s.together, s.copied = numbers(s.together);
      const int count = turn > 0 ? 1 + i % 4 : step % 2 == 1 && i % 3 == 0 ? 20 : 1;
      spans.push_back({&s.together, rows, count, turn > 0});
      rows += count;
    }
    const Delta d = on_device(make_delta(shape, rows, rng), card());
    const Tensor y = to_host(linear(gated_delta({d.qkv, d.z, d.b, d.a}, shape, d.weights, spans), out));
    for (int i = 0; i < kSequences; i++) {
      const auto& span = spans[static_cast<size_t>(i)];
      const int end = span.begin + span.count;
      auto& alone = all[static_cast<size_t>(i)].alone;
      expect_same_bits(to_host(linear(delta_rows(d, span.begin, end, alone, span.trial), out)),
                       y.slice_rows(span.begin, end), fmt::format("sequence {}, step {}", i, step));
    }
  }
  for (Sequence& s : all) {
    for (GatedDeltaState* state : {&s.together, &s.alone}) {
      gated_delta_commit(*state, {});
      gated_delta_fold(shape, *state);
    }
    expect_same_bits(to_host(s.together.s), to_host(s.alone.s), "state");
    expect_same_bits(to_host(s.together.conv), to_host(s.alone.conv), "conv rows");
    for (size_t i = 0; i < s.copied.size(); i++) expect_same_bits(numbers(*s.copy)[i], s.copied[i], "a copy");
  }
}

// Two spans of each sequence, and what is kept between them.
TEST_F(Cuda, GatedDeltaSpansOfOneSequence) {
  Rng rng(8);
  const GatedDeltaShape shape = kDeltaShapes[0];
  const int sequences = 40, each = 3;
  const Delta d = on_device(make_delta(shape, sequences * each, rng), card());
  std::vector<GatedDeltaState> together, alone;
  for (int i = 0; i < sequences; i++) {
    together.push_back(make_gated_delta_state(card(), shape));
    alone.push_back(make_gated_delta_state(card(), shape));
  }
  const Matrix square = affine_matrix(128, 128, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card(), square.source());
  std::vector<GatedDeltaSpan> spans;
  std::optional<GatedDeltaState> kept = make_gated_delta_state(card(), shape);
  for (int i = 0; i < sequences; i++) {
    spans.push_back({&together[static_cast<size_t>(i)], i * each, 1});
    spans.push_back({&together[static_cast<size_t>(i)], i * each + 1, each - 1});
  }
  spans[4].keep = &*kept;
  const Tensor y = to_host(linear(gated_delta({d.qkv, d.z, d.b, d.a}, shape, d.weights, spans), out));
  for (int i = 0; i < sequences; i++) {
    auto& state = alone[static_cast<size_t>(i)];
    const auto first = delta_rows(d, i * each, i * each + 1, state);
    if (i == 2) {
      expect_same_bits(to_host(kept->s), to_host(state.s), "what was kept");
      expect_same_bits(to_host(kept->conv), to_host(state.conv), "conv rows kept");
    }
    const auto rest = delta_rows(d, i * each + 1, (i + 1) * each, state);
    expect_same_bits(to_host(linear(concat_rows({first, rest}), out)), y.slice_rows(i * each, (i + 1) * each),
                     fmt::format("sequence {}", i));
    expect_same_bits(to_host(together[static_cast<size_t>(i)].s), to_host(state.s), "state");
  }
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
    const auto second = open_device({.device = "cuda"}).value();
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
