#include "ops/elementwise.h"

#include "ops/rope.h"

#include <mlx/ops.h>

#include <algorithm>

#include "ops/cpu/kernels.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

// Runs op(on) for every target with 1 and 3 threads; on(x) puts a tensor on the device. The results have the
// same bits, and are near the reference's.
template <class Op>
void check_everywhere(const Op& op, double tolerance, const std::string& what) {
  const auto run = [&](Device& device) { return op([&](const Tensor& x) { return device.to_device(x); }); };
  const Tensor first = run(cpu_device());
  expect_close(first, run(reference_device()), tolerance, what);
  for (const auto& target : cpu::runnable_targets())
    for (int threads : {1, 3})
      expect_same_bits(run(cpu_device(threads, false, target)), first, what + " on " + target);
}

TEST(Elementwise, NormsAndGates) {
  Rng rng(1);
  for (auto [m, k] : {std::pair{1, 576}, {3, 1}, {5, 100}, {70, 1024}, {2, 15}, {1, 33}}) {
    const auto x = random_tensor({m, k}, rng), y = random_tensor({m, k}, rng, 3), w = random_tensor({k}, rng);
    const auto what = fmt::format("[{}, {}]", m, k);
    check_everywhere([&](auto on) { return rms_norm(on(x), on(w), 1e-6f); }, 2e-5, "rms_norm " + what);
    check_everywhere(
        [&](auto on) { return layer_norm(on(x), on(w), on(y.slice_rows(0, 1).reshape({k})), 1e-6f); },
        k == 1 ? 0 : 2e-5, "layer_norm " + what);
    for (const Gelu kind : {Gelu::tanh, Gelu::erf})
      check_everywhere([&](auto on) { return gelu(on(y), kind); }, 1e-5, "gelu " + what);
    // Values below 256, rounded twice.
    check_everywhere(
        [&](auto on) {
          return xielu(on(y), {0.9f, 1.3f, 0.4f, -0.02f});
        },
        4e-5, "xielu " + what);
    check_everywhere([&](auto on) { return ops::add(on(x), on(y)); }, 0, "add " + what);
    check_everywhere([&](auto on) { return add_bias(on(x), on(w)); }, 0, "add_bias " + what);
    check_everywhere([&](auto on) { return swiglu(on(y), on(x)); }, 2e-5, "swiglu " + what);
    constexpr auto kGelu = Activation::gelu_tanh;
    check_everywhere([&](auto on) { return swiglu(on(y), on(x), kGelu); }, 2e-5, "gelu " + what);
    for (const bool silu_first : {false, true}) {
      const ClampedGlu how{.limit = 0.7f, .silu_first = silu_first};
      check_everywhere([&](auto on) { return clamped_glu(on(y), on(y), how); }, 2e-5, "clamped_glu " + what);
    }
    check_everywhere([&](auto on) { return ops::scale(on(x), 1.7f); }, 0, "scale " + what);
    check_everywhere([&](auto on) { return soft_cap(on(y), 2.5f); }, 2e-6, "soft_cap " + what);
    check_everywhere([&](auto on) { return sigmoid_gate(on(x), on(y)); }, 2e-6, "sigmoid_gate " + what);
  }
}

TEST(Elementwise, ClampedUnits) {
  Device& cpu = cpu_device();
  const Tensor gate = cpu.to_device(to_tensor({3, -1, 3}, {1, 3})),
               up = cpu.to_device(to_tensor({5, -5, 0.25f}, {1, 3}));
  const auto of = [&](bool silu_first) {
    return to_vector(clamped_glu(gate, up, {.alpha = 1, .limit = 2, .silu_first = silu_first}));
  };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const std::vector<double> before = {silu(2) * 3, -silu(-1), silu(2) * 1.25};
  const std::vector<double> after = {4, -2 * silu(-1), 0.5};
  for (size_t i = 0; i < 3; i++) {
    EXPECT_NEAR(of(false)[i], before[i], 1e-5);
    EXPECT_NEAR(of(true)[i], after[i], 1e-5);
  }
}

