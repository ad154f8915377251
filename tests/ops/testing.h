// Shared by the tests of ops: devices, random data, tensors to and from vectors, and comparisons.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "ops/cpu/device.h"
#include "ops/cpu/dispatch.h"
#include "ops/open.h"
#include "tensor/device.h"

namespace anabranch::ops {

constexpr double kUlp = 1.0 / (1 << 24);  // half a unit in the last place of 1.0f: one rounding, relative

// Tables of kernels that only tests have, by name.
inline std::map<std::string, cpu::CpuKernels>& test_kernels() {
  static std::map<std::string, cpu::CpuKernels> kernels;
  return kernels;
}

// cpu::runnable_targets(), and those of test_kernels().
inline std::vector<std::string> all_targets() {
  std::vector<std::string> names = cpu::runnable_targets();
  for (const auto& [name, kernels] : test_kernels()) names.push_back(name);
  return names;
}

// A CPU device with these settings, opened once. target: one of all_targets(), empty = the best.
inline Device& cpu_device(int threads = 0, bool precise = false, const std::string& target = "") {
  static std::map<std::tuple<int, bool, std::string>, std::unique_ptr<Device>> opened;
  auto& device = opened[{threads, precise, target}];
  if (const auto only = test_kernels().find(target); !device && only != test_kernels().end())
    device = std::make_unique<cpu::CpuDevice>(threads, precise, only->second);
  if (!device) device = cpu::open_cpu(threads, precise, target);
  if (!device) throw std::runtime_error("this machine cannot run the target " + target);
  return *device;
}

inline Device& reference_device() {
  static const std::unique_ptr<Device> device = open_reference(false, 0);
  return *device;
}

// Where every op can be tried: the default CPU device and the reference.
inline std::vector<Device*> cpu_and_reference() {
  return {&cpu_device(), &reference_device()};
}

// xorshift64* (Vigna 2016): the same numbers on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint32_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
  }
  int below(int n) { return static_cast<int>(bits() % static_cast<uint32_t>(n)); }
  float uniform() { return static_cast<float>(static_cast<int32_t>(bits()) * 0x1p-31); }  // [-1, 1)
  std::vector<float> vector(int64_t count, float scale = 1.0f) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = uniform() * scale;
    return v;
  }

 private:
  uint64_t state_;
};

// A tensor of the host.
inline Tensor to_tensor(const std::vector<float>& v, const Shape& shape) {
  Tensor x = host_device().empty(shape, Dtype::f32);
  EXPECT_EQ(static_cast<size_t>(x.size()), v.size());
  std::copy_n(v.begin(), std::min(v.size(), static_cast<size_t>(x.size())), x.data<float>());
  return x;
}

inline std::vector<float> to_vector(const Tensor& x) {
  const Tensor host = to_host(x);
  return {host.data<float>(), host.data<float>() + host.size()};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Where the first difference is, for messages.
inline ::testing::AssertionResult bits_agree(const float* a, const float* b, size_t count) {
  if (count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0) return ::testing::AssertionSuccess();
  for (size_t i = 0; i < count; i++) {
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0)
      return ::testing::AssertionFailure()
             << "element " << i << " of " << count << ": " << a[i] << " and " << b[i];
  }
  return ::testing::AssertionFailure();
}
inline ::testing::AssertionResult bits_agree(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
  return bits_agree(a.data(), b.data(), a.size());
}

// |got - want| <= tolerance, element by element.
inline ::testing::AssertionResult within(const std::vector<float>& got, const std::vector<double>& want,
                                         const std::vector<double>& tolerance) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (size_t i = 0; i < got.size(); i++) {
    if (!(std::fabs(got[i] - want[i]) <= tolerance[i]))
      return ::testing::AssertionFailure() << "element " << i << " of " << got.size() << ": " << got[i]
                                           << ", not " << want[i] << " +- " << tolerance[i];
  }
  return ::testing::AssertionSuccess();
}

using Rng = std::mt19937;

// A tensor of the host.
inline Tensor random_tensor(const Shape& shape, Rng& rng, float scale = 1.0f) {
  Tensor x = host_device().empty(shape, Dtype::f32);
  std::normal_distribution<float> normal(0, scale);
  std::generate_n(x.data<float>(), x.size(), [&] { return normal(rng); });
  return x;
}

// For best_of_rows(), [7, width] of the host: random numbers; several equal best ones; zeros of both signs; a
// NaN; an infinity; only -infinities; one number among -infinities.
inline Tensor rows_to_choose_from(int width, Rng& rng) {
  Tensor x = random_tensor({7, width}, rng);
  const auto set = [&](int row, int i, float v) { x.data<float>()[row * width + i] = v; };
  for (const int i : {0, width / 3, width / 2, width - 1}) set(1, i, 9.0f);
  for (int i = 0; i < width; i++) set(2, i, i < width / 2 ? -0.0f : 0.0f);
  set(3, width / 2, NAN);
  set(4, width - 1, INFINITY);
  for (int i = 0; i < width; i++) set(5, i, -INFINITY);
  for (int i = 0; i + 1 < width; i++) set(6, i, -INFINITY);
  return x;
}

inline void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto x = to_vector(a), y = to_vector(b);
  if (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < x.size(); i++) {
    if (std::memcmp(&x[i], &y[i], 4) != 0) {
      FAIL() << fmt::format("{}: element {} of {}: {} against {}", what, i, x.size(), x[i], y[i]);
    }
  }
}

// Every element within `tolerance` of the other, NaN nowhere.
inline void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto x = to_vector(a), y = to_vector(b);
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

}  // namespace anabranch::ops
