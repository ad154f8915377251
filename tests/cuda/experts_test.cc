// The arithmetic of mixtures of experts on CUDA, by kernels that the emulator runs on the CPU.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "cuda/emulated_card.h"
#include "nn/decoder_layer.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/weight.h"
#include "ops/cuda_cases.h"
#include "ops/expert_mixtures.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

class EmulatedExperts : public EmulatedDevice {
 protected:
  Tensor there(const std::vector<float>& x, const Shape& shape) {
    return device_->to_device(to_tensor(x, shape));
  }
  Tensor there(const std::vector<int>& x, const Shape& shape) {
    Tensor host = host_device().empty(shape, Dtype::i32);
    std::copy(x.begin(), x.end(), host.data<int>());
    return device_->to_device(host);
  }
  static std::vector<int> ints(const Tensor& x) {
    const Tensor host = to_host(x);
    return {host.data<int>(), host.data<int>() + host.size()};
  }
};

// Rows of logits: random ones; ties; all equal; zeros of both signs; very small ones, of which every sigmoid
// is 0 in f32; a NaN; an infinity of each sign.
std::vector<float> logits_of(int experts, Random& random) {
  std::vector<float> x = random.vector(9 * experts, 6.0f);
  const auto row = [&](int r) { return x.data() + r * experts; };
  for (int i = 0; i < experts; i++) {
    row(1)[i] = std::round(row(1)[i] / 3);
    row(2)[i] = 1;
    row(3)[i] = i % 2 ? 0.0f : -0.0f;
    row(4)[i] -= 200;
  }
  row(5)[experts / 2] = std::numeric_limits<float>::quiet_NaN();
  row(6)[experts - 1] = -std::numeric_limits<float>::infinity();
  row(7)[0] = std::numeric_limits<float>::infinity();
  return x;
}

// Biases, groups and bounds of the divisor, as the CPU has them; also of one row alone.
TEST_F(EmulatedExperts, RouteByScoresAndGroups) {
  Random random(9);
  for (const auto& [experts, top_k, groups, top_groups] : {std::tuple{8, 2, 1, 1},
                                                           {8, 2, 2, 1},
                                                           {12, 3, 4, 2},
                                                           {64, 6, 32, 7},
                                                           {90, 8, 3, 1},
                                                           {256, 8, 8, 4},
                                                           {512, 10, 16, 3},
                                                           {600, 5, 20, 20}}) {
    const Tensor logits = to_tensor(logits_of(experts, random), {9, experts}),
                 bias = to_tensor(random.vector(experts, 0.7f), {experts});
    for (int option = 0; option < 64; option++) {
      RouterSpec spec{top_k, option & 1 ? RouterSpec::Scores::sigmoid : RouterSpec::Scores::softmax,
                      (option & 2) != 0, 2.5f};
      spec.groups = groups, spec.top_groups = top_groups;
      if (option & 4) spec.added_sum = 1e-6f, spec.least_sum = 0.3f;
      spec.best_of_group = option & 16;
      if (option & 32) spec.soft_cap = 2.5f;
      const auto on = [&](Device& device, int begin, int end) {
        const Tensor biases = device.to_device(bias);
        return route(device.to_device(logits).slice_rows(begin, end), spec, nullptr,
                     option & 8 ? &biases : nullptr);
      };
      const Routing got = on(card(), 0, 9), want = on(cpu_device(), 0, 9), alone = on(card(), 8, 9);
      const auto what =
          fmt::format("{} of {}, {} of {} groups, option {}", top_k, experts, top_groups, groups, option);
      EXPECT_EQ(ints(got.experts), ints(want.experts)) << what;
      const auto weights = to_vector(got.weights), wanted = to_vector(want.weights);
      for (size_t i = 0; i < weights.size(); i++)
        EXPECT_TRUE(std::isnan(wanted[i])
                        ? std::isnan(weights[i])
                        : std::fabs(weights[i] - wanted[i]) <= 2e-6 * std::fabs(wanted[i]) + 1e-30)
            << what << " at " << i << ": " << weights[i] << ", not " << wanted[i];
      expect_same_bits(alone.weights, got.weights.slice_rows(8, 9), what);
    }
  }
}

