// Mixtures of experts: routing against its definition, and the mixed outputs against the same experts
// computed one after the other with linear() and linear_swiglu().
#include "ops/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/elementwise.h"
#include "ops/matrices.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

constexpr int kExperts = 5, kTopK = 2, kWidth = 64;

// Matrices of all experts, and each expert's as a weight of its own.
struct Stacked {
  Matrix all;
  ExpertMatrices stacked;
  std::vector<Matrix> parts;
  std::vector<Weight> alone;
};

std::unique_ptr<Stacked> make_stacked(Device& device, Matrix all, int rows) {
  auto out = std::make_unique<Stacked>();
  out->all = std::move(all);
  out->stacked = ExpertMatrices::make(device, out->all.source(), kExperts);
  for (int e = 0; e < kExperts; e++) out->parts.push_back(part_of(out->all, e, rows));
  for (const Matrix& part : out->parts) out->alone.push_back(Weight::make(device, part.source()));
  return out;
}

Matrix matrix(int rows, int cols, int bits, uint64_t seed) {
  return affine_matrix(rows, cols, bits, 32, ScaleType::f16, false, seed);
}

// The experts' matrices: affine codes, or table codes and E4M3 numbers.
struct Kinds {
  int intermediate;  // of an expert; not a multiple of 16 makes padding
  bool affine;

  Matrix gate(uint64_t seed) const {
    const int rows = kExperts * intermediate;
    return affine ? matrix(rows, kWidth, 4, seed)
                  : coded_matrix(rows, kWidth, WeightKind::table, 32, ScaleType::f16, seed);
  }
  Matrix up(uint64_t seed) const {
    const int rows = kExperts * intermediate;
    return affine ? matrix(rows, kWidth, 4, seed)
                  : coded_matrix(rows, kWidth, WeightKind::table, 16, ScaleType::e4m3, seed, kFp4Table);
  }
  Matrix down(uint64_t seed) const {
    return affine ? matrix(kExperts * kWidth, intermediate, 6, seed)
                  : coded_matrix(kExperts * kWidth, intermediate, WeightKind::fp8, 32, ScaleType::e8m0, seed);
  }
};

struct Mixture {
  std::unique_ptr<Stacked> gate, up, down;
  Matrix shared_matrices[3];
  Weight shared_gate, shared_up, shared_down;
  RowNorm norm;

  Mixture(Device& device, const Kinds& kinds, uint64_t seed)
      : gate(make_stacked(device, kinds.gate(seed), kinds.intermediate)),
        up(make_stacked(device, kinds.up(seed + 1), kinds.intermediate)),
        down(make_stacked(device, kinds.down(seed + 2), kWidth)),
        shared_matrices{matrix(96, kWidth, 8, seed + 3), matrix(96, kWidth, 4, seed + 4),
                        matrix(kWidth, 96, 5, seed + 5)},
        shared_gate(Weight::make(device, shared_matrices[0].source())),
        shared_up(Weight::make(device, shared_matrices[1].source())),
        shared_down(Weight::make(device, shared_matrices[2].source())) {
    Random random(seed);
    norm.weight = device.to_device(to_tensor(random.vector(kWidth), {kWidth}));
  }
  Experts experts() const { return {&gate->stacked, &up->stacked, &down->stacked}; }
};

// The outputs of one row's experts in ascending order, then the shared one's, added with fused multiply-adds.
std::vector<float> one_by_one(const Mixture& m, const Tensor& row, const int32_t* chosen,
                              const float* weights, const float* shared_logit) {
  std::vector<float> y(kWidth);
  const auto add = [&](const MatmulInput& inner, const Weight& down, float scale) {
    const auto out = to_vector(linear(inner, down));
    for (size_t i = 0; i < y.size(); i++) y[i] = std::fma(scale, out[i], y[i]);
  };
  for (int i = 0; i < kTopK; i++) {
    const auto e = static_cast<size_t>(chosen[i]);
    add(linear_swiglu(row, m.gate->alone[e], m.up->alone[e], m.norm), m.down->alone[e], weights[i]);
  }
  if (shared_logit)
    add(linear_swiglu(row, m.shared_gate, m.shared_up, m.norm), m.shared_down,
        static_cast<float>(1 / (1 + std::exp(-double{*shared_logit}))));
  return y;
}

class MixExperts : public ::testing::TestWithParam<Kinds> {};

