// Products with table codes and with E4M3 numbers.
#include <limits>

#include "ops/linear_products.h"

namespace anabranch::ops {
namespace {

// The fp32 product of codes without biases by the formula in ops/cpu/kernels_linear.h.
std::vector<float> f32_product(const std::vector<float>& x, int rows, const Matrix& m) {
  std::vector<float> y;
  for (int r = 0; r < rows; r++) {
    for (int n = 0; n < m.rows; n++) {
      float acc = 0;
      for (int g = 0; g < m.groups(); g++) {
        float sum = 0;
        for (int k = g * m.group; k < (g + 1) * m.group; k++)
          sum = std::fma(static_cast<float>(m.code_value(n, k)), x[static_cast<size_t>(r * m.cols + k)], sum);
        acc = std::fma(sum, m.scales[static_cast<size_t>(n * m.groups() + g)], acc);
      }
      y.push_back(acc);
    }
  }
  return y;
}

// Table and fp8 codes: every path and target gives the formulas' bits.
void check_formulas(const Matrix& m, const std::vector<float>& x) {
  const std::vector<float> precise = f32_product(x, kMaxRows, m);
  const std::vector<float> usual = m.kind == WeightKind::fp8 ? precise : int8_product(x, kMaxRows, m);
  for (const std::string& target : all_targets()) {
    const Weight w = Weight::make(cpu_device(0, false, target), m.source());
    ASSERT_NO_FATAL_FAILURE(expect_prefixes(x, w, usual));
    const Weight p = Weight::make(cpu_device(0, true, target), m.source());
    ASSERT_NO_FATAL_FAILURE(expect_prefixes(x, p, precise)) << "precise";
  }
}

// And these are right.
void check_coded(const Matrix& m, const std::vector<float>& x) {
  ASSERT_NO_FATAL_FAILURE(check_formulas(m, x));
  const Product want = exact_product(x, kMaxRows, m);
  ASSERT_TRUE(within(f32_product(x, kMaxRows, m), want.y, want.tolerance)) << "formula";
  const Weight w = Weight::make(reference_device(), m.source());
  ASSERT_TRUE(within(product(x, kMaxRows, w), want.y, want.tolerance)) << "reference";
}

constexpr ScaleType kScaleTypes[] = {ScaleType::f32, ScaleType::f16, ScaleType::bf16, ScaleType::e8m0,
                                     ScaleType::e4m3};

TEST(CodedLinear, TableCodes) {
  uint64_t seed = 300;
  for (const int cols : kInputs) {
    const std::vector<float> x = inputs(kMaxRows, cols, seed++);
    for (const int group : {16, 32}) {
      if (cols % group != 0) continue;
      for (const CodeTable& table : {kIq4Table, kIq3Table, kFp4Table}) {
        for (const ScaleType type : kScaleTypes) {
          const int rows = kOutputs[seed % std::size(kOutputs)];
          SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", group " << group << ", scale type "
                                            << static_cast<int>(type) << ", last value " << int{table[15]});
          ASSERT_NO_FATAL_FAILURE(
              check_coded(coded_matrix(rows, cols, WeightKind::table, group, type, seed++, table), x));
        }
      }
    }
  }
}

TEST(CodedLinear, TableCodesWithBlockScales) {
  uint64_t seed = 400;
  for (const int cols : {256, 1280}) {
    const std::vector<float> x = inputs(kMaxRows, cols, seed++);
    for (const int group : {16, 32})
      for (const CodeTable& table : {kIq4Table, kIq3Table, kFp4Table})
        for (const float factor : {1.0f, 0.25f, 0.3f})
          ASSERT_NO_FATAL_FAILURE(check_coded(block_table_matrix(17, cols, group, factor, seed++, table), x))
              << cols << " inputs, group " << group << ", factor " << factor;
  }
}

TEST(CodedLinear, Fp8Codes) {
  uint64_t seed = 500;
  for (const int cols : {32, 128, 384, 1152}) {
    const std::vector<float> x = inputs(kMaxRows, cols, seed++);
    for (const int group : {32, 64, 128}) {
      if (cols % group != 0) continue;
      for (const ScaleType type : kScaleTypes) {
        const int rows = kOutputs[seed % std::size(kOutputs)];
        SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", group " << group << ", scale type "
                                          << static_cast<int>(type));
        ASSERT_NO_FATAL_FAILURE(
            check_coded(coded_matrix(rows, cols, WeightKind::fp8, group, type, seed++), x));
      }
    }
  }
}

// Every code and scale of one byte, alone: a matrix of one group a row.
TEST(CodedLinear, EveryByte) {
  std::vector<float> x(static_cast<size_t>(kMaxRows * 32));
  for (int r = 0; r < kMaxRows; r++) x[static_cast<size_t>(r * 32 + r % 32)] = 0.7f;
  for (const float factor : {1.0f, 0.5f, 0.0123f}) {
    Matrix codes = coded_matrix(256, 32, WeightKind::fp8, 32, ScaleType::f32, 1),
           powers = coded_matrix(255, 32, WeightKind::table, 32, ScaleType::e8m0, 2, kFp4Table),
           scales = coded_matrix(256, 32, WeightKind::table, 32, ScaleType::e4m3, 3, kFp4Table);
    for (int i = 0; i < 256; i++)
      std::fill_n(codes.codes.begin() + i * 32, 32, static_cast<uint8_t>((i & 0x7F) == 0x7F ? 0 : i));
    powers.scale_factor = scales.scale_factor = factor;
    for (int i = 0; i < 255; i++)
      powers.scales[static_cast<size_t>(i)] = e8m0_to_float(static_cast<uint8_t>(i)) * factor;
    for (int i = 0; i < 256; i++)
      scales.scales[static_cast<size_t>(i)] =
          (i & 0x7F) == 0x7F ? 0.0f : e4m3_to_float(static_cast<uint8_t>(i)) * factor;
    for (const Matrix* m : {&codes, &powers, &scales}) {
      const std::vector<float> want = f32_product(x, kMaxRows, *m);
      for (const std::string& target : all_targets())
        ASSERT_NO_FATAL_FAILURE(
            expect_prefixes(x, Weight::make(cpu_device(0, true, target), m->source()), want))
            << "factor " << factor;
    }
  }
}

