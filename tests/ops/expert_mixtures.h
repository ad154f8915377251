// Mixtures of experts with random weights, and the same computed expert by expert.
#pragma once

#include <functional>
#include <numeric>

#include "ops/elementwise.h"
#include "ops/experts.h"
#include "ops/matrices.h"

namespace anabranch::ops {

// Matrices of all experts, and each expert's as a weight of its own.
struct Stacked {
  ExpertMatrices all;
  std::vector<Weight> alone;

  Stacked(Device& device, const Matrix& matrix, int experts)
      : all(ExpertMatrices::make(device, matrix.source(), experts)) {
    for (int e = 0; e < experts; e++)
      alone.push_back(Weight::make(device, part_of(matrix, e, matrix.rows / experts).source()));
  }
};

using MakeMatrix = std::function<Matrix(int rows, int cols, uint64_t seed)>;
inline MakeMatrix affine(int bits, int group, ScaleType type = ScaleType::bf16) {
  return [=](int rows, int cols, uint64_t seed) {
    return affine_matrix(rows, cols, bits, group, type, false, seed);
  };
}
inline MakeMatrix dense(WeightKind kind) {
  return [=](int rows, int cols, uint64_t seed) { return dense_matrix(rows, cols, kind, seed); };
}

struct Mixture {
  int width, inner, count, top_k;
  MakeMatrix gate, up, down;
  Activation activation = Activation::silu;
};

// A mixture on a device, with a shared expert.
struct Loaded {
  Stacked gate, up, down;
  Matrix shared_matrices[3];
  Weight shared_gate, shared_up, shared_down;
  RowNorm norm;
  Activation activation;

  Loaded(Device& device, const Mixture& m)
      : gate(device, m.gate(m.count * m.inner, m.width, 1), m.count),
        up(device, m.up(m.count * m.inner, m.width, 2), m.count),
        down(device, m.down(m.count * m.width, m.inner, 3), m.count),
        shared_matrices{m.gate(96, m.width, 4), m.gate(96, m.width, 5), affine(4, 32)(m.width, 96, 6)},
        shared_gate(Weight::make(device, shared_matrices[0].source())),
        shared_up(Weight::make(device, shared_matrices[1].source())),
        shared_down(Weight::make(device, shared_matrices[2].source())),
        activation(m.activation) {
    norm.weight = device.to_device(to_tensor(Random(7).vector(m.width), {m.width}));
  }
  Tensor mix(const Tensor& x, const Routing& routing, const SharedExpert* shared = nullptr) const {
    const Experts experts{&gate.all, &up.all, &down.all, activation};
    return mix_experts(x, &norm, routing, experts, shared);
  }
  SharedExpert shared(const Tensor* gate_logits) const {
    return {&shared_gate, &shared_up, &shared_down, gate_logits};
  }
};

// Each expert computed for all rows with linear_swiglu() and linear(), and added with fused multiply-adds.
inline std::vector<float> one_by_one(const Loaded& m, const Tensor& x, const Routing& routing,
                                     bool with_shared) {
  const Tensor experts = to_host(routing.experts), weights = to_host(routing.weights);
  const int rows = x.shape(0), width = x.shape(1), top_k = experts.shape(1);
  std::vector<float> y(static_cast<size_t>(rows * width));
  const auto add = [&](int row, const std::vector<float>& outputs, float scale) {
    for (auto i = static_cast<size_t>(row * width); i < static_cast<size_t>((row + 1) * width); i++)
      y[i] = std::fma(scale, outputs[i], y[i]);
  };
  for (size_t e = 0; e < m.gate.alone.size(); e++) {
    const auto outputs = to_vector(
        linear(linear_swiglu(x, m.gate.alone[e], m.up.alone[e], m.norm, m.activation), m.down.alone[e]));
    for (int i = 0; i < rows * top_k; i++)
      if (experts.data<int32_t>()[i] == static_cast<int>(e))
        add(i / top_k, outputs, weights.data<float>()[i]);
  }
  if (!with_shared) return y;
  const auto outputs =
      to_vector(linear(linear_swiglu(x, m.shared_gate, m.shared_up, m.norm, m.activation), m.shared_down));
  for (int r = 0; r < rows; r++) add(r, outputs, 1.0f);
  return y;
}

// mixture() has the same bits as its parts: for few rows and many, with and without the shared expert, its
// gate, a norm of the router's own, scales of the experts, and the addition of x.
inline void expect_mixture_of_parts(Device& device, const Mixture& m, std::initializer_list<int> all_rows) {
  const Loaded loaded(device, m);
  uint64_t counted = 0;
  const Weight router = Weight::make(device, affine(8, 64)(m.count, m.width, 8).source()),
               output_gate = Weight::make(device, affine(8, 64)(1, m.width, 9).source());
  Rng rng(10);
  const RowNorm own{device.to_device(random_tensor({m.width}, rng)), 1e-3f};
  const Tensor scale = device.to_device(random_tensor({m.count}, rng));
  for (const int rows : all_rows)
    for (const bool with_shared : {false, true})
      for (const bool more : {false, true}) {
        const Tensor x = device.to_device(random_tensor({rows, m.width}, rng));
        MixtureWeights w{
            &router, {.top_k = m.top_k}, {&loaded.gate.all, &loaded.up.all, &loaded.down.all, m.activation}};
        if (with_shared) w.gate = &loaded.shared_gate, w.up = &loaded.shared_up, w.down = &loaded.shared_down;
        if (more) w.router_norm = &own, w.expert_scale = &scale;
        if (more == with_shared) w.output_gate = &output_gate;
        const Weight* both[] = {&router, &output_gate};
        const auto logits = linear(x, both, more ? &own : &loaded.norm);
        const Routing routing = route(logits[0], w.routing, w.expert_scale);
        const SharedExpert shared = loaded.shared(w.output_gate ? &logits[1] : nullptr);
        const Tensor y = loaded.mix(x, routing, with_shared ? &shared : nullptr);
        counted += static_cast<uint64_t>(2 * rows * m.top_k);
        EXPECT_TRUE(bits_agree(to_vector(mixture(x, &loaded.norm, w, more)), to_vector(more ? add(x, y) : y)))
            << m.width << " x " << m.inner << ", " << rows << " rows, shared " << with_shared << ", more "
            << more;
      }
  const auto counts = device.expert_rows();
  for (const uint64_t n : counts.back()) EXPECT_EQ(n % 2, 0U) << "both count";
  EXPECT_EQ(std::accumulate(counts.back().begin(), counts.back().end(), uint64_t{0}), counted);
}

}  // namespace anabranch::ops
