#include "checkpoint/quantize.h"

#include <gtest/gtest.h>

#include <cmath>

namespace anabranch {
namespace {

WeightSource dense(int64_t rows, int64_t cols) {
  WeightSource source;
  source.rows = rows;
  source.cols = cols;
  source.name = "w";
  source.read_dense = [cols](int64_t first, int64_t count, float* values) {
    for (int64_t i = 0; i < count * cols; i++)
      values[i] = first + i / cols == 1
                      ? 0
                      : std::sin(static_cast<float>(first * cols + i)) * static_cast<float>(i % cols + 1);
  };
  return source;
}

TEST(Quantize, RoundedTo8BitsIsNearInEveryGroup) {
  for (const int cols : {192, 96}) {
    const WeightSource source = dense(5, cols), rounded = rounded_to_8_bits(source);
    ASSERT_EQ(rounded.kind, WeightKind::affine);
    EXPECT_EQ(rounded.bits, 8);
    EXPECT_EQ(rounded.group, cols == 96 ? 32 : 64);
    EXPECT_TRUE(rounded.symmetric);
    EXPECT_EQ(rounded.name, "w");
    const int group = rounded.group, groups = cols / group;
    std::vector<float> values(3 * cols), scales(3 * groups);
    std::vector<uint8_t> codes(3 * cols);
    source.read_dense(1, 3, values.data());
    rounded.read_codes(1, 3, codes.data(), scales.data(), nullptr);
    for (int g = 0; g < 3 * groups; g++) {
      float most = 0;
      for (int i = g * group; i < (g + 1) * group; i++) most = std::max(most, std::abs(values[i]));
      for (int i = g * group; i < (g + 1) * group; i++)
        ASSERT_NEAR(scales[g] * static_cast<float>(codes[i] - rounded.zero_point), values[i], most / 200)
            << i;
    }
  }
}

TEST(Quantize, OthersAreNotRounded) {
  EXPECT_EQ(rounded_to_8_bits(dense(2, 40)).kind, WeightKind::f32) << "no group divides it";
  WeightSource source = dense(2, 64);
  source.kind = WeightKind::affine;
  source.bits = 4;
  EXPECT_EQ(rounded_to_8_bits(source).bits, 4);
}

}  // namespace
}  // namespace anabranch