TEST(Elementwise, RmsNormRowsStandAlone) {
  Rng rng(2);
  Device& cpu = cpu_device();
  const auto x = cpu.to_device(random_tensor({64, 1000}, rng)), w = cpu.to_device(random_tensor({1000}, rng));
  const auto all = rms_norm(x, w, 1e-5f);
  for (int m : {0, 1, 63})
    expect_same_bits(rms_norm(x.slice_rows(m, m + 1), w, 1e-5f), all.slice_rows(m, m + 1), "row");
}

TEST(Elementwise, Rope) {
  Rng rng(3);
  std::vector<float> inv_freq;
  for (int i = 0; i < 20; i++) inv_freq.push_back(std::pow(1e4f, -static_cast<float>(i) / 20));
  const std::vector<int> positions = {0, 1, 7, 100000, 5, 6};
  const auto x = random_tensor({6, 3, 50}, rng);  // 10 dimensions pass through
  check_everywhere([&](auto on) { return rope(on(x), positions, Rope{inv_freq, 1.25f}); }, 1e-6, "rope");
  const auto on_cpu = cpu_device().to_device(x);
  const auto y = to_vector(rope(on_cpu, positions, Rope{inv_freq}));
  for (int i = 0; i < 50; i++)
    EXPECT_EQ(y[static_cast<size_t>(i)], x.data<float>()[i]) << "position 0 turns nothing";
  const double angle = 100000.0 * static_cast<double>(inv_freq[1]);
  const size_t at = (3 * 3 + 2) * 50;
  const float x1 = x.data<float>()[at + 1], x2 = x.data<float>()[at + 21];
  EXPECT_NEAR(y[at + 1], x1 * std::cos(angle) - x2 * std::sin(angle), 1e-6);
  EXPECT_NEAR(y[at + 21], x2 * std::cos(angle) + x1 * std::sin(angle), 1e-6);
  for (int i = 40; i < 50; i++)
    EXPECT_EQ(y[at + static_cast<size_t>(i)], x.data<float>()[at + static_cast<size_t>(i)]);
  // Other arguments must not meet remembered angles.
  const std::vector<int> others = {0, 1, 8, 100000, 5, 6};
  EXPECT_NE(to_vector(rope(on_cpu, others, Rope{inv_freq}))[2 * 150], y[2 * 150]);
}

// Rows far from zero: the mean is taken away before squares are summed.
TEST(Elementwise, LayerNormOfAFarMean) {
  Rng rng(7);
  for (const int k : {5, 64, 72, 1152}) {
    Tensor x = random_tensor({3, k}, rng);
    for (int i = 0; i < 3 * k; i++) x.data<float>()[i] += 100;
    const Tensor w = random_tensor({k}, rng), b = random_tensor({k}, rng);
    Device& cpu = cpu_device();
    const Tensor there = cpu.to_device(x);
    const auto all = layer_norm(there, cpu.to_device(w), cpu.to_device(b), 1e-6f);
    for (int row = 0; row < 3; row++) {
      const float* from = x.data<float>() + row * k;
      double mean = 0, squares = 0;
      for (int i = 0; i < k; i++) mean += from[i] / double{1} / k;
      for (int i = 0; i < k; i++) squares += (from[i] - mean) * (from[i] - mean) / k;
      for (int i = 0; i < k; i++) {
        // The mean of numbers near 100 is off by up to a few of their roundings, 4e-6 each.
        const double want =
            (from[i] - mean) / std::sqrt(squares + 1e-6) * w.data<float>()[i] + b.data<float>()[i];
        ASSERT_NEAR(to_vector(all)[static_cast<size_t>(row * k + i)], want, 1e-4) << k << " row " << row;
      }
      expect_same_bits(layer_norm(there.slice_rows(row, row + 1), cpu.to_device(w), cpu.to_device(b), 1e-6f),
                       all.slice_rows(row, row + 1), "a row stands alone");
    }
  }
}