// Values and activations at their limits, in each class of tables: the int16 sums must not saturate.
TEST(CodedLinear, ExtremesOfTables) {
  for (const int value : {-128, 127, -65, 64, -64, 63, -17, 16, -16, 15, 0}) {
    CodeTable table{};
    table.fill(static_cast<int8_t>(value));
    for (const int group : {16, 32}) {
      for (const float sign : {-1.0f, 1.0f}) {
        const Matrix m = coded_matrix(17, 128, WeightKind::table, group, ScaleType::f32, 5, table);
        const std::vector<float> x(static_cast<size_t>(kMaxRows * 128), sign);
        ASSERT_NO_FATAL_FAILURE(check_coded(m, x)) << value;
      }
    }
  }
}

// Scales that their type and the factor do not give are kept in fp32: products at the end of its range, NaN.
TEST(CodedLinear, ScalesThatNeedFp32) {
  const std::vector<float> x = inputs(kMaxRows, 64, 3);
  for (const WeightKind kind : {WeightKind::table, WeightKind::fp8}) {
    for (const float factor : {1e-41f, 0.0f}) {
      Matrix m = coded_matrix(20, 64, kind, 32, ScaleType::e4m3, 4);
      for (float& scale : m.scales) scale = scale / m.scale_factor * factor;
      m.scale_factor = factor;
      ASSERT_NO_FATAL_FAILURE(check_formulas(m, x)) << factor;
    }
    Matrix m = coded_matrix(20, 64, kind, 32, ScaleType::e8m0, 4);
    m.scales[11] = std::numeric_limits<float>::quiet_NaN();  // row 5
    for (const std::string& target : all_targets()) {
      const std::vector<float> y = product(x, 3, Weight::make(cpu_device(0, false, target), m.source()));
      for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i]), i % 20 == 5) << target << ' ' << i;
    }
  }
}

// An output whose codes hold a NaN is NaN, no other; embed() gives it where it stands.
TEST(CodedLinear, Fp8CodesThatAreNaN) {
  Matrix m = coded_matrix(40, 128, WeightKind::fp8, 64, ScaleType::bf16, 6);
  m.codes[7 * 128 + 90] = 0xFF;
  m.codes[33 * 128 + 2] = 0x7F;
  const std::vector<float> x = inputs(kMaxRows, 128, 7);
  const std::vector<int> ids = {7, 33, 6};
  for (const std::string& target : all_targets()) {
    const Weight w = Weight::make(cpu_device(0, false, target), m.source());
    for (const int rows : {1, kMaxRows}) {
      const std::vector<float> y = product(x, rows, w);
      for (size_t i = 0; i < y.size(); i++)
        ASSERT_EQ(std::isnan(y[i]), i % 40 == 7 || i % 40 == 33) << target << ' ' << i;
    }
    const std::vector<float> values = to_vector(embed(ids, w));
    for (size_t i = 0; i < values.size(); i++)
      ASSERT_EQ(std::isnan(values[i]), i == 90 || i == 128 + 2) << target << ' ' << i;
  }
}

// Rows of zeros behind a matrix (of each expert) leave it the scales that it has.
TEST(CodedLinear, PaddedMatricesStaySmall) {
  for (const Matrix& m : {coded_matrix(8, 64, WeightKind::table, 32, ScaleType::e8m0, 1, kFp4Table),
                          coded_matrix(8, 64, WeightKind::fp8, 32, ScaleType::e8m0, 1)}) {
    const WeightSource padded = pad_blocks(m.source(), 4, 8);
    const Weight w = Weight::make(cpu_device(), padded);
    EXPECT_EQ(w.bytes(), static_cast<uint64_t>(16 * (64 * m.bits / 8 + 2)));
    const std::vector<float> y = product(inputs(1, 64, 2), 1, w);
    for (size_t i = 0; i < 16; i++) EXPECT_EQ(y[i] == 0, i % 8 >= 4) << i;
  }
}

// In memory codes take the bits that they have in a file, scales those of their type.
TEST(CodedLinear, CodesStaySmall) {
  const struct {
    Matrix matrix;
    uint64_t bytes;
  } cases[] = {
      {coded_matrix(64, 512, WeightKind::table, 32, ScaleType::f16, 1), 64 * (256 + 16 * 2)},
      {coded_matrix(64, 512, WeightKind::table, 32, ScaleType::e8m0, 1, kFp4Table), 64 * (256 + 16)},
      {coded_matrix(64, 512, WeightKind::table, 16, ScaleType::e4m3, 1, kFp4Table), 64 * (256 + 32)},
      {block_table_matrix(64, 512, 32, 1, 1), 64 * (256 + 16 + 2 * 2)},
      {coded_matrix(64, 512, WeightKind::fp8, 128, ScaleType::bf16, 1), 64 * (512 + 4 * 2)},
      {coded_matrix(64, 512, WeightKind::fp8, 32, ScaleType::e8m0, 1), 64 * (512 + 16)},
  };
  for (const auto& c : cases)
    EXPECT_EQ(Weight::make(cpu_device(), c.matrix.source()).bytes(), c.bytes) << c.bytes;
}

}  // namespace
}  // namespace anabranch::ops
