// Products of each head with its own matrix, against linear() of each head's part of the rows.
#include "ops/heads.h"

#include <cmath>
#include <functional>

#include "ops/linear.h"
#include "ops/matrices.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

// The matrices of all heads, and each head's as a weight of its own.
struct HeadMatrices {
  std::vector<Matrix> parts;
  ExpertMatrices all;
  std::vector<Weight> alone;

  HeadMatrices(Device& device, const Matrix& matrix, int heads)
      : all(ExpertMatrices::of_heads(device, matrix.source(), heads)) {
    for (int h = 0; h < heads; h++) parts.push_back(part_of(matrix, h, matrix.rows / heads));
    for (const Matrix& part : parts) alone.push_back(Weight::make(device, part.source()));
  }
};

struct HeadsCase {
  int heads, out, in;
  std::function<Matrix(int rows, int cols)> make;
};

Matrix of_kind(int rows, int cols, WeightKind kind) {
  return dense_matrix(rows, cols, kind, 3);
}

// Matrices with and without padding rows, dense and coded.
std::vector<HeadsCase> heads_cases() {
  const auto dense = [](WeightKind kind) {
    return [kind](int rows, int cols) { return of_kind(rows, cols, kind); };
  };
  const auto affine = [](int rows, int cols) {
    return affine_matrix(rows, cols, 4, 32, ScaleType::bf16, false, 3);
  };
  return {{3, 20, 24, dense(WeightKind::f32)},
          {5, 16, 33, dense(WeightKind::bf16)},
          {1, 7, 64, dense(WeightKind::f16)},
          {4, 48, 64, affine}};
}

TEST(LinearHeads, SameBitsAsEachHeadAlone) {
  Rng rng(1);
  for (const HeadsCase& c : heads_cases())
    for (const auto& target : cpu::runnable_targets())
      for (const bool precise : {false, true}) {
        Device& cpu = cpu_device(2, precise, target);
        const Matrix matrix = c.make(c.heads * c.out, c.in);
        const HeadMatrices stacked(cpu, matrix, c.heads);
        for (const int rows : {1, 2, 9, 70}) {
          const Tensor x = random_tensor({rows, c.heads * c.in}, rng);
          const std::vector<float> y = to_vector(linear_heads(cpu.to_device(x), stacked.all));
          for (int h = 0; h < c.heads; h++) {
            const auto wanted = to_vector(
                linear(cpu.to_device(columns_of(x, h * c.in, c.in)), stacked.alone[static_cast<size_t>(h)]));
            for (int r = 0; r < rows; r++)
              for (int i = 0; i < c.out; i++)
                ASSERT_EQ(y[static_cast<size_t>((r * c.heads + h) * c.out + i)],
                          wanted[static_cast<size_t>(r * c.out + i)])
                    << target << ": head " << h << " of " << c.heads << ", row " << r << " of " << rows;
          }
        }
      }
}

TEST(LinearHeads, EqualsReference) {
  Rng rng(2);
  const Matrix matrix = of_kind(3 * 20, 24, WeightKind::f32);
  const Tensor x = random_tensor({9, 3 * 24}, rng);
  const auto op = [&](Device& device) {
    return linear_heads(device.to_device(x), HeadMatrices(device, matrix, 3).all);
  };
  expect_close(op(cpu_device(0, true)), op(reference_device()), 1e-4, "three heads");
  EXPECT_EQ(
      linear_heads(cpu_device().zeros({0, 3 * 24}, Dtype::f32), HeadMatrices(cpu_device(), matrix, 3).all)
          .shape(),
      (Shape{0, 3 * 20}));
}

TEST(JoinHeads, PutsTheSecondPartAfterTheFirst) {
  for (Device* device : cpu_and_reference()) {
    const Tensor a = device->to_device(to_tensor({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})),
                 b = device->to_device(to_tensor({10, 20, 30, 40}, {2, 2, 1}));
    const Tensor y = join_heads(a, b);
    EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
    EXPECT_EQ(to_vector(y), (std::vector<float>{1, 2, 10, 3, 4, 20, 5, 6, 30, 7, 8, 40}));
  }
}

TEST(CutHeads, KeepsTheFirstValues) {
  for (Device* device : cpu_and_reference()) {
    const Tensor x = device->to_device(to_tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 2, 3}));
    const Tensor y = cut_heads(x, 2);
    EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
    EXPECT_EQ(to_vector(y), (std::vector<float>{1, 2, 4, 5, 7, 8, 10, 11}));
  }
  const Tensor x = cpu_device().zeros({1, 2, 3}, Dtype::f32);
  EXPECT_THROW(cut_heads(x, 4), std::invalid_argument);
  EXPECT_THROW(cut_heads(x, 0), std::invalid_argument);
}

TEST(GateHeads, MultipliesEachHeadOrValueByItsOwn) {
  Rng rng(4);
  const std::vector<int> widths = {3, 3 * 20};
  const Tensor x = random_tensor({7, 3 * 20}, rng);
  for (const int width : widths)
    for (const GateCurve curve : {GateCurve::sigmoid, GateCurve::softplus}) {
      Tensor gate = random_tensor({7, width}, rng, 4);
      gate.data<float>()[0] = 200, gate.data<float>()[1] = -200;
      for (Device* device : cpu_and_reference()) {
        const Tensor on = device->to_device(x), gates = device->to_device(gate);
        const auto y = to_vector(gate_heads(on, gates, curve));
        for (size_t i = 0; i < y.size(); i++) {
          const double g = gate.data<float>()[i * static_cast<size_t>(width) / 60];
          const double factor = curve == GateCurve::sigmoid
                                    ? 1 / (1 + std::exp(-g))
                                    : std::max(g, 0.0) + std::log1p(std::exp(-std::fabs(g)));
          ASSERT_NEAR(y[i], x.data<float>()[i] * factor, 1e-6 * (1 + std::fabs(factor)))
              << width << ": " << i;
        }
        expect_same_bits(gate_heads(on.slice_rows(2, 3), gates.slice_rows(2, 3), curve),
                         device->to_device(to_tensor({y.begin() + 120, y.begin() + 180}, {1, 60})),
                         "a row stands alone");
      }
    }
  EXPECT_THROW(gate_heads(x, cpu_device().zeros({7, 7}, Dtype::f32), GateCurve::sigmoid),
               std::invalid_argument);
}

TEST(LinearHeads, RefusesWrongShapes) {
  Device& cpu = cpu_device();
  const HeadMatrices stacked(cpu, of_kind(3 * 20, 24, WeightKind::f32), 3);
  EXPECT_THROW(linear_heads(cpu.zeros({1, 2 * 24}, Dtype::f32), stacked.all), std::invalid_argument);
  EXPECT_THROW(join_heads(cpu.zeros({1, 2, 3}, Dtype::f32), cpu.zeros({1, 3, 3}, Dtype::f32)),
               std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
