// What the tests of ops share: random data, random weights, exact comparison, and settings put back at the
// end.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/backend.h"
#include "ops/cpu/dispatch.h"
#include "ops/weight.h"

namespace anabranch::ops {

// Restores backend, precision, target and thread count.
class OpsTest : public testing::Test {
 protected:
  void TearDown() override {
    set_backend(Backend::cpu);
    set_precise(false);
    set_cpu_target(cpu::runnable_targets().front());
    set_thread_count(0);
  }
};

using Rng = std::mt19937;

inline mx::array random_array(mx::Shape shape, Rng& rng, float scale = 1.0f) {
  mx::array x = empty(std::move(shape), mx::float32);
  std::normal_distribution<float> normal(0, scale);
  float* p = x.data<float>();
  for (size_t i = 0; i < x.size(); i++) p[i] = normal(rng);
  return x;
}

inline std::vector<float> values(const mx::array& x) {
  mx::array y = mx::contiguous(x);
  mx::eval(y);
  return {y.data<float>(), y.data<float>() + y.size()};
}

inline void expect_same_bits(const mx::array& a, const mx::array& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto x = values(a), y = values(b);
  if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < x.size(); i++) {
    if (std::memcmp(&x[i], &y[i], 4) != 0) {
      FAIL() << fmt::format("{}: element {} of {}: {} against {}", what, i, x.size(), x[i], y[i]);
    }
  }
}

// Every element within `tolerance` of the other, NaN nowhere.
inline void expect_close(const mx::array& a, const mx::array& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto x = values(a), y = values(b);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const double d = std::abs(static_cast<double>(x[i]) - y[i]);
    if (!(d <= worst)) worst = d, at = i;
    if (std::isnan(d)) break;
  }
  EXPECT_LE(worst, tolerance) << fmt::format("{}: element {}: {} against {}", what, at, x.empty() ? 0 : x[at],
                                             y.empty() ? 0 : y[at]);
  for (float v : x) ASSERT_FALSE(std::isnan(v)) << what;
}

// float -> the nearest value of the type, as float.
inline float round_to(ScaleType type, float x) {
  if (type == ScaleType::f32) return x;
  const mx::array y =
      mx::astype(mx::astype(mx::array(x), type == ScaleType::f16 ? mx::float16 : mx::bfloat16), mx::float32);
  mx::array z = y;
  return z.item<float>();
}

// A random weight, kept as plain numbers.
struct TestWeight {
  WeightSource source;
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases, dense;

  // The weight's value in double, exactly.
  double at(int64_t row, int64_t col) const {
    const size_t i = static_cast<size_t>(row * source.cols + col);
    if (source.kind != WeightKind::affine) return dense[i];
    const size_t g = static_cast<size_t>(row * (source.cols / source.group) + col / source.group);
    return static_cast<double>(scales[g]) * codes[i] + biases[g];
  }
};

inline mx::Dtype dtype_of(ScaleType t) {
  return t == ScaleType::f32 ? mx::float32 : t == ScaleType::f16 ? mx::float16 : mx::bfloat16;
}

inline std::vector<float> rounded(std::vector<float> x, mx::Dtype dtype) {
  if (dtype == mx::float32 || x.empty()) return x;
  const mx::array a(x.data(), {static_cast<int>(x.size())}, mx::float32);
  return values(mx::astype(mx::astype(a, dtype), mx::float32));
}

inline std::shared_ptr<TestWeight> affine_weight(int64_t rows, int64_t cols, int bits, int group, Rng& rng,
                                                 ScaleType type = ScaleType::f16, bool symmetric = false) {
  auto w = std::make_shared<TestWeight>();
  w->codes.resize(static_cast<size_t>(rows * cols));
  for (auto& c : w->codes) c = static_cast<uint8_t>(rng() % (1u << bits));
  const size_t groups = static_cast<size_t>(rows * (cols / group));
  const int zero_point = 1 << (bits - 1);
  std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
  for (size_t i = 0; i < groups; i++) {
    w->scales.push_back((rng() % 2 ? 1.0f : -1.0f) * uniform(rng) / static_cast<float>(1 << bits));
    w->biases.push_back(-0.5f * uniform(rng));
  }
  w->scales = rounded(w->scales, dtype_of(type));
  w->biases = rounded(w->biases, dtype_of(type));
  if (symmetric) {
    for (size_t i = 0; i < groups; i++) w->biases[i] = -static_cast<float>(zero_point) * w->scales[i];
  }
  WeightSource& s = w->source;
  s.rows = rows;
  s.cols = cols;
  s.kind = WeightKind::affine;
  s.bits = bits;
  s.group = group;
  s.scale_type = type;
  s.symmetric = symmetric;
  s.zero_point = symmetric ? zero_point : 0;
  s.read_affine = [p = w.get(), cols, group](int64_t first, int64_t count, uint8_t* c, float* sc, float* b) {
    const int64_t g = cols / group;
    std::copy_n(p->codes.data() + first * cols, count * cols, c);
    std::copy_n(p->scales.data() + first * g, count * g, sc);
    if (!p->source.symmetric) std::copy_n(p->biases.data() + first * g, count * g, b);
  };
  return w;
}

inline std::shared_ptr<TestWeight> dense_weight(int64_t rows, int64_t cols, WeightKind kind, Rng& rng) {
  auto w = std::make_shared<TestWeight>();
  std::normal_distribution<float> normal(0, 0.5f);
  w->dense.resize(static_cast<size_t>(rows * cols));
  for (auto& v : w->dense) v = normal(rng);
  w->dense = rounded(w->dense, kind == WeightKind::f32   ? mx::float32
                               : kind == WeightKind::f16 ? mx::float16
                                                         : mx::bfloat16);
  WeightSource& s = w->source;
  s.rows = rows;
  s.cols = cols;
  s.kind = kind;
  s.read_dense = [p = w.get(), cols](int64_t first, int64_t count, float* v) {
    std::copy_n(p->dense.data() + first * cols, count * cols, v);
  };
  return w;
}

}  // namespace anabranch::ops