// Of a row's positions, each frequency is turned by its own.
// Three positions may be those of one row or of three rows, one after the other.
TEST(Elementwise, RopesOfOneRowAndOfThreeAreApart) {
  Device& device = cpu_device();
  Rope rope{{1.0f, 0.5f, 0.25f}};
  rope.axis = {0, 1, 2};
  const Tensor rows = device.empty({3, 1, 6}, Dtype::f32);
  Tensor x = rows;
  for (int i = 0; i < 18; i++) x.data<float>()[i] = static_cast<float>(i % 6) + 1;
  const std::vector<int> same = {7, 7, 7};
  const Tensor one = ops::rope(x.slice_rows(0, 1), same, rope);
  const Tensor three = ops::rope(x, same, rope);
  ASSERT_EQ(three.shape(), x.shape());
  for (int i = 0; i < 18; i++) EXPECT_EQ(three.data<float>()[i], one.data<float>()[i % 6]) << i;
}

TEST(Elementwise, RopeOverAxes) {
  Rng rng(8);
  const auto x = random_tensor({4, 3, 20}, rng);
  Rope plain{{1.0f, 0.5f, 0.2f, 0.1f, 0.05f, 0.02f, 0.01f}, 1.1f}, rope = plain;
  rope.axis = {0, 1, 2, 0, 1, 2, 0};
  const std::vector<int> positions = {5, 9, 2, 6, 6, 6, 0, 3, 1000, 7, 0, 0};
  check_everywhere([&](auto on) { return ops::rope(on(x), positions, rope); }, 1e-6, "rope over axes");
  const Tensor there = cpu_device().to_device(x);
  const auto y = to_vector(ops::rope(there, positions, rope));
  for (int axis = 0; axis < 3; axis++) {
    std::vector<int> own;
    for (size_t row = 0; row < 4; row++) own.push_back(positions[row * 3 + static_cast<size_t>(axis)]);
    const auto turned = to_vector(ops::rope(there, own, plain));
    for (size_t i = 0; i < y.size(); i++) {
      const bool is_turned = i % 20 < 14 && rope.axis[i % 20 % 7] == axis;
      ASSERT_EQ(y[i], is_turned ? turned[i] : y[i]) << i;
    }
  }
  const std::vector<int> equal = {4, 0, 70000, 3}, thrice = {4, 4, 4, 0, 0, 0, 70000, 70000, 70000, 3, 3, 3};
  for (Device* device : cpu_and_reference()) {
    const Tensor on = device->to_device(x), want = ops::rope(on, equal, plain);
    expect_same_bits(ops::rope(on, thrice, rope), want, "equal positions");
    expect_same_bits(ops::rope(on, equal, rope), want, "given once");
  }
  EXPECT_THROW(ops::rope(there, std::vector<int>(8), rope), std::invalid_argument);
  rope.axis.pop_back();
  EXPECT_THROW(ops::rope(there, equal, rope), std::invalid_argument);
}

TEST(Elementwise, RowsAreTakenSlicedStackedReshaped) {
  Rng rng(4);
  const auto host = random_tensor({5, 30}, rng);
  const auto* values = host.data<float>();
  const int rows[] = {4, 0, 4};
  for (Device* device : cpu_and_reference()) {
    const auto x = device->to_device(host);
    const auto taken = to_vector(take_rows(x, rows));
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < 30; k++)
        ASSERT_EQ(taken[static_cast<size_t>(i * 30 + k)], values[rows[i] * 30 + k]);
    const auto part = x.slice_rows(1, 3);
    EXPECT_EQ(part.shape(), (Shape{2, 30}));
    EXPECT_EQ(to_vector(part)[0], values[30]);
    expect_same_bits(concat_rows({x.slice_rows(0, 1), x.slice_rows(1, 3), x.slice_rows(3, 5)}), x, "concat");
    const auto cube = x.slice_rows(2, 4).reshape({2, 5, 6});
    EXPECT_EQ(to_vector(cube)[59], values[119]);
    EXPECT_EQ(to_vector(cube.reshape({60}))[1], values[61]);
    expect_same_bits(ops::add(part, part), ops::add(x, x).slice_rows(1, 3), "a view is an operand");
    const auto copy = copy_rows(x, 1, 3);
    expect_same_bits(copy, part, "copy");
    EXPECT_NE(&copy.storage(), &x.storage());
    EXPECT_LT(copy.storage().bytes(), x.storage().bytes()) << "the rest of x is not kept";
    EXPECT_TRUE(take_rows(x, {}).empty() && copy_rows(x, 2, 2).empty());
  }
  const auto x = cpu_device().to_device(host);
  EXPECT_EQ(x.slice_rows(1, 3).data<float>(), x.data<float>() + 30) << "storage must be shared";
}

