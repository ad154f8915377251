// Ops on rows on CUDA by kernels that the emulator runs on the CPU.
#include "ops/elementwise.h"

#include <cmath>

#include "cuda/emulated_card.h"
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

}  // namespace
}  // namespace anabranch::ops