// Phi-3.5-MoE's choice of two experts; no infinite logits.
TEST_F(EmulatedExperts, RouteSparsely) {
  Random random(12);
  for (const int experts : {2, 16, 40}) {
    const Tensor logits = to_tensor(logits_of(experts, random), {9, experts}).slice_rows(0, 6);
    for (const bool normalise : {false, true}) {
      const RouterSpec spec{.top_k = 2,
                            .scores = RouterSpec::Scores::sparse_mixer,
                            .normalise = normalise,
                            .scale = 1.5f,
                            .tolerance = 0.1f};
      const Routing got = route(card().to_device(logits), spec),
                    want = route(cpu_device().to_device(logits), spec);
      EXPECT_EQ(ints(got.experts), ints(want.experts)) << experts;
      const auto weights = to_vector(got.weights), wanted = to_vector(want.weights);
      for (size_t i = 0; i < weights.size(); i++)
        EXPECT_TRUE(std::isnan(wanted[i]) ? std::isnan(weights[i])
                                          : std::fabs(weights[i] - wanted[i]) <= 2e-6 * std::fabs(wanted[i]))
            << experts << " at " << i << ": " << weights[i] << ", not " << wanted[i];
    }
  }
}

// Experts with biases, clamped units, or without a gate: close to the reference, and one row has the bits
// that it has among others.
TEST_F(EmulatedExperts, ExpertsOfOtherForms) {
  constexpr int kWidth = 64, kInner = 48, kCount = 5, kTopK = 2;
  const Matrix matrices[] = {affine_matrix(kCount * kInner, kWidth, 4, 32, ScaleType::bf16, false, 1),
                             affine_matrix(kCount * kInner, kWidth, 4, 32, ScaleType::bf16, false, 2),
                             affine_matrix(kCount * kWidth, kInner, 4, 16, ScaleType::bf16, false, 3)},
               router = affine_matrix(kCount, kWidth, 8, 64, ScaleType::bf16, false, 4);
  Rng rng(5);
  const Tensor x = random_tensor({40, kWidth}, rng), norm = random_tensor({kWidth}, rng),
               router_bias = random_tensor({kCount}, rng, 2);
  const Tensor biases[] = {random_tensor({kCount, kInner}, rng), random_tensor({kCount, kInner}, rng),
                           random_tensor({kCount, kWidth}, rng)};
  for (const int form : {0, 1, 2, 3}) {  // biases; clamped, too; clamped alone; no gate
    const auto run = [&](Device& device, int begin, int end) {
      std::vector<ExpertMatrices> all;
      for (size_t i = 0; i < 3; i++) {
        all.push_back(ExpertMatrices::make(device, matrices[i].source(), kCount));
        if (form <= 1) all.back().bias = device.to_device(biases[i]);
      }
      Experts experts{form == 3 ? nullptr : &all[0], &all[1], &all[2]};
      if (form == 1 || form == 2) experts.clamped = ClampedGlu{1.3f, 1.0f};
      const Weight gate = Weight::make(device, router.source());
      const Tensor bias = device.to_device(router_bias);
      const RowNorm by{device.to_device(norm), 1e-6f};
      MixtureWeights w{&gate, {.top_k = kTopK}, experts};
      if (form <= 1) w.router_bias = &bias;
      return to_host(mixture(device.to_device(x).slice_rows(begin, end), &by, w, true));
    };
    const Tensor got = run(card(), 0, 40), wanted = run(reference_device(), 0, 40);
    const auto a = to_vector(got), b = to_vector(wanted);
    double error = 0, size = 0;  // nearly equal experts may change places
    for (size_t i = 0; i < a.size(); i++) error += std::fabs(a[i] - b[i]), size += std::fabs(b[i]);
    EXPECT_LT(error, 0.02 * size) << form;
    for (const int row : {0, 17})
      expect_same_bits(run(card(), row, row + 1), got.slice_rows(row, row + 1), fmt::format("form {}", form));
  }
}

