#include "base/float8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/weight_source.h"

namespace anabranch {
namespace {

// Every number, the middles between neighbours (which go to the even one) and their neighbours in fp32.
TEST(E4m3, RoundsToTheNearest) {
  for (int code = 0; code < 0x7E; code++) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code)),
                high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    for (const int sign : {0, 0x80}) {
      const auto rounded = [&](float value) { return float_to_e4m3(sign ? -value : value); };
      EXPECT_EQ(rounded(low), code | sign);
      EXPECT_EQ(rounded(std::nextafter(middle, 0.0f)), code | sign) << code;
      EXPECT_EQ(rounded(middle), (code + code % 2) | sign) << code;
      EXPECT_EQ(rounded(std::nextafter(middle, high)), (code + 1) | sign) << code;
    }
  }
  for (const float large : {448.0f, 449.0f, 463.9f, 464.0f, 480.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(float_to_e4m3(large), 0x7E);
    EXPECT_EQ(float_to_e4m3(-large), 0xFE);
  }
  EXPECT_EQ(float_to_e4m3(NAN) & 0x7F, 0x7F);
  EXPECT_EQ(float_to_e4m3(1e-30f), 0);
  EXPECT_EQ(float_to_e4m3(-0.0f), 0x80);
}

TEST(Float8, E4m3IsItsFormula) {
  for (int code = 0; code < 256; code++) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_EQ(float_to_e4m3(value) & 0x7F, 0x7F) << code;
      continue;
    }
    EXPECT_EQ(value, static_cast<float>(code < 128 ? magnitude : -magnitude)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    EXPECT_EQ(float_to_e4m3(value), code);
  }
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(e4m3_to_float(1), 0x1p-9f);
}

TEST(Float8, E8m0IsAPowerOfTwo) {
  for (int code = 0; code < 255; code++) {
    const float value = e8m0_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(value, std::ldexp(1.0f, code - 127)) << code;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(0xFF)));
}

// Two rows of two groups of 32: codes 0 to 63 and their reverse.
WeightSource two_rows(WeightKind kind) {
  WeightSource s;
  s.rows = 2;
  s.cols = 64;
  s.kind = kind;
  s.bits = kind == WeightKind::fp8 ? 8 : 4;
  s.group = 32;
  s.symmetric = true;
  for (int i = 0; i < 16; i++) s.table[static_cast<size_t>(i)] = static_cast<int8_t>(i * i - 100);
  s.read_codes = [mask = (1 << s.bits) - 1](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                            float*) {
    for (int64_t r = 0; r < count; r++) {
      for (int k = 0; k < 64; k++) *codes++ = static_cast<uint8_t>((first + r == 0 ? k : 63 - k) & mask);
      for (int g = 0; g < 2; g++) *scales++ = 0.5f * static_cast<float>(2 * (first + r) + g + 1);
    }
  };
  return s;
}

TEST(WeightSource, CodesStandForTheirValues) {
  for (const WeightKind kind : {WeightKind::table, WeightKind::fp8}) {
    const WeightSource source = two_rows(kind);
    std::vector<float> values(64), again(64);
    read_values(source, 1, 1, values.data());
    decoded(source).read_dense(1, 1, again.data());
    for (int k = 0; k < 64; k++) {
      const int code = kind == WeightKind::fp8 ? 63 - k : (63 - k) & 15;
      const float value = kind == WeightKind::fp8 ? e4m3_to_float(static_cast<uint8_t>(code))
                                                  : static_cast<float>(code * code - 100);
      EXPECT_EQ(values[static_cast<size_t>(k)], value * (k < 32 ? 1.5f : 2.0f)) << k;
    }
    EXPECT_EQ(values, again);
    // A part of the columns, and a zero row behind each.
    const WeightSource part = pad_blocks(select_columns(source, 32, 64), 1, 2);
    std::vector<float> rows(4 * 32);
    read_values(part, 0, 4, rows.data());
    for (int k = 0; k < 32; k++) {
      EXPECT_EQ(rows[static_cast<size_t>(64 + k)], values[static_cast<size_t>(32 + k)]) << k;
      EXPECT_EQ(rows[static_cast<size_t>(32 + k)], 0.0f) << k;
    }
  }
}

}  // namespace
}  // namespace anabranch
