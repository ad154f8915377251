// The emulator finds what it is there to find.
#include "cuda/emulator.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"

namespace anabranch {
namespace {

struct Numbers {
  float *a, *b, *d;
};
constexpr const char* kHead = "struct Numbers { float *a, *b, *d; };\n";

std::string run(const std::string& body, const Numbers& numbers, unsigned grid = 1, unsigned threads = 32) {
  const auto source = fmt::format("{}KERNEL test(const __grid_constant__ Numbers n) {{{}}}", kHead, body);
  return emulator::run({"test", source, 80, {grid, 1, 1}, threads, 0, &numbers});
}

class Emulator : public ::testing::Test {
  void SetUp() override {
    if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
  }
};

TEST_F(Emulator, RunsThreadsAndBlocks) {
  std::vector<float> d(3 * 96);
  EXPECT_EQ(run("__shared__ float turn[96];\n"
                "turn[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x; __syncthreads();\n"
                "if (threadIdx.x >= 64) return;  __syncthreads();\n"
                "n.d[blockIdx.x * blockDim.x + threadIdx.x] = turn[95 - threadIdx.x];",
                {nullptr, nullptr, d.data()}, 3, 96),
            "");
  for (int i = 0; i < 3 * 96; i++)
    EXPECT_EQ(d[static_cast<size_t>(i)], i % 96 < 64 ? i / 96 * 1000 + 95 - i % 96 : 0) << i;
}

TEST_F(Emulator, FindsWhatIsWrong) {
  std::vector<float> d(64);
  const Numbers numbers{nullptr, nullptr, d.data()};
  EXPECT_EQ(run("if (threadIdx.x < 31) __ballot_sync(~0u, true);", numbers),
            "test: threads wait for others that never come");
  EXPECT_EQ(run("if (threadIdx.x < 9) __ballot_sync(~0u, true); else __shfl_sync(~0u, 1, 0);", numbers),
            "test: lanes of a warp call __ballot_sync and __shfl_sync at the same time");
  EXPECT_EQ(run("__shfl_sync(0xFFFFu, 1, 0);", numbers), "test: a mask without some lanes");
  EXPECT_EQ(run("if (threadIdx.x == 40) barrier_sync(1, 64);", numbers, 1, 64),
            "test: threads wait for others that never come");
  EXPECT_NE(run("nonsense", numbers).find("nonsense"), std::string::npos);
  // Memory that nothing was written to.
  EXPECT_EQ(run("__shared__ float never[64]; float local[4]; n.d[threadIdx.x] = never[threadIdx.x];\n"
                "n.d[32 + threadIdx.x] = local[threadIdx.x % 4];",
                numbers),
            "");
  for (size_t i = 0; i < 32; i++) EXPECT_TRUE(std::isnan(d[i])) << i;
  for (size_t i = 32; i < 64; i++) EXPECT_GT(std::fabs(d[i]), 1e30f) << i;
}

// Fragments as the PTX ISA lays them out for mma.m16n8k16.
TEST_F(Emulator, TensorCores) {
  std::vector<float> a(16 * 16), b(16 * 8), d(16 * 8);
  for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 8;
  for (size_t i = 0; i < b.size(); i++) b[i] = static_cast<float>(static_cast<int>(i * 53 % 97) - 48) / 4;
  const std::string body =
      "const int group = threadIdx.x / 4, in_group = threadIdx.x % 4;\n"
      "u32 a[4] = {}, b[2] = {};\n"
      "for (int i = 0; i < 8; i++) {\n"
      "  const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8, col = in_group * 2 + (i & 1) + (i < "
      "4 ? 0 : 8);\n"
      "  a[i / 2] |= (PACK(n.a[row * 16 + col], 0.0f) & 0xFFFF) << i % 2 * 16;\n"
      "}\n"
      "for (int i = 0; i < 4; i++)\n"
      "  b[i / 2] |= (PACK(n.b[(in_group * 2 + (i & 1) + (i < 2 ? 0 : 8)) * 8 + group], 0.0f) & 0xFFFF) << i "
      "% 2 * 16;\n"
      "float d[4] = {1, 1, 1, 1};\n"
      "MMA(d, a, b[0], b[1]);\n"
      "for (int i = 0; i < 4; i++) n.d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = d[i];";
  for (const char* type : {"bf16", "f16"}) {
    const std::string names = std::string("\n#define PACK pack_") + type + "\n#define MMA mma_" + type + "\n";
    EXPECT_EQ(run(names + body, {a.data(), b.data(), d.data()}), "");
    for (size_t row = 0; row < 16; row++)
      for (size_t col = 0; col < 8; col++) {
        float sum = 1;  // exact
        for (size_t k = 0; k < 16; k++) sum += a[row * 16 + k] * b[k * 8 + col];
        EXPECT_EQ(d[row * 8 + col], sum) << type << " " << row << ", " << col;
      }
  }
}

}  // namespace
}  // namespace anabranch