// Each head's part of the rows times the head's own matrix: the same bits as linear() of the part.
TEST_F(EmulatedExperts, LinearHeads) {
  Rng rng(6);
  for (const auto& [heads, out, in] : {std::tuple{3, 20, 64}, {5, 48, 24}, {1, 7, 100}}) {
    const Matrix matrix = dense_matrix(heads * out, in, WeightKind::bf16, 3);
    const auto all = ExpertMatrices::of_heads(card(), matrix.source(), heads);
    for (const int rows : {1, 8, 9, 40, 70}) {
      const Tensor x = random_tensor({rows, heads * in}, rng);
      const auto y = to_vector(to_host(linear_heads(card().to_device(x), all)));
      for (int h = 0; h < heads; h++) {
        const Weight own = Weight::make(card(), part_of(matrix, h, out).source());
        const auto wanted = to_vector(to_host(linear(card().to_device(columns_of(x, h * in, in)), own)));
        for (int r = 0; r < rows; r++)
          for (int i = 0; i < out; i++)
            ASSERT_EQ(y[static_cast<size_t>((r * heads + h) * out + i)],
                      wanted[static_cast<size_t>(r * out + i)])
                << "head " << h << " of " << heads << ", row " << r << " of " << rows << ", " << i;
      }
    }
  }
}

// The sum with the residual stream is a part of a mixture's last kernel.
TEST_F(EmulatedExperts, ALayerLaunchesNoSumOfItsOwn) {
  Random random(3);
  constexpr int kWidth = 64, kInner = 32, kCount = 4;
  std::deque<Matrix> matrices;  // which their sources read
  const auto matrix = [&](int rows, int cols) {
    return matrices.emplace_back(affine_matrix(rows, cols, 4, 32, ScaleType::bf16, false, 7)).source();
  };
  const auto experts = [&](int rows, int cols) {
    return ExpertMatrices::make(card(), matrix(kCount * rows, cols), kCount);
  };
  nn::DecoderLayer layer;
  layer.mixer = nn::Absent();
  layer.norm2 = nn::Norm{{there(random.vector(kWidth), {kWidth}), 1e-6f}};
  layer.mlp = nn::Moe{.routing = {.top_k = 2},
                      .router = Weight::make(card(), matrix(kCount, kWidth)),
                      .gate = experts(kInner, kWidth),
                      .up = experts(kInner, kWidth),
                      .down = experts(kWidth, kInner)};
  const Tensor x = there(random.vector(3 * kWidth), {3, kWidth});
  fake_cards[0].launches.clear();
  layer(x, Batch(), 0);
  EXPECT_FALSE(fake_cards[0].launches.empty());
  for (const FakeLaunch& launch : fake_cards[0].launches) EXPECT_NE(launch.kernel, "pairs");
}

TEST_F(EmulatedExperts, Route) {
  Random random(1);
  for (const auto& [experts, top_k] :
       {std::pair{8, 1}, {8, 2}, {8, 8}, {33, 7}, {64, 6}, {128, 8}, {256, 8}, {512, 8}, {600, 5}, {1, 1}}) {
    const Tensor logits = to_tensor(logits_of(experts, random), {9, experts}),
                 scale = to_tensor(random.vector(experts), {experts}), here = card().to_device(logits),
                 scale_here = card().to_device(scale);
    for (int option = 0; option < 8; option++) {
      const RouterSpec spec{top_k, option & 1 ? RouterSpec::Scores::sigmoid : RouterSpec::Scores::softmax,
                            (option & 2) != 0, 1.5f};
      const bool scaled = (option & 4) != 0;
      const Routing got = route(here, spec, scaled ? &scale_here : nullptr);
      const Tensor on_cpu = cpu_device().to_device(logits), scale_on_cpu = cpu_device().to_device(scale);
      const Routing want = route(on_cpu, spec, scaled ? &scale_on_cpu : nullptr);
      const auto what = fmt::format("{} of {}, option {}", top_k, experts, option);
      EXPECT_EQ(ints(got.experts), ints(want.experts)) << what;
      const auto weights = to_vector(got.weights), wanted = to_vector(want.weights);
      for (size_t i = 0; i < weights.size(); i++)
        EXPECT_TRUE(std::isnan(wanted[i])
                        ? std::isnan(weights[i])
                        : std::fabs(weights[i] - wanted[i]) <= 2e-6 * std::fabs(wanted[i]) + 1e-30)
            << what << " at " << i << ": " << weights[i] << ", not " << wanted[i];
      const Routing alone = route(here.slice_rows(8, 9), spec, scaled ? &scale_here : nullptr);
      expect_same_bits(alone.weights, got.weights.slice_rows(8, 9), what);
    }
  }
}

