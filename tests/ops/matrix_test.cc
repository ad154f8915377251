// Products on matrix units, with a unit in plain C++. Their bits are tested with those of all targets
// (linear_test.cc, coded_linear_test.cc, experts_test.cc, known_bits_test.cc).
#include <algorithm>

#include "ops/linear_products.h"
#include "ops/matrix_stand_in.h"

namespace anabranch::ops {
namespace {

struct Rounded {
  std::vector<int8_t> q;
  std::vector<float> scale, sum;
  std::vector<int32_t> int_sum;
};

// Rounds the rows in tiles of `tile` rows; memory that is not written stays 0x55.
Rounded round_rows(const cpu::CpuKernels& kernels, const std::vector<float>& x, int rows, int cols, int group,
                   int tile) {
  cpu::Activations a;
  a.rows = rows, a.cols = cols, a.group = group, a.x_group = std::max(group, 32), a.tile = tile;
  a.padded_cols = (cols + a.x_group - 1) / a.x_group * a.x_group;
  const int64_t all = (rows + tile - 1) / tile * tile;
  Rounded r;
  r.q.assign(static_cast<size_t>(all * a.padded_cols), 0x55);
  r.scale.assign(static_cast<size_t>(all * a.padded_cols / a.x_group), 0x55);
  r.sum.assign(static_cast<size_t>(all * a.padded_cols / group), 0x55);
  r.int_sum.assign(r.sum.size(), 0x55);
  a.q = r.q.data(), a.scale = r.scale.data(), a.sum = r.sum.data(), a.int_sum = r.int_sum.data();
  const int64_t half = rows / 2 / tile * tile;
  kernels.prepare_int8(x.data(), a, 0, half);
  kernels.prepare_int8(x.data(), a, half, rows);
  return r;
}

// Rows are rounded as everywhere; what comes after the last is zero.
TEST(Matrix, RowsAreRoundedAsElsewhere) {
  uint64_t seed = 1;
  for (const int group : {32, 64, 128})
    for (const int rows : {1, 15, 16, 17, 40})
      for (const int cols : {16, 64, 200, 640}) {
        const std::vector<float> x = inputs(rows, cols, seed++);
        const Rounded got = round_rows(test_kernels().at("matrix-plain"), x, rows, cols, group,
                                       cpu::kMatrixRows),
                      want = round_rows(*cpu::kernels_portable(), x, rows, cols, group, 1);
        const int x_group = std::max(group, 32), padded = (cols + x_group - 1) / x_group * x_group,
                  width = cpu::matrix_width(group), all = (rows + 15) / 16 * 16;
        for (int m = 0; m < all; m++) {
          SCOPED_TRACE(::testing::Message()
                       << "group " << group << ", row " << m << " of " << rows << " x " << cols);
          const auto at = [&](int i, int step) {  // item i of row m, in tiles of 16 rows
            return static_cast<size_t>(m / 16 * 16 * (padded / step) + i * 16 + m % 16);
          };
          const auto from = [&](int i, int step) { return static_cast<size_t>(m * (padded / step) + i); };
          for (int k = 0; k < padded; k++) {
            const int block = m / 16 * 16 * padded + k / width * width * 16;
            ASSERT_EQ(got.q[static_cast<size_t>(block + m % 16 * width + k % width)],
                      m < rows ? want.q[from(k, 1)] : 0);
          }
          for (int g = 0; g < padded / x_group; g++)
            ASSERT_EQ(got.scale[at(g, x_group)], m < rows ? want.scale[from(g, x_group)] : 0);
          for (int g = 0; g < padded / group; g++)
            ASSERT_EQ(got.sum[at(g, group)], m < rows ? want.sum[from(g, group)] : 0);
        }
      }
}

// How often a product of so many rows opens the matrix unit.
int64_t times_opened(Device& device, const std::vector<const Matrix*>& matrices, int rows) {
  std::vector<Weight> weights;
  std::vector<const Weight*> pointers;
  for (const Matrix* m : matrices) weights.push_back(Weight::make(device, m->source()));
  for (const Weight& w : weights) pointers.push_back(&w);
  const Tensor x = first_rows(device, inputs(kMaxRows, 256, 3), rows, 256);
  const int64_t before = cpu::times_matrix_opened();
  linear(x, pointers);
  return cpu::times_matrix_opened() - before;
}

// For many rows, if all weights of an op have int8 products of 32 inputs and more.
TEST(Matrix, IsUsedForManyRowsOfCodes) {
  const Matrix affine = affine_matrix(40, 256, 4, 64, ScaleType::f16, false, 1),
               table = coded_matrix(40, 256, WeightKind::table, 32, ScaleType::f16, 2),
               dense = dense_matrix(40, 256, WeightKind::bf16, 3),
               short_groups = block_matrix(40, 256, 6, 16, true, 4);
  Device& device = cpu_device(1, false, "matrix-plain");
  const int from = cpu::kernels_matrix_plain()->from;
  EXPECT_EQ(times_opened(device, {&affine}, from - 1), 0);
  EXPECT_GT(times_opened(device, {&affine}, from), 0);
  EXPECT_GT(times_opened(device, {&affine, &table}, kMaxRows), 0);
  EXPECT_EQ(times_opened(device, {&affine, &dense}, kMaxRows), 0);
  EXPECT_EQ(times_opened(device, {&short_groups}, kMaxRows), 0);
  EXPECT_EQ(times_opened(cpu_device(1, true, "matrix-plain"), {&affine}, kMaxRows), 0);
}

// Tasks of several blocks of rows and panels, with a last panel alone and slices of all lengths: the bits are
// those of other kernels.
TEST(Matrix, BlocksAndSlicesDoNotMatter) {
  const int rows = 100, cols = 11264, outputs = 48;
  const std::vector<float> x = inputs(rows, cols, 7);
  for (const bool long_groups : {false, true}) {
    const Matrix used = long_groups ? affine_matrix(outputs, cols, 3, 128, ScaleType::bf16, false, 10)
                                    : block_matrix(outputs, cols, 6, 32, false, 9);
    const std::vector<float> want = product(x, rows, Weight::make(cpu_device(1), used.source()));
    for (const int threads : {1, 3}) {
      const Weight w = Weight::make(cpu_device(threads, false, "matrix-plain"), used.source());
      ASSERT_TRUE(bits_agree(product(x, rows, w), want)) << long_groups << ", " << threads;
    }
  }
}

}  // namespace
}  // namespace anabranch::ops