// The first of equal ones; nothing where a number is none, or the largest is infinite.
TEST(Elementwise, BestOfRows) {
  Rng rng(6);
  for (const int width : {1, 2, 63, 64, 65, 128, 1000}) {
    const Tensor host = rows_to_choose_from(width, rng);
    const float* data = host.data<float>();
    std::vector<int> want = {0, 0, 0, -1, -1, -1, width - 1};
    for (int i = 1; i < width; i++)
      if (data[i] > data[want[0]]) want[0] = i;
    for (Device* device : cpu_and_reference()) {
      const Tensor x = device->to_device(host);
      EXPECT_EQ(best_of_rows(x), want) << "width " << width;
      EXPECT_EQ(best_of_rows(ops::add(x, x)), want) << "lazy on the reference, width " << width;
      EXPECT_EQ(best_of_rows(x.slice_rows(2, 2)), std::vector<int>{});
    }
  }
}

TEST(Elementwise, LazyResultsAreEvaluated) {
  Rng rng(5);
  const auto x = random_tensor({2, 20}, rng);
  const auto thrice = [&](Device& device) {
    const auto y = device.to_device(x);
    return ops::add(ops::add(y, y), y);
  };
  expect_same_bits(thrice(reference_device()), thrice(cpu_device()), "lazy operand");
}

TEST(Elementwise, RefusesWrongShapes) {
  const auto zeros = [](const Shape& shape) { return cpu_device().zeros(shape, Dtype::f32); };
  const auto a = zeros({2, 3}), b = zeros({3, 2});
  EXPECT_THROW(ops::add(a, b), std::invalid_argument);
  EXPECT_THROW(add_bias(a, zeros({2})), std::invalid_argument);
  EXPECT_THROW(swiglu(a, b), std::invalid_argument);
  EXPECT_THROW(rms_norm(a, zeros({2}), 1e-6f), std::invalid_argument);
  EXPECT_THROW(layer_norm(a, zeros({3}), zeros({2}), 1e-6f), std::invalid_argument);
  EXPECT_THROW(copy_rows(a, 1, 3), std::invalid_argument);
  const int rows[] = {2};
  EXPECT_THROW(take_rows(a, rows), std::invalid_argument);
  EXPECT_THROW(concat_rows({a, b}), std::invalid_argument);
  EXPECT_THROW(concat_rows({}), std::invalid_argument);
  EXPECT_THROW(ops::add(cpu_device().zeros({2, 3}, Dtype::f16), a), std::invalid_argument) << "not f32";
}