// The experts of each pair of row and choice: any, all the same one, or only the first and the last.
std::vector<int> choices(int rows, int top_k, int experts, int kind, Random& random) {
  std::vector<int> all(static_cast<size_t>(experts)), out;
  std::iota(all.begin(), all.end(), 0);
  for (int r = 0; r < rows; r++) {
    if (kind == 0)
      for (int i = experts - 1; i > 0; i--)
        std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(random.below(i + 1))]);
    if (kind == 1) std::rotate(all.begin(), all.end() - top_k, all.end());
    std::vector<int> row(all.begin(), all.begin() + top_k);
    std::sort(row.begin(), row.end());
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// The order is that of a stable sort; every position is in one tile, of its expert; nothing is written
// beyond.
TEST_F(EmulatedExperts, SortPairs) {
  Random random(2);
  constexpr int kGuard = -77;
  for (const int rows : {1, 2, 7, 64, 300})
    for (const auto& [top_k, experts] : {std::pair{1, 1}, {1, 8}, {2, 8}, {8, 8}, {8, 64}, {4, 512}})
      for (const int kind : {0, 1, 2})
        for (const int tile_rows : {8, 32}) {
          const auto what =
              fmt::format("{} rows, {} of {}, kind {}, tiles of {}", rows, top_k, experts, kind, tile_rows);
          const auto chosen = choices(rows, top_k, experts, kind, random);
          const int pairs = rows * top_k, spread = experts + pairs / tile_rows,
                    slots = std::min(pairs, spread);
          const Tensor from = there(chosen, {pairs}),
                       order = there(std::vector<int>(static_cast<size_t>(pairs) + 8, kGuard), {pairs + 8}),
                       tiles = there(std::vector<int>(static_cast<size_t>(slots) * 3 + 8, kGuard),
                                     {slots * 3 + 8});
          cuda::SortArgs args{};
          args.chosen = card().data<int>(from, "test");
          args.order = card().data<int>(order, "test");
          args.tiles = card().data<cuda::ExpertTile>(tiles, "test");
          args.pairs = pairs, args.experts = experts, args.tile_rows = tile_rows, args.slots = slots;
          args.compact = pairs <= spread;
          for (const unsigned threads :
               {32u, std::clamp((static_cast<unsigned>(pairs) + 31) / 32 * 32, 32u, 1024u)}) {
            card().launch(cuda::Source::routing, "sort_pairs", {static_cast<unsigned>(experts)}, threads, 0,
                          &args);
            std::vector<int> sorted(static_cast<size_t>(pairs));
            std::iota(sorted.begin(), sorted.end(), 0);
            std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
              return chosen[static_cast<size_t>(a)] < chosen[static_cast<size_t>(b)];
            });
            auto wanted = sorted;
            wanted.insert(wanted.end(), 8, kGuard);
            ASSERT_EQ(ints(order), wanted) << what;
            const auto got = ints(tiles);
            int position = 0;
            for (size_t i = 0; i < static_cast<size_t>(slots); i++) {
              const int expert = got[3 * i], first = got[3 * i + 1], count = got[3 * i + 2];
              ASSERT_GE(count, 0) << what << ", slot " << i;
              ASSERT_LE(count, tile_rows) << what << ", slot " << i;
              if (count == 0) continue;
              ASSERT_EQ(first, position) << what << ", slot " << i;
              for (int p = first; p < first + count; p++)
                ASSERT_EQ(chosen[static_cast<size_t>(sorted[static_cast<size_t>(p)])], expert)
                    << what << ", slot " << i;
              position += count;
            }
            ASSERT_EQ(position, pairs) << what;
            for (size_t i = static_cast<size_t>(slots) * 3; i < got.size(); i++)
              ASSERT_EQ(got[i], kGuard) << what;
          }
        }
}