TEST_P(MixExperts, SameBitsAsOneExpertAfterTheOther) {
  for (const bool precise : {false, true}) {
    for (const int threads : {1, 2}) {
      Device& device = cpu_device(threads, precise);
      const Mixture m(device, GetParam(), 7);
      Random random(3);
      for (const int rows : {1, 2, 7, 64}) {
        const Tensor x = device.to_device(to_tensor(random.vector(rows * kWidth), {rows, kWidth}));
        const Tensor logits =
            device.to_device(to_tensor(random.vector(rows * kExperts, 3), {rows, kExperts}));
        const Tensor gate_logits = device.to_device(to_tensor(random.vector(rows, 2), {rows, 1}));
        const Routing routing = route(logits, {.top_k = kTopK});
        const SharedExpert shared{&m.shared_gate, &m.shared_up, &m.shared_down, &gate_logits};
        const auto mixed = to_vector(mix_experts(x, m.norm, routing, m.experts(), &shared));
        const auto routed = to_vector(mix_experts(x, m.norm, routing, m.experts()));
        for (int r = 0; r < rows; r++) {
          const Tensor row = x.slice_rows(r, r + 1);
          const int32_t* chosen = routing.experts.data<int32_t>() + r * kTopK;
          const float* weights = routing.weights.data<float>() + r * kTopK;
          const float* logit = gate_logits.data<float>() + r;
          ASSERT_TRUE(bits_agree(mixed.data() + r * kWidth, one_by_one(m, row, chosen, weights, logit).data(),
                                 kWidth))
              << "row " << r << " of " << rows << ", precise " << precise;
          ASSERT_TRUE(bits_agree(routed.data() + r * kWidth,
                                 one_by_one(m, row, chosen, weights, nullptr).data(), kWidth));
        }
      }
    }
  }
}

TEST_P(MixExperts, CountsTheRowsOfEachExpert) {
  const auto device = cpu::open_cpu(1, false);
  EXPECT_TRUE(device->expert_rows().empty());
  const Mixture first(*device, GetParam(), 7), second(*device, GetParam(), 8);
  Random random(3);
  std::vector<std::vector<uint64_t>> wanted(2, std::vector<uint64_t>(kExperts));
  for (const auto& [mixture, rows] : {std::pair{0, 1}, {1, 5}, {0, 9}}) {
    const Tensor x = to_tensor(random.vector(rows * kWidth), {rows, kWidth}),
                 logits = to_tensor(random.vector(rows * kExperts, 3), {rows, kExperts});
    const Routing routing = route(device->to_device(logits), {.top_k = kTopK});
    const Mixture& m = mixture == 0 ? first : second;
    mix_experts(device->to_device(x), m.norm, routing, m.experts());
    for (int i = 0; i < rows * kTopK; i++)
      wanted[static_cast<size_t>(mixture)][static_cast<size_t>(routing.experts.data<int32_t>()[i])]++;
  }
  EXPECT_EQ(device->expert_rows(), wanted);
}

// Every target, with fp32 activations; the tolerance is that of three products in a row with values of
// about 100.
TEST_P(MixExperts, EveryTargetIsCloseToTheReference) {
  constexpr int kRows = 9;
  Random random(5);
  const auto x = random.vector(kRows * kWidth), logits = random.vector(kRows * kExperts, 3);
  const auto run = [&](Device& device) {
    const Mixture m(device, GetParam(), 11);
    const Routing routing = route(device.to_device(to_tensor(logits, {kRows, kExperts})), {.top_k = kTopK});
    const SharedExpert shared{&m.shared_gate, &m.shared_up, &m.shared_down};
    return to_vector(
        mix_experts(device.to_device(to_tensor(x, {kRows, kWidth})), m.norm, routing, m.experts(), &shared));
  };
  const auto want = run(reference_device());
  float largest = 0;
  for (const float v : want) largest = std::max(largest, std::fabs(v));
  std::vector<float> first;
  for (const std::string& target : cpu::runnable_targets()) {
    const auto got = run(cpu_device(0, true, target));
    if (first.empty()) first = got;
    EXPECT_TRUE(bits_agree(got, first)) << target;
    for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], largest * 1e-4) << target;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MixExperts,
                         ::testing::Values(Kinds{32, true}, Kinds{96, true}, Kinds{96, false}),
                         [](const auto& info) {
                           return (info.param.affine ? "Affine" : "TableAndFp8") +
                                  std::to_string(info.param.intermediate);
                         });

