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
        const auto mixed = to_vector(mix_experts(x, &m.norm, routing, m.experts(), &shared));
        const auto routed = to_vector(mix_experts(x, &m.norm, routing, m.experts()));
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

// relu(up x)^2 in place of a gated unit, of x as it is.
TEST_P(MixExperts, WithoutAGateAndWithoutANorm) {
  for (const int threads : {1, 2}) {
    Device& device = cpu_device(threads);
    const Mixture m(device, GetParam(), 7);
    Random random(4);
    for (const int rows : {1, 2, 7, 64}) {
      const Tensor x = device.to_device(to_tensor(random.vector(rows * kWidth), {rows, kWidth})),
                   logits = device.to_device(to_tensor(random.vector(rows * kExperts, 3), {rows, kExperts}));
      const Routing routing = route(logits, {.top_k = kTopK});
      const auto mixed =
          to_vector(mix_experts(x, nullptr, routing, {nullptr, &m.up->stacked, &m.down->stacked}));
      for (int r = 0; r < rows; r++) {
        std::vector<float> y(kWidth);
        for (int i = r * kTopK; i < (r + 1) * kTopK; i++) {
          const auto e = static_cast<size_t>(routing.experts.data<int32_t>()[i]);
          const auto out =
              to_vector(linear(relu2(linear(x.slice_rows(r, r + 1), m.up->alone[e])), m.down->alone[e]));
          for (size_t h = 0; h < y.size(); h++)
            y[h] = std::fma(routing.weights.data<float>()[i], out[h], y[h]);
        }
        ASSERT_TRUE(bits_agree(mixed.data() + r * kWidth, y.data(), kWidth)) << "row " << r << " of " << rows;
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
    mix_experts(device->to_device(x), &m.norm, routing, m.experts());
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
        mix_experts(device.to_device(to_tensor(x, {kRows, kWidth})), &m.norm, routing, m.experts(), &shared));
  };
  const auto want = run(reference_device());
  float largest = 0;
  for (const float v : want) largest = std::max(largest, std::fabs(v));
  std::vector<float> first;
  for (const std::string& target : all_targets()) {
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
              const std::vector<float>& scale = {}, const std::vector<float>& bias = {}) {
  const int count = static_cast<int>(logits.size());
  const Tensor scales = scale.empty() ? Tensor() : device.to_device(to_tensor(scale, {count})),
               biases = bias.empty() ? Tensor() : device.to_device(to_tensor(bias, {count}));
  const Routing routing = route(device.to_device(to_tensor(logits, {1, count})), spec,
                                scale.empty() ? nullptr : &scales, bias.empty() ? nullptr : &biases);
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

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

// The bias decides which experts are chosen, and in which groups they are, but not their weights.
TEST(Route, ABiasChoosesAndDoesNotWeigh) {
  const RouterSpec spec{.top_k = 2, .scores = RouterSpec::Scores::sigmoid, .scale = 3, .added_sum = 0.5f};
  for (Device* device : cpu_and_reference()) {
    const auto chosen = choose(*device, {2, 1, 0, -1}, spec, {}, {-1, 0, 0, 0.6f});
    EXPECT_EQ(chosen.experts, (std::vector<int>{1, 3}));
    const double one = sigmoid_of(1), three = sigmoid_of(-1), sum = one + three + 0.5;
    EXPECT_FLOAT_EQ(chosen.weights[0], static_cast<float>(3 * one / sum));
    EXPECT_FLOAT_EQ(chosen.weights[1], static_cast<float>(3 * three / sum));
  }
  // Of a softmax: Ernie's, whose divisor has a least value.
  double all = 0;
  for (const float x : {2, 1, 0, -1}) all += std::exp(x);
  const double two = std::exp(0) / all, three = std::exp(-1) / all;
  for (const float least : {1e-12f, 0.9f}) {
    const auto chosen =
        choose(cpu_device(), {2, 1, 0, -1}, {.top_k = 2, .least_sum = least}, {}, {-1, -1, 0, 0});
    EXPECT_EQ(chosen.experts, (std::vector<int>{2, 3}));
    EXPECT_FLOAT_EQ(chosen.weights[0], static_cast<float>(two / std::max<double>(two + three, least)));
  }
}

// Groups of three: the first has the best expert, the second the best two, the third the best sum of all.
TEST(Route, OnlyTheBestGroupsCount) {
  const std::vector<float> logits = {4, -9, -9, 1, 1.5f, -9, 0.5f, 0.6f, 0.7f};
  RouterSpec spec{.top_k = 2, .scores = RouterSpec::Scores::sigmoid, .normalise = false, .groups = 3};
  const auto experts = [&](int top_groups, const std::vector<float>& bias = {}) {
    spec.top_groups = top_groups;
    return choose(cpu_device(), logits, spec, {}, bias).experts;
  };
  EXPECT_EQ(experts(1), (std::vector<int>{3, 4}));
  EXPECT_EQ(experts(2), (std::vector<int>{3, 4}));
  EXPECT_EQ(experts(3), (std::vector<int>{0, 4}));
  EXPECT_EQ(experts(1, {0, 0, 0, 0, 0, 0, 1, 0, 0}), (std::vector<int>{6, 8}));
  EXPECT_EQ(experts(1, {0, 0, 0, 0, 0, -1, 0, 0.2f, 0.2f}), (std::vector<int>{7, 8}));
  // DeepSeek V2's: the group with the best expert.
  spec.best_of_group = true;
  EXPECT_EQ(experts(1), (std::vector<int>{0, 1}));
  EXPECT_EQ(experts(2), (std::vector<int>{0, 4}));
  EXPECT_EQ(choose(cpu_device(), {1, 3, 2}, {.top_k = 2, .groups = 3, .top_groups = 2, .best_of_group = true})
                .experts,
            (std::vector<int>{1, 2}))
      << "groups of one expert";
  // Equal groups: the first. Biases below every score do not let an excluded expert in.
  EXPECT_EQ(choose(cpu_device(), {1, 1, 1, 1}, spec = {.top_k = 1, .groups = 2}).experts,
            (std::vector<int>{0}));
  spec = {.top_k = 2, .scores = RouterSpec::Scores::sigmoid, .groups = 2};
  EXPECT_EQ(choose(cpu_device(), {5, 5, 4, 4}, spec, {}, {-9, -9, -10, -10}).experts,
            (std::vector<int>{0, 1}));
}

TEST(Route, SoftCappedLogits) {
  const RouterSpec spec{
      .top_k = 2, .scores = RouterSpec::Scores::sigmoid, .normalise = false, .soft_cap = 1.5f};
  const std::vector<float> logits = {9, -2, 0.5f};
  const auto chosen = choose(cpu_device(), logits, spec, {}, {-0.7f, 0, 0});
  EXPECT_EQ(chosen.experts, (std::vector<int>{1, 2})) << "9 counts as 1.5";
  for (size_t i = 0; i < 2; i++) {
    const double capped = 1.5 * std::tanh(logits[static_cast<size_t>(chosen.experts[i])] / 1.5);
    EXPECT_NEAR(chosen.weights[i], 1 / (1 + std::exp(-capped)), 1e-6);
  }
}

// Weights from Transformers' sparsemixer().
TEST(Route, SparseMixer) {
  const RouterSpec spec{
      .top_k = 2, .scores = RouterSpec::Scores::sparse_mixer, .normalise = false, .tolerance = 0.01f};
  for (const auto& [logits, experts, weights] :
       {std::tuple<std::vector<float>, std::vector<int>, std::vector<float>>{
            {1, 1.02f, 0.99f, -3}, {0, 1}, {0.502499998f, 0.504999876f}},
        {{2, 1, 1.98f, 1.97f}, {0, 2}, {0.33890903f, 0.502499998f}},
        {{-1, -1.01f, -1.5f, -1.02f}, {0, 1}, {0.336672157f, 0.502499998f}},
        {{0, 0.5f, 3, 2.9f}, {2, 3}, {1, 1}}}) {
    const auto chosen = choose(cpu_device(), logits, spec);
    EXPECT_EQ(chosen.experts, experts);
    for (size_t i = 0; i < 2; i++) EXPECT_FLOAT_EQ(chosen.weights[i], weights[i]);
  }
}

TEST(Route, TiesGoToTheLowerIndexAndNanToTheFirst) {
  EXPECT_EQ(choose(cpu_device(), {5, 7, 7, 7, 5}, {.top_k = 2}).experts, (std::vector<int>{1, 2}));
  const auto broken = choose(cpu_device(), {1, NAN, 3, 4}, {.top_k = 2});
  EXPECT_EQ(broken.experts, (std::vector<int>{0, 1}));
  EXPECT_TRUE(std::isnan(broken.weights[0]) && std::isnan(broken.weights[1]));
  const auto endless = choose(cpu_device(), {1, 2, INFINITY, 4}, {.top_k = 2}, {}, {0, 0, 0, 0});
  EXPECT_EQ(endless.experts, (std::vector<int>{0, 1}));
  EXPECT_TRUE(std::isnan(endless.weights[0]) && std::isnan(endless.weights[1]));
}

TEST(Route, RefusesWhatDoesNotFit) {
  const Tensor logits = to_tensor({1, 2}, {1, 2});
  EXPECT_THROW(route(logits, {.top_k = 3}), std::invalid_argument);
  EXPECT_THROW(route(logits, {.top_k = 0}), std::invalid_argument);
  EXPECT_THROW(route(logits, {.top_k = 1, .scores = RouterSpec::Scores::sparse_mixer}),
               std::invalid_argument);
  EXPECT_THROW(route(logits, {.top_k = 1}, nullptr, &logits), std::invalid_argument);
  const Tensor twelve = to_tensor(std::vector<float>(12), {1, 12});
  for (const auto& [groups, top_groups, top_k] :
       {std::tuple{5, 1, 1}, {4, 5, 1}, {4, 1, 4}, {4, 0, 1}, {0, 0, 1}, {12, 2, 1}, {-1, -1, 1}})
    EXPECT_THROW(route(twelve, {.top_k = top_k, .groups = groups, .top_groups = top_groups}),
                 std::invalid_argument)
        << groups << ", " << top_groups << ", " << top_k;
}

}  // namespace
}  // namespace anabranch::ops