TEST_F(EmulatedExperts, WeightedSum) {
  Random random(3);
  for (const int width : {1, 255, 256, 600})
    for (const int rows : {1, 5})
      for (const int top_k : {1, 8, 11})
        for (const int kind : {0, 1, 2}) {  // no shared expert; one; one with a gate
          const auto outputs = random.vector(rows * top_k * width), weights = random.vector(rows * top_k),
                     shared = random.vector(rows * width), gates = random.vector(rows, 4.0f);
          const Tensor on[] = {
              there(outputs, {rows * top_k, width}), there(weights, {rows, top_k}),
              there(shared, {rows, width}), there(gates, {rows, 1}),
              there(std::vector<float>(static_cast<size_t>(rows * width) + 8, -77.0f), {rows * width + 8})};
          const auto at = [&](int i) { return card().data(on[i], "test"); };
          const cuda::WeightedSumArgs args{
              at(0), at(1), kind > 0 ? at(2) : nullptr, kind > 1 ? at(3) : nullptr, at(4), top_k, width};
          card().launch(cuda::Source::routing, "weighted_sum",
                        {static_cast<unsigned>(rows * ((width + 255) / 256))}, 256, 0, &args);
          const auto got = to_vector(on[4]);
          for (int i = 0; i < rows * width; i++) {
            float y = 0;
            for (int n = 0; n < top_k; n++)
              y = std::fma(weights[static_cast<size_t>(i / width * top_k + n)],
                           outputs[static_cast<size_t>((i / width * top_k + n) * width + i % width)], y);
            const auto e = static_cast<size_t>(i);
            if (kind > 0)
              y = std::fma(kind > 1 ? 1 / (1 + std::exp(-gates[static_cast<size_t>(i / width)])) : 1.0f,
                           shared[e], y);
            ASSERT_NEAR(got[e], y, kind > 1 ? 1e-6 : 0)
                << width << " wide, " << rows << " rows, kind " << kind << ", " << i;
          }
          for (size_t i = static_cast<size_t>(rows * width); i < got.size(); i++) ASSERT_EQ(got[i], -77.0f);
        }
}

// Numbers computed in double, and the largest error of the device's.
struct Numbers {
  std::vector<double> x, error;
};

// They and weights are rounded to bf16 and multiplied with exact products, summed in f32.
Numbers product(const Numbers& in, const Matrix& m) {
  Numbers out;
  for (int n = 0; n < m.rows; n++) {
    double y = 0, error = 0;
    for (int k = 0; k < m.cols; k++) {
      const double x = in.x[static_cast<size_t>(k)], size = m.magnitude(n, k);
      y += x * multiplied_weight(m, n, k);
      error += size * (in.error[static_cast<size_t>(k)] +
                       (kBf16 + kBf16 * kBf16 + (m.cols + 8) * kUlp) * std::fabs(x));
    }
    out.x.push_back(y);
    out.error.push_back(error);
  }
  return out;
}
Numbers swiglu(const Numbers& gate, const Numbers& up, Activation activation) {
  Numbers out;
  for (size_t i = 0; i < gate.x.size(); i++) {
    const double x = gate.x[i], error = 1.13 * gate.error[i];
    const double act = activation == Activation::silu
                           ? x / (1 + std::exp(-x))
                           : 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    out.x.push_back(act * up.x[i]);
    out.error.push_back(error * (std::fabs(up.x[i]) + up.error[i]) + std::fabs(act) * up.error[i] +
                        1e-5 * std::fabs(act * up.x[i]));
  }
  return out;
}
Numbers normed(const float* x, const std::vector<float>& weight, float eps) {
  Numbers out;
  double squares = 0;
  for (size_t i = 0; i < weight.size(); i++) squares += double{x[i]} * x[i];
  for (size_t i = 0; i < weight.size(); i++) {
    out.x.push_back(x[i] * weight[i] / std::sqrt(squares / static_cast<double>(weight.size()) + eps));
    out.error.push_back(1e-5 * std::fabs(out.x.back()));
  }
  return out;
}

