// Mixtures of experts on CUDA against the reference, skipped where there is no device.
#include <cmath>
#include <limits>

#include "ops/cuda/device.h"
#include "ops/expert_mixtures.h"
#include "ops/opened_card.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

using CudaExperts = OpenedCard;

std::vector<int32_t> experts_of(const Routing& routing) {
  const Tensor host = to_host(routing.experts);
  return {host.data<int32_t>(), host.data<int32_t>() + host.size()};
}

// Few experts, more than lanes hold in registers, and all of them; ties, and rows that cannot be routed.
TEST_F(CudaExperts, RoutesAsTheReferenceDoes) {
  Rng rng(1);
  for (const auto& [experts, top_k] :
       {std::pair{8, 2}, {60, 4}, {256, 8}, {513, 40}, {2000, 3}, {33, 33}, {1, 1}}) {
    Tensor logits = random_tensor({37, experts}, rng, 3.0f);
    float* of = logits.data<float>();
    for (int i = 0; i < experts; i++) {
      of[experts + i] = std::round(of[experts + i]);  // ties
      of[2 * experts + i] = 1.0f;
      of[3 * experts + i] = i % 2 ? 0.0f : -0.0f;
      of[4 * experts + i] -= 200.0f;
    }
    of[5 * experts + experts / 2] = std::numeric_limits<float>::quiet_NaN();
    of[6 * experts + experts / 3] = -std::numeric_limits<float>::infinity();
    const Tensor scale = random_tensor({experts}, rng);
    for (const auto scores : {RouterSpec::Scores::softmax, RouterSpec::Scores::sigmoid})
      for (const bool normalise : {true, false}) {
        const RouterSpec spec{top_k, scores, normalise, 1.5f};
        const auto on = [&](Device& device, bool scaled, int begin, int end) {
          const Tensor there = device.to_device(scale),
                       part = device.to_device(logits.slice_rows(begin, end));
          return route(part, spec, scaled ? &there : nullptr);
        };
        for (const bool scaled : {false, true}) {
          const Routing want = on(cpu_device(), scaled, 0, 37), got = on(card(), scaled, 0, 37);
          const auto what = fmt::format("{} of {}", top_k, experts);
          EXPECT_EQ(experts_of(got), experts_of(want)) << what;
          const auto weights = to_vector(to_host(got.weights)), wanted = to_vector(want.weights);
          for (size_t i = 0; i < weights.size(); i++)
            if (std::isnan(wanted[i]))
              EXPECT_TRUE(std::isnan(weights[i])) << what << " at " << i;
            else
              EXPECT_NEAR(weights[i], wanted[i], 2e-6 * std::abs(wanted[i]) + 1e-30) << what << " at " << i;
          const Routing alone = on(card(), scaled, 8, 9);
          expect_same_bits(to_host(alone.weights), to_host(got.weights).slice_rows(8, 9), what);
        }
      }
  }
}

// Every format; gate and up of one and of two; inputs and outputs that are no multiples of 64 or 16; more
// rows of an expert than a tile has.
TEST_F(CudaExperts, SameBitsAsOneExpertAfterTheOther) {
  Rng rng(2);
  const auto four = affine(4, 64), bf16 = dense(WeightKind::bf16);
  for (const Mixture& m : {Mixture{128, 64, 5, 2, four, four, affine(6, 32)},
                           {576, 192, 12, 3, four, four, four},
                           {160, 96, 7, 2, affine(3, 32, ScaleType::f16), affine(3, 32, ScaleType::f16),
                            affine(6, 16, ScaleType::f32)},
                           {100, 40, 6, 2, bf16, bf16, dense(WeightKind::f16)},
                           {128, 20, 3, 3, four, four, dense(WeightKind::f32)},
                           {192, 128, 9, 4, affine(4, 32), affine(8, 64), affine(5, 64)},
                           {128, 64, 5, 2, four, four, four, Activation::gelu_tanh}}) {
    const Loaded loaded(card(), m);
    const auto name = fmt::format("{} inputs, {} inside, {} experts", m.width, m.inner, m.count);
    const Tensor all = on_card(random_tensor({300, m.width}, rng)),
                 logits = on_card(random_tensor({300, m.count}, rng, 3.0f));
    const SharedExpert shared = loaded.shared(nullptr);
    for (const int rows : {1, 2, 7, 16, 17, 40, 300}) {
      const Tensor x = all.slice_rows(0, rows);
      const Routing routing = route(logits.slice_rows(0, rows), {.top_k = m.top_k});
      for (const SharedExpert* with : {static_cast<const SharedExpert*>(nullptr), &shared})
        EXPECT_TRUE(bits_agree(to_vector(loaded.mix(x, routing, with)), one_by_one(loaded, x, routing, with)))
            << name << ", " << rows << " rows, shared " << (with != nullptr);
    }
  }
}

