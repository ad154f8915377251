// Products of few rows, by kernels that the emulator runs on the CPU: rows that blocks normalise for
// themselves give the bits of rows that a kernel has normalised before.
#include <cmath>
#include <cstring>

#include "cuda/emulated_card.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear.h"
#include "ops/cuda_cases.h"

namespace anabranch::ops {
namespace {

class EmulatedProducts : public EmulatedDevice {
 protected:
  MatmulInput packed(const Tensor& x, const RowNorm* norm) {
    MatmulInput out = cuda::make_packed(card(), x.shape(0), x.shape(1));
    cuda::norm_rows(card(), x, norm, nullptr, &out);
    return out;
  }
  void expect_same_bits(int inputs, int rows, Rng& rng);
  // pack: of its inputs a rank has packed rows, not plain ones.
  void expect_same_bits_split(const Matrix& matrix, int rows, Rng& rng, bool pack = true);
  void few_blocks(int count) {
    fake_cards[0].multiprocessors = count;
    device_ = ops::cuda::open_cuda(0, 1).value();
  }
  static std::vector<uint8_t> bytes(const Tensor& x) {
    const Tensor host = to_host(x);
    return {host.data<uint8_t>(), host.data<uint8_t>() + host.size()};
  }
};

TEST_F(EmulatedProducts, OfFewRowsAloneAreNormalisedByBlocks) {
  EXPECT_TRUE(cuda::normed_by_blocks(1, 4096));
  EXPECT_FALSE(cuda::normed_by_blocks(2, 4096));
  EXPECT_TRUE(cuda::normed_by_blocks(1, 8192));
  EXPECT_FALSE(cuda::normed_by_blocks(1, 8193));
  EXPECT_TRUE(cuda::normed_by_blocks(4, 1024));
  EXPECT_FALSE(cuda::normed_by_blocks(5, 1024));
}

void EmulatedProducts::expect_same_bits(int inputs, int rows, Rng& rng) {
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << inputs);
  ASSERT_TRUE(cuda::normed_by_blocks(rows, inputs));
  const int outputs = 100;
  const Matrix four = inputs % 64 ? dense_matrix(outputs, inputs, WeightKind::bf16, 1)
                                  : affine_matrix(outputs, inputs, 4, 64, ScaleType::bf16, false, 1),
               other = dense_matrix(outputs, inputs, WeightKind::f16, 2);
  const Weight a = Weight::make(card(), four.source()), b = Weight::make(card(), other.source());
  const Weight* both[] = {&a, &b};
  const RowNorm norm{card().to_device(random_tensor({inputs}, rng)), 1e-6f};
  const Tensor x = card().to_device(random_tensor({rows, inputs}, rng)),
               residual = card().to_device(random_tensor({rows, outputs}, rng));
  const MatmulInput before = packed(x, &norm), lanes = cuda::make_lanes(card(), rows, inputs, false);
  const auto got = cuda::linear_of_few(x, both, norm, lanes), expected = cuda::linear(before, both, nullptr);
  for (const size_t i : {0, 1}) EXPECT_TRUE(bits_agree(to_vector(got[i]), to_vector(expected[i])));
  EXPECT_EQ(bytes(lanes.values), bytes(before.values));
  EXPECT_EQ(bytes(cuda::linear_swiglu(x, a, a, norm, Activation::silu).values),
            bytes(cuda::linear_swiglu(before, a, a, Activation::silu).values));
  EXPECT_TRUE(bits_agree(to_vector(cuda::linear_add(x, a, residual)),
                         to_vector(cuda::linear_add(packed(x, nullptr), a, residual))));
}

TEST_F(EmulatedProducts, BlocksNormaliseAsKernelsDo) {
  Rng rng(1);
  for (const auto& [inputs, rows] : {std::pair{40, 1},
                                     {130, 4},
                                     {640, 2},
                                     {1024, 4},
                                     {1200, 3},
                                     {2048, 2},
                                     {2050, 1},
                                     {4096, 1},
                                     {5120, 1},
                                     {6200, 1},
                                     {1500, 2}})
    expect_same_bits(inputs, rows, rng);
}

TEST_F(EmulatedProducts, ABlockWithManyUnitsDoesToo) {
  few_blocks(1);
  Rng rng(2);
  for (const auto& [inputs, rows] : {std::pair{640, 2}, {1200, 3}}) expect_same_bits(inputs, rows, rng);
}

// The weights that the tensor cores multiply, and what fp32 sums may change.
TEST_F(EmulatedProducts, OfEveryFormatAreThoseOfItsWeights) {
  Random random(4);
  const int outputs = 40, inputs = 192;
  for (const auto& [matrix, name] : formats(outputs, inputs)) {
    if (!is_coded(matrix.kind)) continue;
    const Weight weight = Weight::make(card(), matrix.source());
    Matrix multiplied = dense_matrix(outputs, inputs, WeightKind::bf16, 1);
    for (int n = 0; n < outputs; n++)
      for (int k = 0; k < inputs; k++)
        multiplied.values[static_cast<size_t>(n * inputs + k)] =
            static_cast<float>(multiplied_weight(matrix, n, k));
    for (const int rows : {1, 9}) {
      std::vector<float> x = random.vector(rows * inputs);
      for (float& v : x) v = static_cast<float>(to_bf16(v));
      const auto exact = exact_product(x, rows, multiplied);
      const Tensor y = linear(packed(card().to_device(to_tensor(x, {rows, inputs})), nullptr), weight);
      EXPECT_TRUE(within(to_vector(y), exact.y, exact.tolerance)) << name << ", " << rows << " rows";
      EXPECT_TRUE(bits_agree(
          to_vector(y.slice_rows(0, 1)),
          to_vector(linear(
              packed(card().to_device(to_tensor({x.begin(), x.begin() + inputs}, {1, inputs})), nullptr),
              weight))))
          << name;
    }
    const std::vector<int> ids = {0, 39, 7, 8, 17};
    const auto found = to_vector(embed(ids, weight));
    for (size_t i = 0; i < ids.size(); i++)
      for (int k = 0; k < inputs; k++)
        ASSERT_NEAR(found[i * inputs + static_cast<size_t>(k)], matrix.value(ids[i], k),
                    matrix.magnitude(ids[i], k) * (packing_error(matrix) + 4 * kUlp))
            << name << ", row " << ids[i] << ", input " << k;
  }
}

// What lines tell of the segments of a product [numbers of y], as kernels/lines.cuh has them.
struct Line {
  float first;
  unsigned epoch1;
  float second;
  unsigned epoch2;
};
constexpr unsigned kEpoch = 7;

// sums: of each segment. -> [ranks][lines of a rank][numbers]
std::vector<Line> lines_of(const std::vector<std::vector<float>>& sums, int ranks) {
  const size_t own = sums.size() / static_cast<size_t>(ranks), numbers = sums[0].size();
  std::vector<Line> out;
  for (size_t s = 0; s < sums.size(); s += std::min<size_t>(own, 2))
    for (size_t i = 0; i < numbers; i++)
      out.push_back({sums[s][i], kEpoch, own > 1 ? sums[s + 1][i] : 0.0f, kEpoch});
  return out;
}
// Rows whose inputs outside of [first, last) are 0, or, with `cut`, left out.
Tensor part_of(const Tensor& x, int first, int last, bool cut) {
  const int rows = x.shape(0), inputs = x.shape(1), width = cut ? last - first : inputs;
  Tensor out = host_device().zeros({rows, width}, Dtype::f32);
  for (int row = 0; row < rows; row++)
    std::copy_n(x.data<float>() + row * inputs + first, last - first,
                out.data<float>() + row * width + (cut ? 0 : first));
  return out;
}

// A product that ranks split by its inputs; of the other ranks the test has sent the lines.
void EmulatedProducts::expect_same_bits_split(const Matrix& matrix, int rows, Rng& rng, bool pack) {
  const int outputs = matrix.rows, inputs = matrix.cols;
  const Weight whole = Weight::make(card(), matrix.source()), *one = &whole;
  const Tensor x = random_tensor({rows, inputs}, rng),
               residual = card().to_device(random_tensor({rows, outputs}, rng));
  const MatmulInput all = packed(card().to_device(x), nullptr);
  const auto sum = to_vector(cuda::linear(all, {&one, 1}, nullptr)[0]),
             added = to_vector(cuda::linear_add(all, whole, residual));
  std::vector<std::vector<float>> sums;
  for (int s = 0; s < cuda::kSegments; s++) {
    const int width = inputs / cuda::kSegments;
    const Tensor of_segment = card().to_device(part_of(x, s * width, (s + 1) * width, false));
    sums.push_back(to_vector(cuda::linear(packed(of_segment, nullptr), {&one, 1}, nullptr)[0]));
    if (is_coded(matrix.kind))
      for (float& y : sums.back()) y = std::ldexp(y, -cuda::kSumExponent);
  }
  for (const int ranks : {2, 4, 8}) {
    const auto expected = lines_of(sums, ranks);
    const int own = inputs / ranks, each = static_cast<int>(expected.size()) / ranks;
    for (int rank = 0; rank < ranks; rank++) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, rank " << rank << " of " << ranks);
      const Weight columns =
          Weight::make(card(), select_columns(matrix.source(), rank * own, (rank + 1) * own));
      const Tensor part = card().to_device(part_of(x, rank * own, (rank + 1) * own, true));
      const MatmulInput mine = pack ? packed(part, nullptr) : MatmulInput(part);
      Tensor come = host_device().empty({each * ranks, 4}, Dtype::f32);
      std::memcpy(come.data<float>(), expected.data(), expected.size() * sizeof(Line));
      std::fill_n(come.data<float>() + 4 * each * rank, 4 * each, 0.0f);
      const unsigned well = 0;
      for (const bool add : {false, true}) {
        const Tensor here = card().to_device(come), there = card().zeros({each, 4}, Dtype::f32);
        cuda::SegmentArgs segments{{}, card().data<void>(here, "test"), &well, ranks, kEpoch};
        for (void*& to : segments.to) to = card().data<void>(there, "test");
        segments.to[rank] = card().data<float>(here, "test") + 4 * each * rank;
        const Tensor out = cuda::multiply_own_inputs(mine, columns, add ? &residual : nullptr, segments);
        EXPECT_TRUE(bits_agree(to_vector(out), add ? added : sum));
        const Tensor sent = to_host(there), kept = to_host(here);
        for (const float* lines : {sent.data<float>(), kept.data<float>() + 4 * each * rank})
          EXPECT_EQ(
              std::memcmp(lines, expected.data() + each * rank, static_cast<size_t>(each) * sizeof(Line)), 0);
      }
    }
  }
}