// The experts of `rows` rows: expert e gets counts[e] of them, in turn, and the last expert is everyone's
// second.
std::vector<int> spread_rows(const std::vector<int>& counts, int top_k) {
  std::vector<int> left = counts, out;
  for (size_t e = 0; std::ranges::any_of(left, [](int n) { return n > 0; }); e = (e + 1) % left.size()) {
    if (left[e]-- <= 0) continue;
    out.push_back(static_cast<int>(e));
    if (top_k == 2) out.push_back(static_cast<int>(counts.size()));
  }
  return out;
}

// Every format, alone and in pairs; sizes that are no multiples of 64 or 16; experts without rows, with one,
// and with more than a tile has.
TEST_F(EmulatedExperts, ErrorsAreThoseOfBf16) {
  struct Case {
    Mixture m;
    std::vector<std::vector<int>> counts;  // rows of each expert
  };
  const std::vector<int> one = {0, 1, 0, 0, 0}, few = {0, 1, 0, 8, 33}, many = {3, 0, 90, 8, 33};
  const auto four = affine(4, 64), bf16 = dense(WeightKind::bf16), f16 = dense(WeightKind::f16),
             f32 = dense(WeightKind::f32);
  const Case cases[] = {
      {{128, 64, 6, 2, four, four, four}, {one, {1, 1, 1, 0, 0}, few, many}},
      {{128, 64, 5, 1, affine(2, 128), affine(2, 128), affine(3, 32, ScaleType::f16)}, {one, few}},
      {{96, 32, 5, 1, affine(5, 16, ScaleType::f32), affine(5, 16, ScaleType::f32), affine(6, 32)},
       {one, few}},
      {{192, 64, 6, 2, affine(3, 64), affine(8, 64), affine(8, 64, ScaleType::f16)}, {one, many}},
      {{128, 64, 6, 2, four, four, four, Activation::gelu_tanh}, {one, few}},
      {{100, 40, 6, 2, bf16, bf16, bf16}, {one, few, many}},
      {{72, 20, 5, 1, f16, f16, f32}, {few}}};
  for (const Case& c : cases) {
    const Loaded loaded(card(), c.m);
    const Matrix gate = c.m.gate(c.m.count * c.m.inner, c.m.width, 1),
                 up = c.m.up(c.m.count * c.m.inner, c.m.width, 2),
                 down = c.m.down(c.m.count * c.m.width, c.m.inner, 3);
    const auto norm = to_vector(loaded.norm.weight);
    Random random(4);
    for (const auto& counts : c.counts) {
      const auto chosen = spread_rows(counts, c.m.top_k);
      const int rows = static_cast<int>(chosen.size()) / c.m.top_k;
      const auto x = random.vector(rows * c.m.width), weights = random.vector(rows * c.m.top_k);
      const Shape shape = {rows, c.m.top_k};
      const auto got =
          to_vector(loaded.mix(there(x, {rows, c.m.width}), {there(chosen, shape), there(weights, shape)}));
      for (int r = 0; r < rows; r++) {
        const Numbers in = normed(x.data() + r * c.m.width, norm, loaded.norm.eps);
        std::vector<double> y(norm.size()), error(norm.size());
        for (int i = r * c.m.top_k; i < (r + 1) * c.m.top_k; i++) {
          const int e = chosen[static_cast<size_t>(i)];
          const Numbers inner = swiglu(product(in, part_of(gate, e, c.m.inner)),
                                       product(in, part_of(up, e, c.m.inner)), c.m.activation);
          const Numbers out = product(inner, part_of(down, e, c.m.width));
          for (size_t h = 0; h < y.size(); h++) {
            const double weight = weights[static_cast<size_t>(i)];
            y[h] += weight * out.x[h];
            error[h] += std::fabs(weight) * (out.error[h] + 1e-6 * std::fabs(out.x[h]));
          }
        }
        const auto* row = got.data() + r * c.m.width;
        ASSERT_TRUE(within({row, row + c.m.width}, y, error))
            << c.m.width << " x " << c.m.inner << ", row " << r << " of " << rows << ", expert "
            << chosen[static_cast<size_t>(r * c.m.top_k)];
      }
    }
  }
}

