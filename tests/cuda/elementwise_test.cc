// Ops on rows on CUDA by kernels that the emulator runs on the CPU.
#include "ops/elementwise.h"

#include <cmath>

#include "cuda/emulated_card.h"
#include "ops/heads.h"
#include "ops/matrices.h"

namespace anabranch::ops {
namespace {

using EmulatedRows = EmulatedDevice;

TEST_F(EmulatedRows, LayerNorm) {
  Rng rng(1);
  for (const int k : {33, 256, 1152}) {
    const Tensor x = random_tensor({3, k}, rng), w = random_tensor({k}, rng), b = random_tensor({k}, rng);
    const Tensor there = card().to_device(x), weight = card().to_device(w), bias = card().to_device(b);
    const Tensor y = to_host(layer_norm(there, weight, bias, 1e-6f));
    for (int row = 0; row < 3; row++) {
      const float* from = x.data<float>() + row * k;
      double mean = 0, squares = 0;
      for (int i = 0; i < k; i++) mean += double{from[i]} / k;
      for (int i = 0; i < k; i++) squares += (from[i] - mean) * (from[i] - mean) / k;
      for (int i = 0; i < k; i++)
        ASSERT_NEAR(y.data<float>()[row * k + i],
                    (from[i] - mean) / std::sqrt(squares + 1e-6) * double{w.data<float>()[i]} +
                        double{b.data<float>()[i]},
                    2e-5)
            << k << " row " << row << " input " << i;
    }
    expect_same_bits(to_host(layer_norm(there.slice_rows(1, 2), weight, bias, 1e-6f)), y.slice_rows(1, 2),
                     "a row stands alone");
  }
}

TEST_F(EmulatedRows, Gelu) {
  Rng rng(2);
  const Tensor x = random_tensor({5, 100}, rng, 3), there = card().to_device(x);
  const Tensor by_tanh = to_host(gelu(there, Gelu::tanh)), by_erf = to_host(gelu(there, Gelu::erf));
  for (int i = 0; i < 500; i++) {
    const double v = x.data<float>()[i];
    // Roundings of numbers up to 1, times v.
    ASSERT_NEAR(by_tanh.data<float>()[i], v / 2 * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v))),
                1e-6 * (1 + std::abs(v)));
    ASSERT_NEAR(by_erf.data<float>()[i], v / 2 * std::erfc(-v * std::sqrt(0.5)), 1e-6 * (1 + std::abs(v)));
  }
}

// Activations and what is done with heads, as the CPU has them.
TEST_F(EmulatedRows, AsOnTheCpu) {
  Rng rng(3);
  const Tensor x = random_tensor({5, 96}, rng, 3), up = random_tensor({5, 96}, rng, 3),
               of_heads = random_tensor({5, 4}, rng, 9);
  const auto heads = [](const Tensor& all) { return all.reshape({5, 4, all.shape(1) / 4}); };
  const auto everything = [&](Device& device) {
    const Tensor a = device.to_device(x), b = device.to_device(up), gates = device.to_device(of_heads);
    return std::vector<Tensor>{relu2(a),
                               xielu(a, {0.7f, 0.9f, 0.4f, -1e-6f}),
                               clamped_glu(a, b, {1.3f, 2}),
                               clamped_glu(a, b, {1.3f, 0.6f, true}),
                               join_heads(heads(a), heads(b).slice_rows(0, 5)),
                               cut_heads(heads(a), 7),
                               gate_heads(a, gates, GateCurve::sigmoid),
                               gate_heads(a, gates, GateCurve::softplus),
                               gate_heads(a, b, GateCurve::softplus)};
  };
  const auto got = everything(card()), wanted = everything(cpu_device());
  for (size_t i = 0; i < got.size(); i++) expect_close(got[i], wanted[i], 2e-5, fmt::format("op {}", i));
}

// A limit does not hide that a layer has overflowed.
TEST_F(EmulatedRows, ClampsPassOnWhatIsNoNumber) {
  const float none = std::nanf("");
  for (const bool swish : {false, true}) {
    const auto clamp = [&](float gate, float up) {
      const Tensor y = clamped_glu(card().to_device(to_tensor({gate}, {1, 1})),
                                   card().to_device(to_tensor({up}, {1, 1})), {1.3f, 2, swish});
      return to_vector(to_host(y))[0];
    };
    EXPECT_TRUE(std::isnan(clamp(none, 1)));
    EXPECT_TRUE(std::isnan(clamp(1, none)));
    EXPECT_FALSE(std::isnan(clamp(9, -9)));
  }
}

}  // namespace
}  // namespace anabranch::ops
