// What of the CUDA backend can be tested without a device: the packing of weights, what is told where there
// is no device, and, where NVRTC is installed, that every kernel compiles.
#include <cmath>
#include <cstring>
#include <set>

#include "base/float16.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/shapes.h"
#include "ops/cuda/weight.h"
#include "ops/cuda_cases.h"
#include "ops/open.h"
#include "ops/table.h"
#include "temp_dir.h"
#include "variable.h"

namespace anabranch::ops {
namespace {

// Reads a packed matrix as kernels/embed.cu does.
double unpacked(const cuda::PackedRecords& p, const Matrix& m, int row, int k) {
  const auto [kind, planes, groups] = p.format;
  const bool dense = cuda::is_plain(p.format), integers = kind == cuda::kIntegers;
  const int record_bytes = cuda::record_bytes(p.format),
            code_bytes = dense ? record_bytes : record_bytes - groups * (integers ? 64 : 32);
  const uint8_t* record =
      p.memory.get() + (static_cast<size_t>(row / 16) * p.input_tiles + k / 64) * record_bytes;
  const int at = k % 64, j = at / 16, c = at % 16 / 8, lane = row % 8 * 4 + at % 8 / 2, odd = at % 2,
            high = row % 16 / 8;
  if (dense) {
    double sum = 0;
    for (int plane = 0; plane < planes; plane++) {
      uint16_t half;
      std::memcpy(&half, record + plane * 2048 + j * 512 + lane * 16 + ((c * 2 + high) * 2 + odd) * 2, 2);
      sum += bf16_to_float(half);
    }
    return sum;
  }
  const int place = (at * groups / 64 * 8 + row % 8) * 2 + high;
  if (!integers) {
    uint16_t scale;
    std::memcpy(&scale, record + code_bytes + place * 2, 2);
    const int word = j * 2 + high;
    uint32_t nibbles;
    std::memcpy(&nibbles, record + lane * 16 + (high * 2 + j / 2) * 4, 4);
    const int shift = j % 2 * 16 + c * 8 + odd * 4, sign = c * 16 + odd * 8 + (j % 2 == 0 ? 7 : 3);
    const auto code =
        kind > cuda::kFirstTable ? (nibbles >> shift & 7) + (nibbles >> sign & 1) * 8 : nibbles >> shift & 15;
    const double value = kind == cuda::kE4m3
                             ? e4m3_to_float(record[word / 4 * 512 + lane * 16 + word % 4 * 4 + c * 2 + odd])
                             : cuda::kCodeTables[kind - cuda::kFirstTable][code];
    EXPECT_EQ(value, m.code_value(row, k));
    return std::ldexp(bf16_to_float(scale) * value,
                      -(kind == cuda::kE4m3 ? cuda::kE4m3ScaleExponent : cuda::kScaleExponent));
  }
  int code = 0;
  for (int plane = 0; plane < planes; plane++) {
    uint32_t word;
    std::memcpy(&word, record + plane * 512 + lane * 16 + (high * 2 + j / 2) * 4, 4);
    code += static_cast<int>(word >> ((j % 2 * 2 + c) * 4 + odd * 16) & 15) << (4 * plane);
  }
  EXPECT_EQ(code, m.codes[static_cast<size_t>(row * m.cols + k)]);
  uint16_t both[2];
  std::memcpy(both, record + code_bytes + place * 4, 4);
  return std::ldexp(static_cast<double>(bf16_to_float(both[0])), -cuda::kScaleExponent) * code +
         std::ldexp(static_cast<double>(bf16_to_float(both[1])), cuda::kSumExponent);
}

TEST(CudaWithoutDevice, PackedMatrices) {
  for (const auto& [matrix, name] : formats(37, 192)) {
    const auto packed = cuda::pack(matrix.source(), shared_threads());
    for (int row = 0; row < 37; row++)
      for (int k = 0; k < 192; k++)
        ASSERT_NEAR(unpacked(packed, matrix, row, k), matrix.value(row, k),
                    packing_error(matrix) * matrix.magnitude(row, k))
            << name << " row " << row << " input " << k;
  }
}

TEST(CudaWithoutDevice, WeightsAsTheyAreMultiplied) {
  for (const auto& [matrix, name] : formats(37, 192))
    for (int row = 0; row < 37; row++)
      for (int k = 0; k < 192; k++)
        ASSERT_NEAR(multiplied_weight(matrix, row, k), matrix.value(row, k),
                    weight_error(matrix) * matrix.magnitude(row, k))
            << name << " row " << row << " input " << k;
}

TEST(CudaWithoutDevice, OpensADevice) {
  EXPECT_EQ(open_device({.name = "cuda", .reference = true}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(open_device({.name = "cuda", .precise = true}).error().kind, ErrorKind::invalid);
  const auto device = open_device({.name = "cuda"});
  ASSERT_EQ(device.ok(), cuda_unsupported().empty());
  if (!device) {
    EXPECT_EQ(device.error().kind, ErrorKind::unsupported);
    return;
  }
  EXPECT_EQ((*device)->kind(), DeviceKind::cuda);
  EXPECT_EQ((*device)->kv_dtype(), Dtype::f16);
}

TEST(CudaWithoutDevice, ADeviceIsLostByErrorsThatLast) {
  cuda::DriverErrors errors, others;
  errors.check(0, "nothing");
  for (const int passing : {1, 2, 701}) EXPECT_THROW(errors.check(passing, "a call"), std::runtime_error);
  EXPECT_FALSE(errors.lost());
  EXPECT_THROW(errors.check(700, "a kernel"), std::runtime_error);  // CUDA_ERROR_ILLEGAL_ADDRESS
  EXPECT_TRUE(errors.lost());
  EXPECT_THROW(errors.check(2, "a call"), std::runtime_error);
  EXPECT_TRUE(errors.lost());
  EXPECT_FALSE(others.lost());
}

TEST(CudaWithoutDevice, ShapesWithoutKernels) {
  for (const int dim : {32, 64, 96, 128, 256, 288, 320, 512, 576})
    EXPECT_EQ(cuda::attention_unsupported(dim, {}), "") << dim;
  for (const int dim : {0, 16, 80, 280, 608}) EXPECT_NE(cuda::attention_unsupported(dim, {}), "") << dim;
  Rope dynamic{{1.0f, 0.5f}};
  dynamic.far_from = 100;
  EXPECT_NE(cuda::attention_unsupported(64, dynamic), "");
  for (const auto& shape : kDeltaShapes) EXPECT_EQ(cuda::recurrence_unsupported(shape), "");
  for (const auto& shape : kDeltaShapes) EXPECT_TRUE(cuda::is_tuned_gated_delta(shape));
  EXPECT_TRUE(cuda::is_tuned_gated_delta({1, 1, 16, 256, 2}));
  // These have the kernels for all rules.
  for (const auto& [keys, values, taps] :
       {std::tuple{24, 32, 4}, {144, 32, 4}, {256, 32, 4}, {64, 48, 4}, {64, 64, 1}}) {
    EXPECT_EQ(cuda::recurrence_unsupported({1, 1, keys, values, taps}), "");
    EXPECT_FALSE(cuda::is_tuned_gated_delta({1, 1, keys, values, taps}));
  }
  for (const auto& [keys, values] : {std::pair{0, 32}, {257, 32}, {64, 0}})
    EXPECT_NE(cuda::recurrence_unsupported({1, 1, keys, values, 4}), "") << keys << " " << values;
  EXPECT_EQ(cpu_device().ops().attention_unsupported(80, {}), "");  // the CPU takes any
  EXPECT_EQ(cpu_device().ops().recurrence_unsupported({1, 1, 24, 24, 1}), "");
}

// The variants that have a value or a format (the first three values) that none before them has; of products
// on Hopper those with such a pair of values: the emulator of tests/cuda compiles no others of theirs.
std::vector<cuda::Variant> each_value_once(const std::vector<cuda::Variant>& variants) {
  std::vector<cuda::Variant> kept;
  std::set<std::vector<int>> seen;
  for (const auto& variant : variants) {
    const auto& v = variant.values;
    const int source = static_cast<int>(variant.source);
    const bool pairs = variant.source == cuda::Source::gemm;
    bool is_new = seen.insert({source, v[0], v[1], v[2]}).second;
    for (int i = 0; i < static_cast<int>(v.size()); i++)
      for (int j = pairs ? 0 : i; j <= i; j++)
        is_new |= seen.insert({source, i, v[static_cast<size_t>(i)], j, v[static_cast<size_t>(j)]}).second;
    if (is_new) kept.push_back(variant);
  }
  return kept;
}

// script/nightly compiles all of them.
bool every_kernel() {
  return std::getenv("ANABRANCH_EVERY_KERNEL") != nullptr;
}

void expect_compiles(const std::vector<cuda::Variant>& variants, const char* architecture) {
  for (const auto& variant : every_kernel() ? variants : each_value_once(variants)) {
    const auto code = cuda::machine_code(variant, architecture);
    EXPECT_TRUE(code.ok()) << code.error().message;
  }
}

TEST(CudaWithoutDevice, TellsWhichCompilerPipInstallsForTheDriver) {
  EXPECT_NE(cuda::no_compiler(12).find("`pip install nvidia-cuda-nvrtc-cu12` in the environment"),
            std::string::npos);
  EXPECT_NE(cuda::no_compiler(13).find("`pip install nvidia-cuda-nvrtc` in the environment"),
            std::string::npos);
  for (const std::string& old : {cuda::no_compiler(11), cuda::compiler_unsupported(90, 11)})
    EXPECT_EQ(old, "the NVIDIA driver is for CUDA 11: update it, to 12 or later");
}

TEST(CudaWithoutDevice, EveryKernelCompiles) {
  // What is compiled is kept for the next run only where somebody says so.
  const anabranch::testing::TempDir folder;
  const char* kept = std::getenv("XDG_CACHE_HOME");
  const anabranch::testing::Variable cache("XDG_CACHE_HOME", kept ? kept : folder.path().c_str());
  if (const auto reason = cuda::compiler_unsupported(90, 1000); !reason.empty()) GTEST_SKIP() << reason;
  if (const std::string too_new = cuda::compiler_unsupported(90, 12); !too_new.empty()) {  // NVRTC 13 is here
    EXPECT_NE(too_new.find("driver is for CUDA 12"), std::string::npos);
    EXPECT_NE(too_new.find("nvidia-cuda-nvrtc-cu12`"), std::string::npos);
  }
  EXPECT_NE(cuda::compiler_unsupported(30, 1000).find("compute capability 3.0"), std::string::npos);
  using cuda::Source;
  using Format = cuda::RecordFormat;
  std::vector<cuda::Variant> everywhere = {Source::rows,
                                           Source::routing,
                                           Source::choose,
                                           Source::exchange,
                                           Source::low_rank,
                                           Source::recurrence_tokens,
                                           cuda::RecurrenceVariant{128, 0, 0},
                                           cuda::RecurrenceVariant{128, 1, 1},
                                           cuda::RecurrenceVariant{256, 1, 0},
                                           cuda::DeltaVariant{128, 128, 4, 32, 2, 8, 384},
                                           cuda::DeltaVariant{64, 64, 4, 64, 4, 8, 0},
                                           cuda::DeltaVariant{128, 32, 4, 32, 4, 8, 0}};
  for (const auto& f : {Format{0, 1, 1}, {0, 2, 4}, {1, 1, 1}, {1, 2, 1}})
    for (const auto& [rows, swiglu, tiles] :
         {std::tuple{1, 1, 2}, {4, 1, f.kind ? 2 : 4}, {4, 0, f.kind ? 2 : 4}})
      everywhere.push_back(cuda::ExpertsVariant{f, rows, swiglu, tiles});
  for (const int row_tiles : {1, 2, 4})
    for (const auto& f : {Format{1, 2, 1}, {1, 1, 1}})
      everywhere.push_back(cuda::LowRankDownVariant{f, row_tiles});
  // Kernels without lines of their own for Hopper compile for it if they do for an older processor.
  std::vector<cuda::Variant> variants;
  for (const auto& variant : everywhere)
    if (every_kernel() || variant.source == Source::low_rank_down) variants.push_back(variant);
  for (const int dim : {64, 256, 512}) variants.push_back(cuda::AttentionVariant{dim, 6});
  for (const auto& [dim, values] : {std::pair{576, 512}, {288, 256}})
    variants.push_back(cuda::AttentionVariant{dim, 6, values});
  for (const int dim : {64, 128, 256}) variants.push_back(cuda::AttentionManyVariant{dim, 2});
  for (const auto& f : {Format{0, 1, 1}, {0, 2, 4}, {1, 1, 1}, {1, 2, 1}}) {
    variants.push_back(cuda::EmbedVariant{f});
    for (const int swiglu : {0, 1}) {
      for (const auto& [rows, tiles, steps, stages, normed] :
           {std::tuple{1, f.kind ? 1 : 3, 2, 2, 0}, {1, f.kind ? 1 : 3, 2, 3, 12}, {2, 1, 2, 3, 0}})
        variants.push_back(cuda::GemvVariant{f, rows, swiglu, tiles, steps, stages, normed});
      variants.emplace_back(cuda::GemvVariant{f, 1 + swiglu, swiglu, 1, 2, 2}, true);
      for (const int ranks : {2, 4, 8})
        for (const auto& [rows, normed] : {std::tuple{1, 0}, {2, 0}, {1, 8}})
          if (!swiglu) variants.push_back(cuda::GemvVariant{f, rows, 0, 1, 2, 2, normed, ranks});
      for (const auto& [rows, tokens, split] : {std::tuple{128, 128, 1}, {192, 64, 1}, {256, 32, 8}})
        variants.push_back(cuda::GemmVariant{f, swiglu, rows, tokens, split});
    }
  }
  // Codes that are no integers.
  for (const auto& f :
       {Format{cuda::kE4m3, 1, 1}, {cuda::kFirstTable, 1, 2}, {cuda::kFirstTable + 1, 1, 4}}) {
    variants.push_back(cuda::EmbedVariant{f});
    variants.push_back(cuda::GemvVariant{f, 1, 1, 2, 2, 3, 12});
    variants.push_back(cuda::GemmVariant{f, 0, 128, 128, 1});
    variants.push_back(cuda::GemmVariant{f, 1, 192, 64, 1});
    variants.push_back(cuda::ExpertsVariant{f, 4, 1, 4});
  }
  expect_compiles(variants, "sm_90a");

  // Products that ops/cuda/linear.cc chooses for 163 KB of shared memory (8.0) and for 99 (8.6, 8.9).
  std::vector<cuda::Variant> older = everywhere;
  for (const int dim : {64, 256, 512}) older.push_back(cuda::AttentionVariant{dim, 3});
  for (const auto& variant : {cuda::AttentionVariant{576, 3, 512}, {288, 3, 256}, {544, 6, 512}})
    older.push_back(variant);
  for (const auto& [f, rows, swiglu, tiles, steps, stages] :
       std::initializer_list<std::tuple<Format, int, int, int, int, int>>{
           {{0, 1, 1}, 1, 1, 2, 2, 2},  // 4 bits
           {{0, 1, 1}, 4, 0, 3, 1, 2},
           {{0, 1, 2}, 1, 0, 1, 4, 2},
           {{0, 1, 2}, 2, 1, 2, 1, 2},
           {{0, 1, 4}, 4, 0, 2, 1, 2},
           {{0, 1, 4}, 1, 1, 1, 1, 3},
           {{0, 2, 1}, 1, 0, 3, 1, 2},  // more bits
           {{0, 2, 1}, 4, 1, 2, 1, 2},
           {{0, 2, 2}, 2, 0, 2, 1, 2},
           {{0, 2, 4}, 1, 1, 1, 2, 2},
           {{1, 1, 1}, 4, 0, 1, 1, 2},  // bf16
           {{1, 1, 1}, 1, 1, 1, 1, 1},
           {{1, 2, 1}, 1, 0, 1, 1, 2},  // f16 and f32
           {{1, 2, 1}, 1, 1, 1, 1, 1}})
    older.push_back(cuda::GemvVariant{f, rows, swiglu, tiles, steps, stages});
  older.push_back(cuda::GemvVariant{{0, 1, 1}, 1, 1, 2, 2, 2, 8});  // that normalise their rows
  older.push_back(cuda::GemvVariant{{1, 2, 1}, 1, 0, 1, 1, 1, 16});
  older.push_back(cuda::GemvVariant{{0, 1, 1}, 1, 0, 1, 2, 2, 0, 2});
  older.emplace_back(cuda::GemvVariant{{0, 1, 1}, 1, 0, 1, 2, 2}, true);  // that add adapters' parts
  for (const auto& f : {Format{0, 1, 1}, {0, 2, 4}, {1, 2, 1}}) older.push_back(cuda::EmbedVariant{f});
  expect_compiles(older, "sm_80");
}

}  // namespace
}  // namespace anabranch::ops
