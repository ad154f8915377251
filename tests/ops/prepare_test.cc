// Activations rounded to int8, every byte of them, against the rule stated one element at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/kernels.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

// The memory that Activations points to (ops/cpu/kernels.h); bytes never written stay at 0x55.
struct Rounded {
  std::vector<int8_t> q;
  std::vector<float> scale, sum;
  std::vector<int32_t> int_sum;

  explicit Rounded(const cpu::Activations& a) {
    q.assign(static_cast<size_t>(a.rows * a.padded_cols), 0x55);
    scale.assign(static_cast<size_t>(a.rows * (a.padded_cols / a.x_group)), 0x55);
    sum.assign(static_cast<size_t>(a.rows * (a.padded_cols / a.group)), 0x55);
    int_sum.assign(sum.size(), 0x55);
  }
};

cpu::Activations shape(const cpu::CpuKernels& kernels, int rows, int cols, int padded_cols, int group) {
  cpu::Activations a;
  a.rows = rows;
  a.cols = cols;
  a.padded_cols = padded_cols;
  a.tile = kernels.tile_rows;
  a.group = group;
  a.x_group = std::max(group, 32);
  return a;
}

Rounded round_inputs(const cpu::CpuKernels& kernels, const std::vector<float>& x, cpu::Activations a) {
  Rounded r(a);
  a.q = r.q.data();
  a.scale = r.scale.data();
  a.sum = r.sum.data();
  a.int_sum = r.int_sum.data();
  const int64_t half = a.rows / 2 / a.tile * a.tile;
  kernels.prepare_int8(x.data(), a, 0, half);
  kernels.prepare_int8(x.data(), a, half, a.rows);
  return r;
}

// A group is x / scale to nearest even with scale = most / 127; zeros where most is tiny; scale and sums are
// NaN and codes 0 where an input is not finite. Inputs from cols on are zero.
Rounded rule(const std::vector<float>& x, const cpu::Activations& a) {
  Rounded r(a);
  for (int64_t m = 0; m < a.rows; m++) {
    const int64_t first = m / a.tile * a.tile, h = std::min(a.tile, a.rows - first), i = m - first;
    const auto input = [&](int64_t k) { return k < a.cols ? x[static_cast<size_t>(m * a.cols + k)] : 0.0f; };
    for (int64_t k0 = 0; k0 < a.padded_cols; k0 += a.x_group) {
      float most = 0;
      bool finite = true;
      for (int64_t k = k0; k < k0 + a.x_group; k++) {
        finite = finite && std::isfinite(input(k));
        most = std::max(most, std::fabs(input(k)));
      }
      const bool tiny = most <= 1e-30f;
      const float scale = !finite ? std::numeric_limits<float>::quiet_NaN() : tiny ? 0.0f : most / 127.0f;
      const float inverse = tiny ? 0.0f : 127.0f / most;
      r.scale[static_cast<size_t>(first * (a.padded_cols / a.x_group) + k0 / a.x_group * h + i)] = scale;
      for (int64_t g = k0 / a.group; g < (k0 + a.x_group) / a.group; g++) {
        int32_t sum = 0;
        for (int64_t k = g * a.group; k < (g + 1) * a.group; k++) {
          const int code = finite ? static_cast<int>(std::nearbyint(input(k) * inverse)) : 0;
          r.q[static_cast<size_t>(first * a.padded_cols + (k / 4 * h + i) * 4 + k % 4)] =
              static_cast<int8_t>(code);
          sum += code;
        }
        const auto at = static_cast<size_t>(first * (a.padded_cols / a.group) + g * h + i);
        r.int_sum[at] = sum;
        r.sum[at] = scale * static_cast<float>(sum);
      }
    }
  }
  return r;
}

// Ordinary values, and by group every case of the rule.
std::vector<float> inputs(int rows, int cols, uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  for (int k = 0; k < rows * cols; k += 16) {
    const int kind = random.below(10);
    const float size = std::ldexp(1.0f, random.below(40) - 20);
    for (int j = k; j < std::min(k + 16, rows * cols); j++) {
      switch (kind) {
        case 0:
          x.push_back(0.0f * random.uniform());
          break;
        case 1:
          x.push_back(2e-30f * random.uniform());
          break;
        case 2:
          x.push_back(1e-40f * random.uniform());
          break;
        case 3:
          x.push_back(3e38f * random.uniform());
          break;
        case 4:
          x.push_back(static_cast<float>(random.below(255) - 127) * 0.5f);
          break;  // ties
        case 5:
          x.push_back(random.below(2) ? size : -size);
          break;
        default:
          x.push_back(size * random.uniform());
      }
    }
    const float infinity = std::numeric_limits<float>::infinity();
    const float odd[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                         -std::numeric_limits<float>::quiet_NaN()};
    if (random.below(20) == 0) x.back() = odd[random.below(4)];
  }
  return x;
}

// NaN is NaN, whatever its sign and payload.
void expect_same(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : std::memcmp(&got[i], &want[i], 4) == 0)
        << what << " " << i << ": " << got[i] << ", not " << want[i];
}

TEST(Prepare, EveryByteIsTheRules) {
  uint64_t seed = 1;
  for (const std::string& target : cpu::runnable_targets()) {
    const cpu::CpuKernels& kernels = *cpu::find_target(target);
    for (const int group : {16, 32, 64, 128}) {
      for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 40}) {
        const int x_group = std::max(group, 32);
        for (const int cols : {1, 15, 16, 48, 64, 67, 128, 200, 576, 1280}) {
          SCOPED_TRACE(::testing::Message()
                       << target << ", group " << group << ", " << rows << " x " << cols);
          const cpu::Activations a = shape(
              kernels, rows, cols, (cols + x_group - 1) / x_group * x_group + cols % 2 * x_group, group);
          const std::vector<float> x = inputs(rows, cols, seed++);
          const Rounded got = round_inputs(kernels, x, a), want = rule(x, a);
          ASSERT_EQ(got.q, want.q);
          ASSERT_EQ(got.int_sum, want.int_sum);
          ASSERT_NO_FATAL_FAILURE(expect_same(got.scale, want.scale, "scale"));
          ASSERT_NO_FATAL_FAILURE(expect_same(got.sum, want.sum, "sum"));
        }
      }
    }
  }
}

}  // namespace
}  // namespace anabranch::ops