TEST_F(CudaExperts, AMixtureIsItsParts) {
  const auto four = affine(4, 64), bf16 = dense(WeightKind::bf16);
  expect_mixture_of_parts(card(), {2048, 96, 64, 8, four, four, affine(4, 32)}, {1, 3, 8, 9, 40});
  expect_mixture_of_parts(card(), {576, 192, 12, 3, affine(8, 64), affine(8, 64), four}, {1, 5});
  expect_mixture_of_parts(
      card(), {640, 96, 6, 3, affine(5, 32), affine(5, 32), affine(4, 32), Activation::gelu_tanh}, {1, 2});
  expect_mixture_of_parts(card(), {128, 40, 40, 33, bf16, bf16, bf16}, {2});
}

// Of many experts few have rows, and rows of one chunk go through tiles of other sizes than those of another.
TEST_F(CudaExperts, ARowDoesNotDependOnTheOthers) {
  Rng rng(3);
  const auto four = affine(4, 64);
  const Mixture m{256, 64, 64, 4, four, four, four};
  const Loaded loaded(card(), m);
  const int rows = 3000;
  const Tensor x = on_card(random_tensor({rows, m.width}, rng)),
               logits = on_card(random_tensor({rows, m.count}, rng, 2.0f)),
               gates = on_card(random_tensor({rows, 1}, rng));
  const auto run = [&](int begin, int end) {
    const Tensor gate = gates.slice_rows(begin, end);
    const SharedExpert shared = loaded.shared(&gate);
    return to_host(loaded.mix(x.slice_rows(begin, end),
                              route(logits.slice_rows(begin, end), {.top_k = m.top_k}), &shared));
  };
  const Tensor whole = run(0, rows);
  for (const auto& [begin, end] :
       {std::pair{0, 1}, {7, 8}, {5, 9}, {60, 76}, {100, 133}, {10, 400}, {1000, 2500}, {2999, 3000}})
    expect_same_bits(run(begin, end), whole.slice_rows(begin, end), fmt::format("rows {} to {}", begin, end));
}

TEST_F(CudaExperts, CloseToTheReference) {
  Rng rng(4);
  const auto four = affine(4, 64);
  const Mixture m{256, 128, 8, 2, four, four, affine(8, 64)};
  const Tensor x = random_tensor({20, m.width}, rng), logits = random_tensor({20, m.count}, rng, 3.0f),
               gates = random_tensor({20, 1}, rng);
  const auto run = [&](Device& device) {
    const Loaded loaded(device, m);
    const Tensor gate = device.to_device(gates);
    const SharedExpert shared = loaded.shared(&gate);
    return to_vector(
        loaded.mix(device.to_device(x), route(device.to_device(logits), {.top_k = m.top_k}), &shared));
  };
  const auto got = run(card()), want = run(reference_device());
  float largest = 0;
  for (const float v : want) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], largest * 2e-2) << i;
}

}  // namespace
}  // namespace anabranch::ops