TEST_F(EmulatedProducts, SplitByTheirInputsHaveTheSameBits) {
  Rng rng(3);
  const int outputs = 100, inputs = 1024;
  const Matrix four = affine_matrix(outputs, inputs, 4, 64, ScaleType::bf16, false, 1);
  for (const int rows : {1, 3, 16}) expect_same_bits_split(four, rows, rng);
  expect_same_bits_split(affine_matrix(outputs, inputs, 8, 32, ScaleType::bf16, false, 2), 3, rng);
  expect_same_bits_split(dense_matrix(outputs, inputs, WeightKind::bf16, 3), 3, rng);
  expect_same_bits_split(coded_matrix(outputs, inputs, WeightKind::table, 32, ScaleType::bf16, 4), 3, rng);
  expect_same_bits_split(four, 2, rng, false);
  few_blocks(1);
  expect_same_bits_split(four, 3, rng);
}

// As on the CPU: an output whose codes hold a NaN is NaN, no other.
TEST_F(EmulatedProducts, OfE4m3CodesThatAreNaN) {
  Matrix m = coded_matrix(40, 192, WeightKind::fp8, 64, ScaleType::bf16, 6);
  m.codes[7 * 192 + 90] = 0xFF;
  m.codes[33 * 192 + 2] = 0x7F;
  const Weight weight = Weight::make(card(), m.source());
  Random random(7);
  for (const int rows : {1, 9}) {
    const Tensor x = card().to_device(to_tensor(random.vector(rows * 192), {rows, 192}));
    const std::vector<float> y = to_vector(linear(packed(x, nullptr), weight));
    for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i]), i % 40 == 7 || i % 40 == 33) << i;
  }
  const std::vector<int> ids = {7, 33, 6};
  const std::vector<float> values = to_vector(embed(ids, weight));
  EXPECT_TRUE(std::isnan(values[90]) && std::isnan(values[192 + 2]));
  for (size_t k = 0; k < 192; k++) EXPECT_FALSE(std::isnan(values[2 * 192 + k])) << k;
}

}  // namespace
}  // namespace anabranch::ops