// Rows of the last matrix are not a multiple of 16, so experts begin at padded rows.
TEST(ExpertMatrices, PadsRows) {
  Device& device = cpu_device();
  const Matrix all = matrix(kExperts * 20, kWidth, 4, 3);
  const auto stacked = ExpertMatrices::make(device, all.source(), kExperts);
  EXPECT_EQ(stacked.rows, 20);
  EXPECT_EQ(stacked.padded_rows(), 32);
  EXPECT_EQ(stacked.weight.out_features(), kExperts * 32);
  Random random(1);
  const Tensor x = to_tensor(random.vector(kWidth), {1, kWidth});
  const auto y = to_vector(linear(device.to_device(x), stacked.weight));
  const auto want = to_vector(linear(device.to_device(x), Weight::make(device, all.source())));
  for (int e = 0; e < kExperts; e++) {
    EXPECT_TRUE(bits_agree(y.data() + e * 32, want.data() + e * 20, 20)) << e;
    for (int i = 20; i < 32; i++) EXPECT_EQ(y[static_cast<size_t>(e * 32 + i)], 0.0f);
  }
}

struct Chosen {
  std::vector<int> experts;
  std::vector<float> weights;
};

Chosen choose(Device& device, const std::vector<float>& logits, const RouterSpec& spec,
              const std::vector<float>& scale = {}) {
  const int count = static_cast<int>(logits.size());
  const Tensor scales = scale.empty() ? Tensor() : device.to_device(to_tensor(scale, {count}));
  const Routing routing =
      route(device.to_device(to_tensor(logits, {1, count})), spec, scale.empty() ? nullptr : &scales);
  const Tensor experts = to_host(routing.experts);
  return {{experts.data<int32_t>(), experts.data<int32_t>() + experts.size()}, to_vector(routing.weights)};
}

TEST(Route, SoftmaxOfTheLargestInAscendingOrder) {
  const std::vector<float> logits = {1, 4, -2, 3, 0};
  double sum = 0;
  for (const float v : logits) sum += std::exp(v);
  const double four = std::exp(4) / sum, three = std::exp(3) / sum;
  for (Device* device : cpu_and_reference()) {
    const auto plain = choose(*device, logits, {.top_k = 2, .normalise = false});
    EXPECT_EQ(plain.experts, (std::vector<int>{1, 3}));
    EXPECT_FLOAT_EQ(plain.weights[0], static_cast<float>(four));
    EXPECT_FLOAT_EQ(plain.weights[1], static_cast<float>(three));
    const auto normalised = choose(*device, logits, {.top_k = 2, .scale = 2.5f});
    EXPECT_FLOAT_EQ(normalised.weights[0], static_cast<float>(2.5 * four / (four + three)));
    const auto scaled = choose(*device, logits, {.top_k = 2}, {9, 3, 9, 0.5f, 9});
    EXPECT_FLOAT_EQ(scaled.weights[0], static_cast<float>(3 * four / (four + three)));
    EXPECT_FLOAT_EQ(scaled.weights[1], static_cast<float>(0.5 * three / (four + three)));
  }
}

TEST(Route, Sigmoid) {
  const RouterSpec spec{.top_k = 2, .scores = RouterSpec::Scores::sigmoid, .normalise = false};
  const auto chosen = choose(cpu_device(), {-1, 0, 2}, spec);
  EXPECT_EQ(chosen.experts, (std::vector<int>{1, 2}));
  EXPECT_FLOAT_EQ(chosen.weights[0], 0.5f);
  EXPECT_FLOAT_EQ(chosen.weights[1], static_cast<float>(1 / (1 + std::exp(-2.0))));
}

TEST(Route, TiesGoToTheLowerIndexAndNanToTheFirst) {
  EXPECT_EQ(choose(cpu_device(), {5, 7, 7, 7, 5}, {.top_k = 2}).experts, (std::vector<int>{1, 2}));
  const auto broken = choose(cpu_device(), {1, NAN, 3, 4}, {.top_k = 2});
  EXPECT_EQ(broken.experts, (std::vector<int>{0, 1}));
  EXPECT_TRUE(std::isnan(broken.weights[0]) && std::isnan(broken.weights[1]));
}

TEST(Route, RefusesWhatDoesNotFit) {
  const Tensor logits = to_tensor({1, 2}, {1, 2});
  EXPECT_THROW(route(logits, {.top_k = 3}), std::invalid_argument);
  EXPECT_THROW(route(logits, {.top_k = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
