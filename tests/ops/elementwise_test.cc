#include "ops/elementwise.h"

#include <algorithm>

#include "ops/cpu/kernels.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

class Elementwise : public OpsTest {};

// Runs `op` on every target and on 1 and 3 threads: the same bits; and near the reference.
template <class Op>
void check_everywhere(const Op& op, double tolerance, const std::string& what) {
  set_backend(Backend::reference);
  const mx::array expected = op();
  set_backend(Backend::cpu);
  const mx::array first = op();
  expect_close(first, expected, tolerance, what);
  for (const auto& target : cpu::runnable_targets()) {
    ASSERT_TRUE(set_cpu_target(target));
    for (int threads : {1, 3}) {
      set_thread_count(threads);
      expect_same_bits(op(), first, what + " on " + target);
    }
  }
  set_cpu_target(cpu::runnable_targets().front());
  set_thread_count(0);
}

TEST_F(Elementwise, NormsAndGates) {
  Rng rng(1);
  for (auto [m, k] : {std::pair{1, 576}, {3, 1}, {5, 100}, {70, 1024}, {2, 15}, {1, 33}}) {
    const auto x = random_array({m, k}, rng), y = random_array({m, k}, rng, 3), w = random_array({k}, rng);
    const auto what = fmt::format("[{}, {}]", m, k);
    check_everywhere([&] { return rms_norm(x, w, 1e-6f); }, 2e-5, "rms_norm " + what);
    check_everywhere([&] { return ops::add(x, y); }, 0, "add " + what);
    check_everywhere([&] { return add_bias(x, w); }, 0, "add_bias " + what);
    check_everywhere([&] { return swiglu(y, x); }, 2e-5, "swiglu " + what);
    check_everywhere([&] { return sigmoid_gate(x, y); }, 2e-6, "sigmoid_gate " + what);
  }
}

TEST_F(Elementwise, RmsNormRowsStandAlone) {
  Rng rng(2);
  const auto x = random_array({64, 1000}, rng), w = random_array({1000}, rng);
  const auto all = rms_norm(x, w, 1e-5f);
  for (int m : {0, 1, 63})
    expect_same_bits(rms_norm(slice_rows(x, m, m + 1), w, 1e-5f), slice_rows(all, m, m + 1), "row");
}

TEST_F(Elementwise, Rope) {
  Rng rng(3);
  std::vector<float> inv_freq;
  for (int i = 0; i < 20; i++) inv_freq.push_back(std::pow(1e4f, -static_cast<float>(i) / 20));
  const std::vector<int> positions = {0, 1, 7, 100000, 5, 6};
  const auto x = random_array({6, 3, 50}, rng);  // 10 dimensions pass through
  check_everywhere([&] { return rope(x, positions, inv_freq, 1.25f); }, 1e-6, "rope");
  const auto y = to_vector(rope(x, positions, inv_freq));
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
  EXPECT_NE(to_vector(rope(x, others, inv_freq))[2 * 150], y[2 * 150]);
}

TEST_F(Elementwise, RowsAreTakenSlicedStackedReshaped) {
  Rng rng(4);
  const auto x = random_array({5, 30}, rng);
  const int rows[] = {4, 0, 4};
  for (auto backend : {Backend::cpu, Backend::reference}) {
    set_backend(backend);
    const auto taken = to_vector(take_rows(x, rows));
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < 30; k++)
        ASSERT_EQ(taken[static_cast<size_t>(i * 30 + k)], x.data<float>()[rows[i] * 30 + k]);
    const auto part = slice_rows(x, 1, 3);
    EXPECT_EQ(part.shape(), (mx::Shape{2, 30}));
    EXPECT_EQ(to_vector(part)[0], x.data<float>()[30]);
    expect_same_bits(concat_rows({slice_rows(x, 0, 1), slice_rows(x, 1, 3), slice_rows(x, 3, 5)}), x,
                     "concat");
    const auto cube = ops::reshape(slice_rows(x, 2, 4), {2, 5, 6});
    EXPECT_EQ(to_vector(cube)[59], x.data<float>()[119]);
    EXPECT_EQ(to_vector(ops::reshape(cube, {60}))[1], x.data<float>()[61]);
  }
  set_backend(Backend::cpu);
  EXPECT_EQ(slice_rows(x, 1, 3).data<float>(), x.data<float>() + 30) << "storage must be shared";
}

// The first of equal ones; nothing where a number is none, or the largest is infinite.
TEST_F(Elementwise, BestOfRows) {
  Rng rng(6);
  for (const int width : {1, 2, 63, 64, 65, 128, 1000}) {
    const mx::array x = rows_to_choose_from(width, rng);
    const float* data = x.data<float>();
    std::vector<int> want = {0, 0, 0, -1, -1, -1, width - 1};
    for (int i = 1; i < width; i++)
      if (data[i] > data[want[0]]) want[0] = i;
    for (const auto backend : {Backend::cpu, Backend::reference}) {
      set_backend(backend);
      EXPECT_EQ(best_of_rows(x), want) << "width " << width;
      EXPECT_EQ(best_of_rows(mx::multiply(x, mx::array(2.0f))), want) << "lazy, width " << width;
    }
    set_backend(Backend::cpu);
    EXPECT_EQ(best_of_rows(slice_rows(x, 2, 2)), std::vector<int>{});
  }
}

