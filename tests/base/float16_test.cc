#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace anabranch {
namespace {

TEST(Float16, AllValuesSurviveTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; i++) {
    const auto bits = static_cast<uint16_t>(i);
    if (!std::isnan(f16_to_float(bits))) {
      ASSERT_EQ(float_to_f16(f16_to_float(bits)), bits);
    }
    if (!std::isnan(bf16_to_float(bits))) {
      ASSERT_EQ(float_to_bf16(bf16_to_float(bits)), bits);
    }
  }
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_float(0x3c00), 1.0f);
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0);    // a tie: to even
  EXPECT_EQ(float_to_f16(0x1.8p-24f), 2);  // a tie: to even
  EXPECT_EQ(float_to_f16(1 + 0x1p-11f), 0x3c00);
  EXPECT_EQ(float_to_bf16(0x1.01p0f), 0x3f80);  // a tie: to even
  EXPECT_EQ(float_to_bf16(0x1.03p0f), 0x3f82);
  EXPECT_EQ(float_to_bf16(0x1.ffp127f), 0x7f80);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(NAN))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(NAN))));
}

}  // namespace
}  // namespace anabranch
