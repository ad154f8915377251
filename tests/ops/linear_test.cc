#include "ops/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "ops/elementwise.h"
#include "ops/linear_products.h"

namespace anabranch::ops {
namespace {

class Affine : public ::testing::TestWithParam<std::tuple<int, int>> {};

void check_affine(const Matrix& m, const std::vector<float>& x) {
  const Product want = exact_product(x, kMaxRows, m);
  const std::vector<float> rounded = int8_product(x, kMaxRows, m);
  std::vector<float> precise;
  for (const std::string& target : all_targets()) {
    const Weight w = Weight::make(cpu_device(0, false, target), m.source());
    ASSERT_NO_FATAL_FAILURE(expect_prefixes(x, w, rounded)) << "int8";
    const Weight p = Weight::make(cpu_device(0, true, target), m.source());
    if (precise.empty()) {
      precise = product(x, kMaxRows, p);
      ASSERT_TRUE(within(precise, want.y, want.tolerance)) << "precise";
    }
    ASSERT_NO_FATAL_FAILURE(expect_prefixes(x, p, precise)) << "precise";
  }
  const Weight w = Weight::make(reference_device(), m.source());
  ASSERT_TRUE(within(product(x, kMaxRows, w), want.y, want.tolerance)) << "reference";
}

TEST_P(Affine, EveryPathAndTarget) {
  const int bits = std::get<0>(GetParam()), group = std::get<1>(GetParam());
  uint64_t seed = 1;
  int shapes = bits;
  for (const int cols : kInputs) {
    if (cols % group != 0) continue;
    const std::vector<float> x = inputs(kMaxRows, cols, seed++);
    for (const int rows : kOutputs) {
      // Three of the six kinds of scales for each shape, the other three for the next one.
      const bool even = shapes++ % 2 == 0;
      for (const ScaleType type : {ScaleType::f32, ScaleType::f16, ScaleType::bf16}) {
        for (const bool symmetric : {false, true}) {
          if ((symmetric == (type == ScaleType::f16)) != even) continue;
          SCOPED_TRACE(::testing::Message() << "inputs " << cols << ", outputs " << rows << ", scale type "
                                            << static_cast<int>(type) << ", symmetric " << symmetric);
          ASSERT_NO_FATAL_FAILURE(
              check_affine(affine_matrix(rows, cols, bits, group, type, symmetric, seed++), x));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Linear, Affine,
                         ::testing::Combine(::testing::Values(2, 3, 4, 5, 6, 8),
                                            ::testing::Values(16, 32, 64, 128)),
                         [](const auto& info) {
                           return "Bits" + std::to_string(std::get<0>(info.param)) + "Group" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Codes and activations at their limits: the int16 sums inside the AVX2 kernels must not saturate.
TEST_P(Affine, Extremes) {
  const int bits = std::get<0>(GetParam()), group = std::get<1>(GetParam());
  for (const int sign : {-1, 1}) {
    Matrix m = affine_matrix(17, 128, bits, group, ScaleType::f32, false, 5);
    std::fill(m.codes.begin(), m.codes.end(), static_cast<uint8_t>((1 << bits) - 1));
    std::fill_n(m.codes.begin(), 128, uint8_t{0});
    const std::vector<float> x(static_cast<size_t>(kMaxRows * 128), static_cast<float>(sign));
    ASSERT_NO_FATAL_FAILURE(check_affine(m, x));
  }
}

// Every K-quant's codes and scales; 1280 inputs are more than the kernels unpack at a time.
TEST(Linear, BlockScales) {
  const struct {
    int bits, group;
    bool symmetric;
  } kinds[] = {{2, 16, false}, {3, 16, true}, {4, 32, false}, {5, 32, false}, {6, 16, true}};
  uint64_t seed = 900;
  for (const auto& kind : kinds) {
    for (const int cols : {256, 1280}) {
      const std::vector<float> x = inputs(kMaxRows, cols, seed++);
      for (const int rows : {1, 17, 48}) {
        SCOPED_TRACE(::testing::Message() << kind.bits << " bits, " << rows << " x " << cols);
        ASSERT_NO_FATAL_FAILURE(
            check_affine(block_matrix(rows, cols, kind.bits, kind.group, kind.symmetric, seed++), x));
      }
    }
  }
}

TEST(Linear, DenseKinds) {
  uint64_t seed = 100;
  for (const WeightKind kind : {WeightKind::f32, WeightKind::f16, WeightKind::bf16}) {
    for (const int cols : {1, 7, 31, 32, 33, 100, 576}) {
      const std::vector<float> x = inputs(kMaxRows, cols, seed++);
      for (const int rows : kOutputs) {
        SCOPED_TRACE(::testing::Message()
                     << "kind " << static_cast<int>(kind) << ", " << rows << " x " << cols);
        const Matrix m = dense_matrix(rows, cols, kind, seed++);
        const Product want = exact_product(x, kMaxRows, m);
        std::vector<float> ordered(want.y.size());  // the formula in ops/cpu/kernels_linear.h
        for (int r = 0; r < kMaxRows; r++) {
          for (int n = 0; n < rows; n++) {
            float acc = 0;
            for (int k = 0; k < cols; k++)
              acc = std::fma(m.values[static_cast<size_t>(n * cols + k)],
                             x[static_cast<size_t>(r * cols + k)], acc);
            ordered[static_cast<size_t>(r * rows + n)] = acc;
          }
        }
        for (const std::string& target : all_targets()) {
          const Weight w = Weight::make(cpu_device(0, false, target), m.source());
          ASSERT_NO_FATAL_FAILURE(expect_prefixes(x, w, ordered));
        }
        ASSERT_TRUE(within(ordered, want.y, want.tolerance));
        const Weight w = Weight::make(reference_device(), m.source());
        ASSERT_TRUE(within(product(x, kMaxRows, w), want.y, want.tolerance));
      }
    }
  }
}

// Large enough that the work is shared out, along panels and along rows.
TEST(Linear, ThreadsDoNotMatter) {
  const int cols = 1152;  // 300 rows of them are more than one block of tiles
  const std::vector<float> x = inputs(300, cols, 7);
  for (const int outputs : {20, 1000}) {
    for (const Matrix& m : {affine_matrix(outputs, cols, 4, 64, ScaleType::f16, false, 8),
                            coded_matrix(outputs, cols, WeightKind::table, 32, ScaleType::f16, 8),
                            coded_matrix(outputs, cols, WeightKind::fp8, 128, ScaleType::bf16, 8),
                            dense_matrix(outputs, cols, WeightKind::bf16, 9)}) {
      for (const bool precise : {false, true}) {
        const std::vector<float> all = product(x, 300, Weight::make(cpu_device(1, precise), m.source()));
        for (const int threads : {2, 3}) {
          const Weight w = Weight::make(cpu_device(threads, precise), m.source());
          for (const int rows : {1, 2, 6, 31, 300}) {
            const std::vector<float> y = product(x, rows, w);
            ASSERT_TRUE(bits_agree(y.data(), all.data(), y.size()))
                << rows << " rows, " << outputs << " outputs, " << threads << " threads, precise " << precise;
          }
        }
      }
    }
  }
}

// Several weights at once share prepared inputs; each result is the one it has alone.
TEST(Linear, ManyWeights) {
  const int cols = 128;
  std::vector<Matrix> matrices;
  matrices.push_back(affine_matrix(40, cols, 4, 64, ScaleType::f16, false, 1));
  matrices.push_back(affine_matrix(7, cols, 6, 16, ScaleType::f32, true, 2));
  matrices.push_back(dense_matrix(33, cols, WeightKind::bf16, 3));
  matrices.push_back(affine_matrix(16, cols, 8, 32, ScaleType::bf16, false, 4));
  matrices.push_back(affine_matrix(90, cols, 3, 64, ScaleType::f16, true, 5));
  matrices.push_back(coded_matrix(24, cols, WeightKind::table, 32, ScaleType::e8m0, 7, kFp4Table));
  matrices.push_back(coded_matrix(24, cols, WeightKind::table, 16, ScaleType::f16, 8));
  matrices.push_back(coded_matrix(24, cols, WeightKind::fp8, 64, ScaleType::f32, 9));
  const std::vector<float> x = inputs(9, cols, 6);
  for (Device* device : cpu_and_reference()) {
    std::vector<Weight> weights;
    for (const Matrix& m : matrices) weights.push_back(Weight::make(*device, m.source()));
    std::vector<const Weight*> pointers;
    for (const Weight& w : weights) pointers.push_back(&w);
    const std::vector<Tensor> together = linear(first_rows(*device, x, 9, cols), pointers);
    ASSERT_EQ(together.size(), weights.size());
    for (size_t i = 0; i < weights.size(); i++)
      EXPECT_TRUE(bits_agree(to_vector(together[i]), product(x, 9, weights[i]))) << i;
  }
}

// The values of a result that this device does not pack.
std::vector<float> plain(const MatmulInput& x) {
  EXPECT_FALSE(x.packed);
  return to_vector(x.values);
}

// A fused op gives the bits of its parts, for few rows and for many, and for weights of any kinds.
TEST(Linear, FusedIsTheComposition) {
  const int cols = 256, outputs = 200;
  std::vector<Matrix> matrices;
  matrices.push_back(affine_matrix(outputs, cols, 4, 64, ScaleType::f16, false, 1));
  matrices.push_back(affine_matrix(outputs, cols, 6, 16, ScaleType::f32, true, 2));
  matrices.push_back(dense_matrix(outputs, cols, WeightKind::bf16, 3));
  matrices.push_back(coded_matrix(outputs, cols, WeightKind::table, 32, ScaleType::f16, 4));
  matrices.push_back(coded_matrix(outputs, cols, WeightKind::fp8, 128, ScaleType::bf16, 5));
  const std::vector<float> x = inputs(kMaxRows, cols, 6);
  Random random(8);
  const std::vector<float> norm_weight = random.vector(cols);
  for (const std::string& target : all_targets()) {
    Device& cpu = cpu_device(0, false, target);
    std::vector<Weight> weights;
    for (const Matrix& m : matrices) weights.push_back(Weight::make(cpu, m.source()));
    const RowNorm norm{cpu.to_device(to_tensor(norm_weight, {cols})), 1e-5f};
    for (const int rows : kRowCounts) {
      const Tensor in = first_rows(cpu, x, rows, cols);
      const Tensor normed = rms_norm(in, norm.weight, norm.eps);
      const Tensor residual = cpu.to_device(to_tensor(random.vector(rows * outputs), {rows, outputs}));
      for (size_t i = 0; i < weights.size(); i++) {
        const Weight &gate = weights[i], &up = weights[(i + 1) % weights.size()];
        const Weight* one = &gate;
        SCOPED_TRACE(::testing::Message() << target << ", " << rows << " rows, weight " << i);
        EXPECT_TRUE(bits_agree(to_vector(linear(in, std::span<const Weight* const>(&one, 1), &norm)[0]),
                               to_vector(linear(normed, gate))));
        EXPECT_TRUE(bits_agree(to_vector(linear_add(in, gate, residual)),
                               to_vector(ops::add(residual, linear(in, gate)))));
        EXPECT_TRUE(bits_agree(plain(linear_swiglu(in, gate, up, norm)),
                               to_vector(swiglu(linear(normed, gate), linear(normed, up)))));
      }
    }
  }
}

// Fused work that is cut along panels and along rows.
TEST(Linear, FusedThreadsDoNotMatter) {
  const int cols = 1152, outputs = 500, rows = 300;
  const Matrix gate_matrix = affine_matrix(outputs, cols, 4, 64, ScaleType::f16, false, 1),
               up_matrix = affine_matrix(outputs, cols, 8, 32, ScaleType::f16, true, 2);
  Random random(3);
  const Tensor norm_weight = to_tensor(random.vector(cols), {cols}),
               host_x = to_tensor(inputs(rows, cols, 4), {rows, cols}),
               host_residual = to_tensor(random.vector(rows * outputs), {rows, outputs});
  std::vector<float> sum, product;
  for (const int threads : {1, 2, 3}) {
    Device& cpu = cpu_device(threads);
    const Weight gate = Weight::make(cpu, gate_matrix.source()), up = Weight::make(cpu, up_matrix.source());
    const RowNorm norm{cpu.to_device(norm_weight), 1e-6f};
    const Tensor x = cpu.to_device(host_x), residual = cpu.to_device(host_residual);
    if (sum.empty()) {
      const Tensor normed = rms_norm(x, norm.weight, norm.eps);
      sum = to_vector(ops::add(residual, linear(x, gate)));
      product = to_vector(swiglu(linear(normed, gate), linear(normed, up)));
    }
    EXPECT_TRUE(bits_agree(to_vector(linear_add(x, gate, residual)), sum)) << threads;
    EXPECT_TRUE(bits_agree(plain(linear_swiglu(x, gate, up, norm)), product)) << threads;
  }
}

// A number that is not finite makes its own row NaN, and no other.
TEST(Linear, NotFiniteInputsGiveNaN) {
  const int cols = 128;
  for (const Matrix& m : {affine_matrix(20, cols, 8, 32, ScaleType::f16, false, 1),
                          coded_matrix(20, cols, WeightKind::table, 32, ScaleType::f16, 1)}) {
    const Weight w = Weight::make(cpu_device(), m.source());
    std::vector<float> x = inputs(8, cols, 2);
    const std::vector<float> before = product(x, 8, w);
    x[3 * cols + 40] = std::numeric_limits<float>::quiet_NaN();
    x[5 * cols + 7] = std::numeric_limits<float>::infinity();
    const std::vector<float> after = product(x, 8, w);
    for (int r = 0; r < 8; r++) {
      for (int n = 0; n < 20; n++) {
        const auto i = static_cast<size_t>(r * 20 + n);
        if (r == 3 || r == 5)
          EXPECT_TRUE(std::isnan(after[i])) << r;
        else
          EXPECT_EQ(after[i], before[i]) << r;
      }
    }
  }
}

TEST(Linear, SaysWhatTheWeightIs) {
  const Matrix m = affine_matrix(33, 128, 5, 32, ScaleType::f16, false, 1);
  for (Device* device : cpu_and_reference()) {
    const Weight w = Weight::make(*device, m.source());
    EXPECT_EQ(w.out_features(), 33);
    EXPECT_EQ(w.in_features(), 128);
    EXPECT_EQ(w.kind(), WeightKind::affine);
    EXPECT_EQ(w.bits(), 5);
    EXPECT_EQ(w.group(), 32);
    EXPECT_GE(w.bytes(), 33u * 128 * 5 / 8 + 33 * 4 * 4);
  }
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  const Matrix m = affine_matrix(16, 64, 4, 32, ScaleType::f16, false, 1);
  for (Device* device : cpu_and_reference()) {
    const Weight w = Weight::make(*device, m.source());
    const auto zeros = [&](const Shape& shape, Dtype dtype = Dtype::f32) {
      return device->zeros(shape, dtype);
    };
    EXPECT_THROW(linear(zeros({2, 32}), w), std::invalid_argument);
    EXPECT_THROW(linear(zeros({2, 64}, Dtype::f16), w), std::invalid_argument);
    EXPECT_THROW(linear(zeros({2, 64}), std::span<const Weight* const>()), std::invalid_argument);
    EXPECT_THROW(linear(cpu_device(2).zeros({2, 64}, Dtype::f32), w), std::invalid_argument)
        << "x is on another device";
    EXPECT_THROW(linear_add(zeros({2, 64}), w, zeros({2, 15})), std::invalid_argument);
    const RowNorm short_norm{zeros({32})};
    EXPECT_THROW(linear_swiglu(zeros({2, 64}), w, w, short_norm), std::invalid_argument);
    for (const int id : {-1, 16}) {
      const std::vector<int> ids = {0, id};
      EXPECT_THROW(embed(ids, w), std::invalid_argument);
    }
  }
}

void check_embed(const Matrix& m) {
  const std::vector<int> ids = {m.rows - 1, 0, m.rows / 2, 0};
  std::vector<double> want, tolerance;
  std::vector<float> rounded;
  for (const int id : ids) {
    for (int k = 0; k < m.cols; k++) {
      want.push_back(m.value(id, k));
      tolerance.push_back(2 * kUlp * m.magnitude(id, k));
      rounded.push_back(static_cast<float>(want.back()));  // one rounding: scale * code is exact in double
    }
  }
  for (const std::string& target : all_targets()) {
    const Weight w = Weight::make(cpu_device(0, false, target), m.source());
    ASSERT_TRUE(bits_agree(to_vector(embed(ids, w)), rounded)) << target;
  }
  const Weight w = Weight::make(reference_device(), m.source());
  ASSERT_TRUE(within(to_vector(embed(ids, w)), want, tolerance));
}

TEST(Linear, EmbedIsTheDequantisedRow) {
  for (const int rows : {1, 17, 50}) {
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      for (const int group : {16, 32, 64, 128}) {
        for (const bool symmetric : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << bits << " bits, group " << group << ", symmetric " << symmetric);
          ASSERT_NO_FATAL_FAILURE(check_embed(
              affine_matrix(rows, group == 16 ? 48 : 128, bits, group, ScaleType::bf16, symmetric, 3)));
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(check_embed(block_matrix(rows, 512, 4, 32, false, 5)));
    ASSERT_NO_FATAL_FAILURE(check_embed(block_matrix(rows, 512, 6, 16, true, 6)));
    for (const int group : {16, 32})
      for (const ScaleType type : {ScaleType::f32, ScaleType::f16, ScaleType::e8m0, ScaleType::e4m3})
        ASSERT_NO_FATAL_FAILURE(check_embed(coded_matrix(rows, 96, WeightKind::table, group, type, 7)));
    for (const int group : {32, 64, 128})
      for (const ScaleType type : {ScaleType::f32, ScaleType::bf16, ScaleType::e8m0})
        ASSERT_NO_FATAL_FAILURE(check_embed(coded_matrix(rows, 384, WeightKind::fp8, group, type, 8)));
    for (const WeightKind kind : {WeightKind::f32, WeightKind::f16, WeightKind::bf16})
      ASSERT_NO_FATAL_FAILURE(check_embed(dense_matrix(rows, 45, kind, 4)));
  }
}

}  // namespace
}  // namespace anabranch::ops