// One row, and several; a mixture that runs again.
TEST_F(EmulatedExperts, CountsTheirRows) {
  const auto four = affine(4, 64);
  const Mixture m{64, 64, 6, 2, four, four, four}, other{64, 64, 3, 1, four, four, four};
  const Loaded first(card(), m), second(card(), other);
  EXPECT_TRUE(card().expert_rows().empty());
  const auto run = [&](const Loaded& loaded, const std::vector<int>& chosen, int top_k) {
    const int rows = static_cast<int>(chosen.size()) / top_k;
    const std::vector<float> weights(chosen.size(), 0.5f);
    loaded.mix(there(Random(7).vector(rows * 64), {rows, 64}),
               {there(chosen, {rows, top_k}), there(weights, {rows, top_k})});
  };
  run(first, {1, 4}, 2);
  run(second, {2, 2, 0}, 1);
  run(first, {1, 5, 0, 1, 1, 4}, 2);
  run(first, {0, 5}, 2);
  using Counts = std::vector<std::vector<uint64_t>>;
  EXPECT_EQ(card().expert_rows(), (Counts{{2, 4, 0, 0, 2, 2}, {1, 0, 2}}));
}

// The same bits as one expert after the other: with gemv.cu, which has been run on a card.
TEST_F(EmulatedExperts, SameBitsAsOneExpertAfterTheOther) {
  const auto four = affine(4, 64), bf16 = dense(WeightKind::bf16);
  Rng rng(5);
  for (const Mixture& m :
       {Mixture{128, 64, 5, 2, four, four, affine(6, 32)}, {100, 40, 3, 2, bf16, bf16, bf16}}) {
    const Loaded loaded(card(), m);
    const Tensor all = card().to_device(random_tensor({40, m.width}, rng)),
                 logits = card().to_device(random_tensor({40, m.count}, rng, 3.0f)),
                 gates = card().to_device(random_tensor({40, 1}, rng));
    for (const int rows : {1, 5, 40}) {
      const Tensor x = all.slice_rows(0, rows);
      const Routing routing = route(logits.slice_rows(0, rows), {.top_k = m.top_k});
      const SharedExpert shared = loaded.shared(nullptr);
      for (const SharedExpert* with : {static_cast<const SharedExpert*>(nullptr), &shared})
        EXPECT_TRUE(bits_agree(to_vector(loaded.mix(x, routing, with)), one_by_one(loaded, x, routing, with)))
            << m.width << " inputs, " << rows << " rows, shared " << (with != nullptr);
    }
  }
}

// Shared experts that are as large as the others and of their formats, and others; matrices of few inputs;
// more experts of a row than the kernels for few rows take.
TEST_F(EmulatedExperts, AMixtureIsItsParts) {
  const auto four = affine(4, 64), bf16 = dense(WeightKind::bf16);
  expect_mixture_of_parts(card(), {128, 96, 5, 2, four, four, affine(4, 32)}, {1, 3, 8, 9, 20});
  expect_mixture_of_parts(
      card(), {640, 96, 6, 3, affine(5, 32), affine(5, 32), affine(4, 32), Activation::gelu_tanh}, {1, 2});
  expect_mixture_of_parts(card(), {128, 40, 40, 33, bf16, bf16, bf16}, {2});
}