TEST(Elementwise, FunctionsAreAccurate) {
  std::vector<float> x;
  for (int i = -9000; i <= 9000; i++) x.push_back(static_cast<float>(i) * 0.00968f + 0.0003f);
  for (float v : {0.0f, -0.0f, 1e-20f, -1e-20f, 1e-5f, -1e-5f}) x.push_back(v);
  using Function = double (*)(double);
  const Function exact[] = {
      [](double v) { return std::exp(v); },
      [](double v) { return 1 / (1 + std::exp(-v)); },
      [](double v) { return v / (1 + std::exp(-v)); },
      [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); },
      [](double v) { return std::exp2(v); },
      [](double v) { return std::tanh(v); },
      [](double v) { return v / 2 * (1 + std::tanh(0.79788456080286536 * (v + 0.044715 * v * v * v))); },
      [](double v) { return v / 2 * std::erfc(-v * 0.70710678118654752); }};
  const double ulps[] = {1.5, 3, 3, 3, 1.5, 0, 0, 0};
  const auto absolute = [](int f, double v) {
    return f == 5 ? 3e-7 : f == 6 ? 4e-7 * std::abs(v) : f == 7 ? 3e-7 * std::abs(v) : 0;
  };
  std::vector<float> first(x.size()), y(x.size());
  const cpu::CpuKernels& kernels = *cpu::find_target("");
  for (int f = 0; f < 8; f++) {
    kernels.math(f, x.data(), first.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); i++) {
      const double e = exact[f](x[i]);
      ASSERT_NEAR(first[i], e, ulps[f] * std::abs(e) * 0x1p-23 + absolute(f, x[i]) + 1.2e-38)
          << "function " << f << " at " << x[i];
    }
    for (const auto& target : cpu::runnable_targets()) {
      cpu::find_target(target)->math(f, x.data(), y.data(), static_cast<int64_t>(x.size()));
      ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * 4), 0) << "function " << f << " on " << target;
    }
  }
  const float ends[] = {-1e30f, -88.0f, 200.0f};
  float out[3];
  kernels.math(0, ends, out, 3);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_GT(out[2], 1e38f);
  const float powers[] = {-std::numeric_limits<float>::infinity(), -1e30f, 0.0f, -1.0f};
  float power[4];
  kernels.math(4, powers, power, 4);
  EXPECT_EQ(power[0], 0.0f);
  EXPECT_EQ(power[1], 0.0f);
  EXPECT_EQ(power[2], 1.0f);
  EXPECT_EQ(power[3], 0.5f);
}

// Where exp(x) is near 1, exp(x) - 1 - x alone would lose all digits.
TEST(Elementwise, XieluIsAccurate) {
  const Xielu p{0.75f, 3.0f, 0.0f, -1e-6f};
  std::vector<float> x;
  for (float v = 1e-7f; v < 40; v *= 1.07f) x.push_back(v), x.push_back(-v);
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size());
  for (const auto& target : cpu::runnable_targets()) {
    cpu::find_target(target)->xielu(x.data(), p.positive, p.negative, p.linear, p.near, y.data(), count);
    for (size_t i = 0; i < x.size(); i++) {
      const double v = x[i], least = std::min(v, double{p.near});
      const double exact = v > 0 ? 0.75 * v * v : 3.0 * (std::expm1(least) - v);
      ASSERT_NEAR(y[i], exact, 4 * std::abs(exact) * 0x1p-23) << x[i] << " on " << target;
    }
  }
}

TEST(Elementwise, HalvesRoundToEvenAndSaturate) {
  std::vector<float> x = {0.0f,  -0.0f, 65504.0f, 65519.0f, 1e9f,
                          -1e9f, 6e-8f, 2.9e-8f,  3e-8f,    1.0f + 1.0f / 2048};
  Rng rng(6);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 20000; i++) x.push_back(std::ldexp(normal(rng), static_cast<int>(rng() % 40) - 24));
  const auto count = static_cast<int64_t>(x.size());
  namespace mx = mlx::core;
  mx::array expected = mx::astype(mx::clip(mx::array(x.data(), {static_cast<int>(count)}, mx::float32),
                                           mx::array(-65504.0f), mx::array(65504.0f)),
                                  mx::float16);
  expected.eval();
  for (const auto& target : cpu::runnable_targets()) {
    std::vector<uint16_t> y(x.size());
    cpu::find_target(target)->to_f16(x.data(), y.data(), count);
    for (size_t i = 0; i < x.size(); i++)
      ASSERT_EQ(y[i], reinterpret_cast<const uint16_t*>(expected.data<char>())[i])
          << x[i] << " on " << target;
  }
}

TEST(Elementwise, TensorsAreAligned) {
  for (Device* device : {&cpu_device(), &host_device()})
    for (int n : {1, 3, 100, 4097})
      for (const auto& x : {device->empty({n}, Dtype::f32), device->empty({n, 3}, Dtype::f16),
                            device->empty({n}, Dtype::u8), device->zeros({n}, Dtype::i32)})
        EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data<char>()) % 64, 0u);
}

}  // namespace
}  // namespace anabranch::ops