TEST_F(Elementwise, LazyArraysAreEvaluated) {
  Rng rng(5);
  const auto x = random_array({2, 20}, rng);
  expect_same_bits(ops::add(mx::multiply(x, mx::array(2.0f)), x), ops::add(ops::add(x, x), x),
                   "lazy operand");
}

TEST_F(Elementwise, RefusesWrongShapes) {
  const auto a = mx::zeros({2, 3}), b = mx::zeros({3, 2});
  EXPECT_THROW(ops::add(a, b), std::invalid_argument);
  EXPECT_THROW(add_bias(a, mx::zeros({2})), std::invalid_argument);
  EXPECT_THROW(swiglu(a, b), std::invalid_argument);
  EXPECT_THROW(rms_norm(a, mx::zeros({2}), 1e-6f), std::invalid_argument);
  EXPECT_THROW(slice_rows(a, 1, 3), std::invalid_argument);
  EXPECT_THROW(ops::reshape(a, {5}), std::invalid_argument);
  const int rows[] = {2};
  EXPECT_THROW(take_rows(a, rows), std::invalid_argument);
  EXPECT_THROW(concat_rows({a, b}), std::invalid_argument);
  EXPECT_THROW(ops::add(mx::transpose(b), a), std::invalid_argument) << "not contiguous";
}

TEST_F(Elementwise, FunctionsAreAccurate) {
  std::vector<float> x;
  for (int i = -9000; i <= 9000; i++) x.push_back(static_cast<float>(i) * 0.00968f + 0.0003f);
  for (float v : {0.0f, -0.0f, 1e-20f, -1e-20f, 1e-5f, -1e-5f}) x.push_back(v);
  using Function = double (*)(double);
  const Function exact[] = {[](double v) { return std::exp(v); },
                            [](double v) { return 1 / (1 + std::exp(-v)); },
                            [](double v) { return v / (1 + std::exp(-v)); },
                            [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); },
                            [](double v) { return std::exp2(v); }};
  const double ulps[] = {1.5, 3, 3, 3, 1.5};
  std::vector<float> first(x.size()), y(x.size());
  for (int f = 0; f < 5; f++) {
    cpu::kernels().math(f, x.data(), first.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); i++) {
      const double e = exact[f](x[i]);
      ASSERT_NEAR(first[i], e, ulps[f] * std::abs(e) * 0x1p-23 + 1.2e-38)
          << "function " << f << " at " << x[i];
    }
    for (const auto& target : cpu::runnable_targets()) {
      set_cpu_target(target);
      cpu::kernels().math(f, x.data(), y.data(), static_cast<int64_t>(x.size()));
      ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * 4), 0) << "function " << f << " on " << target;
    }
  }
  const float ends[] = {-1e30f, -88.0f, 200.0f};
  float out[3];
  cpu::kernels().math(0, ends, out, 3);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_GT(out[2], 1e38f);
  const float powers[] = {-std::numeric_limits<float>::infinity(), -1e30f, 0.0f, -1.0f};
  float power[4];
  cpu::kernels().math(4, powers, power, 4);
  EXPECT_EQ(power[0], 0.0f);
  EXPECT_EQ(power[1], 0.0f);
  EXPECT_EQ(power[2], 1.0f);
  EXPECT_EQ(power[3], 0.5f);
}

TEST_F(Elementwise, HalvesRoundToEvenAndSaturate) {
  std::vector<float> x = {0.0f,  -0.0f, 65504.0f, 65519.0f, 1e9f,
                          -1e9f, 6e-8f, 2.9e-8f,  3e-8f,    1.0f + 1.0f / 2048};
  Rng rng(6);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 20000; i++) x.push_back(std::ldexp(normal(rng), static_cast<int>(rng() % 40) - 24));
  const auto count = static_cast<int64_t>(x.size());
  const mx::array exact = mx::astype(mx::clip(mx::array(x.data(), {static_cast<int>(count)}, mx::float32),
                                              mx::array(-65504.0f), mx::array(65504.0f)),
                                     mx::float16);
  mx::array expected = exact;
  mx::eval(expected);
  for (const auto& target : cpu::runnable_targets()) {
    set_cpu_target(target);
    std::vector<uint16_t> y(x.size());
    cpu::kernels().to_f16(x.data(), y.data(), count);
    for (size_t i = 0; i < x.size(); i++)
      ASSERT_EQ(y[i], reinterpret_cast<const uint16_t*>(expected.data<char>())[i])
          << x[i] << " on " << target;
  }
}

TEST_F(Elementwise, ArraysAreAligned) {
  for (int n : {1, 3, 100, 4097}) {
    const auto f = empty({n}, mx::float32), h = empty({n, 3}, mx::float16), b = empty({n}, mx::uint8);
    for (const auto* x : {&f, &h, &b}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(x->data<char>()) % 64, 0u);
      EXPECT_EQ(x->status(), mx::array::Status::available);
      EXPECT_TRUE(x->flags().row_contiguous);
    }
  }
}

}  // namespace
}  // namespace anabranch::ops