// No experts on the device, half of them and all: the same bits, also while busy ones take the place of idle
// ones.
TEST_F(EmulatedExperts, SplitExpertsGiveTheSameBits) {
  const auto four = affine(4, 64);
  const Mixture m{64, 64, 8, 2, four, four, four};
  std::vector<std::vector<float>> answers;
  for (const uint64_t bytes : {0, 1, 575}) {  // of 1000 in the files, 1150 packed
    const auto device = cuda::open_cuda(0, 1, bytes).value();
    device->plan_experts(1000, 0);
    const Loaded loaded(*device, m);
    const Weight router = Weight::make(*device, affine(8, 64)(m.count, m.width, 8).source());
    Rng rng(8);
    const Tensor x = device->to_device(random_tensor({40, m.width}, rng));
    const MixtureWeights w{&router, {.top_k = m.top_k}, {&loaded.gate.all, &loaded.up.all, &loaded.down.all}};
    const auto run = [&](int rows) {
      return to_vector(mixture(x.slice_rows(0, rows), &loaded.norm, w, false));
    };
    answers.push_back(run(40));  // of which missing experts come to the device first
    for (int i = 0; i < 300; i++) answers.back() = i % 64 == 0 ? run(40) : (run(1), answers.back());
    const auto last = run(40), few = run(20), one = run(1);
    EXPECT_TRUE(bits_agree(last, answers.front())) << bytes;
    EXPECT_TRUE(bits_agree({few.begin(), few.end()}, {last.begin(), last.begin() + 20 * m.width})) << bytes;
    EXPECT_TRUE(bits_agree({one.begin(), one.end()}, {last.begin(), last.begin() + m.width})) << bytes;
    const auto& split = cuda::stored(loaded.up.all.weight).split;
    ASSERT_EQ(split != nullptr, bytes > 0);
    if (!split) continue;
    EXPECT_EQ(split->resident(), bytes == 1 ? 0 : 4);
    const auto rows = device->expert_rows().front();
    const auto busiest = std::max_element(rows.begin(), rows.end()) - rows.begin();
    EXPECT_EQ(split->on_device(static_cast<int>(busiest)), bytes > 1);
  }
}

TEST(SplitExperts, BusyOnesComeForIdleOnes) {
  fake_cards[0] = {};
  const auto device = cuda::open_cuda(0, 1).value();
  auto& context = static_cast<cuda::CudaDevice&>(*device).context();
  const std::vector<uint8_t> bytes(4 * 64);
  cuda::SplitExperts experts(context, bytes, 4, 2);  // 0 and 1 are there
  const auto swaps = [&](const std::vector<uint64_t>& rows, int most) {
    std::vector<std::pair<int, int>> out;
    for (const auto& [leaving, arriving] : cuda::choose_swaps(experts, rows, most))
      out.push_back({leaving, arriving});
    return out;
  };
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(swaps({0, 0, 0, 0}, 8), Pairs());
  EXPECT_EQ(swaps({5, 1, 9, 2}, 8), (Pairs{{1, 2}}));
  EXPECT_EQ(swaps({1, 0, 7, 9}, 8), (Pairs{{1, 3}, {0, 2}}));
  EXPECT_EQ(swaps({1, 0, 7, 9}, 1), (Pairs{{1, 3}}));
  experts.replace(1, 3);
  EXPECT_FALSE(experts.on_device(1));
  EXPECT_TRUE(experts.on_device(3));
  EXPECT_EQ(swaps({5, 9, 1, 9}, 8), Pairs());
}

// Tiles of 8, 16 and 32 rows, one row by itself, slots side by side and apart.
TEST_F(EmulatedExperts, ARowDoesNotDependOnTheOthers) {
  Rng rng(6);
  const auto four = affine(4, 64);
  const Mixture m{128, 64, 16, 2, four, four, four};
  const Loaded loaded(card(), m);
  const int rows = 200;
  const Tensor x = card().to_device(random_tensor({rows, m.width}, rng)),
               logits = card().to_device(random_tensor({rows, m.count}, rng, 2.0f)),
               gates = card().to_device(random_tensor({rows, 1}, rng));
  const auto run = [&](int begin, int end, bool with_shared) {
    const Tensor gate = gates.slice_rows(begin, end);
    const SharedExpert shared = loaded.shared(&gate);
    return to_host(loaded.mix(x.slice_rows(begin, end),
                              route(logits.slice_rows(begin, end), {.top_k = m.top_k}),
                              with_shared ? &shared : nullptr));
  };
  for (const bool with_shared : {false, true}) {
    const Tensor whole = run(0, with_shared ? 33 : rows, with_shared);
    for (const auto& [begin, end] : {std::pair{0, 1}, {7, 8}, {5, 9}, {3, 33}, {10, 110}, {60, 76}})
      if (end <= whole.shape(0))
        expect_same_bits(run(begin, end, with_shared), whole.slice_rows(begin, end),
                         fmt::format("rows {} to {}", begin, end));
  }
}

}  // namespace
}  // namespace anabranch::ops
