#include "base/cpu_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace anabranch {
namespace {

TEST(CpuInfo, IsPlausible) {
  const CpuInfo& info = cpu_info();
  EXPECT_FALSE(info.model.empty());
  EXPECT_GE(info.logical_cores, 1);
  EXPECT_LE(static_cast<unsigned>(info.logical_cores), std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_GT(info.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(&info, &cpu_info());
}

TEST(CpuInfo, WiderSetsImplyNarrowerOnes) {
  const CpuInfo& info = cpu_info();
  EXPECT_TRUE(info.avx512 || !info.avx512_vnni);
  EXPECT_TRUE(info.avx2 || !info.avx512);
  EXPECT_FALSE(info.neon && info.avx2);
}

#if defined(__linux__) && defined(__x86_64__)
// The kernel's own list is an independent witness.
TEST(CpuInfo, AgreesWithProcCpuinfo) {
  std::string flags;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("flags", 0) == 0) {
      flags = line + " ";
      break;
    }
  ASSERT_FALSE(flags.empty());
  const auto has = [&](const char* flag) {
    return flags.find(" " + std::string(flag) + " ") != std::string::npos;
  };
  EXPECT_EQ(cpu_info().avx2, has("avx2") && has("fma"));
  EXPECT_EQ(cpu_info().avx512, has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq"));
  EXPECT_EQ(cpu_info().avx512_vnni, cpu_info().avx512 && has("avx512_vnni"));
}
#endif

}  // namespace
}  // namespace anabranch
