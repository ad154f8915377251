#include "base/cpu_info.h"

#include <gtest/gtest.h>

#include <stdlib.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace anabranch {
namespace {

// A machine made of the files that Linux would show.
class FakeMachine {
 public:
  FakeMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "cpu-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void put_cpu(int cpu, const std::string& path, const std::string& text) const {
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + path, text);
  }
  void put_cache(int cpu, int index, int level, const char* type, const char* size,
                 const char* shared) const {
    const std::string cache = "cache/index" + std::to_string(index) + "/";
    put_cpu(cpu, cache + "level", std::to_string(level));
    put_cpu(cpu, cache + "type", type);
    put_cpu(cpu, cache + "size", size);
    put_cpu(cpu, cache + "shared_cpu_list", shared);
  }

  CpuInfo read(const std::vector<int>& allowed) const { return read_linux_cores(root_.string(), allowed); }

 private:
  std::filesystem::path root_;
};

std::string cores(const CpuInfo& info) {
  return std::to_string(info.performance_cores) + "+" + std::to_string(info.efficiency_cores) + " of " +
         std::to_string(info.logical_cores) + ": " + std::to_string(choose_threads(info).threads);
}

// Two performance cores of two hardware threads each, and a cluster of four efficiency cores.
TEST(CpuCores, IntelHybrid) {
  FakeMachine machine;
  machine.put("sys/devices/system/cpu/online", "0-7");
  machine.put("sys/devices/cpu_core/cpus", "0-3");
  machine.put("sys/devices/cpu_atom/cpus", "4-7");
  for (int cpu = 0; cpu < 4; cpu++)
    machine.put_cpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2-3");
  for (int cpu = 4; cpu < 8; cpu++)
    machine.put_cpu(cpu, "topology/thread_siblings_list", std::to_string(cpu));
  machine.put_cache(0, 0, 1, "Data", "48K", "0-1");
  machine.put_cache(0, 1, 1, "Instruction", "32K", "0-1");
  machine.put_cache(0, 2, 2, "Unified", "1280K", "0-1");
  machine.put_cache(0, 3, 3, "Unified", "12288K", "0-7");
  machine.put_cache(4, 0, 1, "Data", "32K", "4");
  machine.put_cache(4, 2, 2, "Unified", "2M", "4-7");

  const CpuInfo all = machine.read({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(cores(all), "2+4 of 8: 2");
  EXPECT_EQ(choose_threads(all).why, "one per performance core");
  EXPECT_EQ(all.l1d_bytes, 48u << 10);
  EXPECT_EQ(all.l2_bytes, 1280u << 10);
  EXPECT_EQ(all.l3_bytes, 12u << 20);

  EXPECT_EQ(all.fast_cpus, (std::vector<int>{0, 1, 2, 3}));

  const CpuInfo small = machine.read({4, 5, 6});  // pinned to efficiency cores
  EXPECT_EQ(cores(small), "0+3 of 3: 3");
  EXPECT_EQ(small.l1d_bytes, 32u << 10);
  EXPECT_EQ(small.l2_bytes, 512u << 10);  // a quarter
}

TEST(CpuCores, HardwareThreads) {
  FakeMachine machine;
  machine.put("sys/devices/system/cpu/online", "0-7");
  for (int cpu = 0; cpu < 8; cpu++) {
    machine.put_cpu(cpu, "topology/thread_siblings_list",
                    std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  }
  EXPECT_EQ(cores(machine.read({0, 1, 2, 3, 4, 5, 6, 7})), "4+0 of 8: 4");
  EXPECT_EQ(choose_threads(machine.read({0, 4})).why, "one per core, not per hardware thread");
  EXPECT_EQ(cores(machine.read({0, 4, 6})), "2+0 of 3: 2");
  EXPECT_EQ(cores(machine.read({1, 2, 3})), "3+0 of 3: 3");
}

// One prime, two middle and three little cores.
TEST(CpuCores, ArmCapacities) {
  FakeMachine machine;
  machine.put("sys/devices/system/cpu/online", "0-5");
  const char* capacities[] = {"325", "325", "325", "780", "780", "1024"};
  for (int cpu = 0; cpu < 6; cpu++) {
    machine.put_cpu(cpu, "cpu_capacity", capacities[cpu]);
    machine.put_cpu(cpu, "topology/thread_siblings_list", std::to_string(cpu));
  }
  EXPECT_EQ(cores(machine.read({0, 1, 2, 3, 4, 5})), "3+3 of 6: 3");
  EXPECT_EQ(cores(machine.read({0, 1})), "0+2 of 2: 2");
  EXPECT_EQ(cores(machine.read({0, 3})), "1+1 of 2: 1");
}

// Two cores of 5.1 GHz, one that boosts a little higher, and two compact ones, of two hardware threads each.
TEST(CpuCores, AmdCompactCores) {
  FakeMachine machine;
  machine.put("sys/devices/system/cpu/online", "0-9");
  const char* kilohertz[] = {"5100000", "5300000", "5100000", "3300000", "3300000"};
  for (int cpu = 0; cpu < 10; cpu++) {
    machine.put_cpu(cpu, "cpufreq/cpuinfo_max_freq", kilohertz[cpu % 5]);
    machine.put_cpu(cpu, "topology/thread_siblings_list",
                    std::to_string(cpu % 5) + "," + std::to_string(cpu % 5 + 5));
  }
  const CpuInfo all = machine.read({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(cores(all), "3+2 of 10: 3");
  EXPECT_EQ(all.fast_cpus, (std::vector<int>{0, 1, 2, 5, 6, 7}));
  EXPECT_EQ(cores(machine.read({3, 4})), "0+2 of 2: 2");
  EXPECT_EQ(cores(machine.read({2, 3})), "1+1 of 2: 1");
  EXPECT_TRUE(machine.read({0, 1, 2}).fast_cpus.empty());  // all that may be used are alike
  machine.put("proc/self/cgroup", "0::/");
  machine.put("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(cores(machine.read({0, 1, 2, 3, 4})), "3+2 of 5: 2");

  for (int cpu = 0; cpu < 10; cpu++)
    machine.put_cpu(cpu, "cpu_capacity", "1024");  // says more than frequencies; the limit stays
  EXPECT_EQ(cores(machine.read({0, 1, 2, 3, 4})), "5+0 of 5: 2");
}

TEST(CpuCores, MachineThatSaysNothing) {
  const CpuInfo info = FakeMachine().read({0, 1, 5});
  EXPECT_EQ(cores(info), "3+0 of 3: 3");
  EXPECT_EQ(choose_threads(info).why, "one per core");
  EXPECT_EQ(info.quota, 0);
  EXPECT_EQ(info.l1d_bytes + info.l2_bytes + info.l3_bytes, 0u);
}

TEST(CpuCores, QuotaOfAContainer) {
  FakeMachine machine;
  machine.put("proc/self/cgroup", "0::/");
  machine.put("sys/fs/cgroup/cpu.max", "150000 100000");
  const CpuInfo info = machine.read({0, 1, 2, 3});
  EXPECT_EQ(info.quota, 1.5);
  EXPECT_EQ(cores(info), "4+0 of 4: 1");
  EXPECT_EQ(choose_threads(info).why, "this container may use 1.5 CPUs");
  EXPECT_EQ(choose_threads(machine.read({2})).why, "one per core");  // the quota takes nothing away

  machine.put("sys/fs/cgroup/cpu.max", "20000 100000");
  EXPECT_EQ(cores(machine.read({0, 1})), "2+0 of 2: 1");
  machine.put("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(machine.read({0, 1}).quota, 0);
}

TEST(CpuCores, LeastQuotaOfTheGroupsAround) {
  FakeMachine machine;
  machine.put("proc/self/cgroup", "0::/a/b/c");
  machine.put("sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  machine.put("sys/fs/cgroup/a/b/cpu.max", "300000 100000");
  machine.put("sys/fs/cgroup/a/cpu.max", "800000 100000");
  EXPECT_EQ(machine.read({0, 1, 2, 3}).quota, 3);

  FakeMachine old;  // version 1; the path is the host's, the mount is the container's own group
  old.put("proc/self/cgroup", "5:cpuset:/docker/1f\n4:cpu,cpuacct:/docker/1f\n0::/docker/1f");
  old.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000");
  old.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(old.read({0, 1, 2, 3}).quota, 2.5);
  EXPECT_EQ(cores(old.read({0, 1, 2, 3})), "4+0 of 4: 2");
  old.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(old.read({0, 1, 2, 3}).quota, 0);
}

TEST(CpuCores, GarbageChangesNothing) {
  for (const std::string junk :
       {"", "x", "-", "3-", "-3", "7-0", "0,", ",", "0-99999999999999999999", "0 - 3", "1:2:3",
        "::", "a:cpu:b", "0::..", "9999999999K", "12KB", "0 0", "5 -1", "\xff\x80"}) {
    FakeMachine machine;
    machine.put("proc/self/cgroup", junk);
    for (const char* name : {"cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"})
      machine.put(std::string("sys/fs/cgroup/") + name, junk);
    for (const char* name : {"system/cpu/online", "cpu_core/cpus", "cpu_atom/cpus"})
      machine.put(std::string("sys/devices/") + name, junk);
    for (const char* name : {"cpu_capacity", "cpufreq/cpuinfo_max_freq", "topology/thread_siblings_list"})
      machine.put_cpu(0, name, junk);
    machine.put_cache(0, 0, 1, "Data", junk.c_str(), junk.c_str());
    machine.put_cache(0, 1, 2, junk.c_str(), junk.c_str(), junk.c_str());
    const CpuInfo info = machine.read({0, 1});
    EXPECT_EQ(cores(info), "2+0 of 2: 2") << junk;
    EXPECT_EQ(info.quota, 0) << junk;
    EXPECT_EQ(info.l1d_bytes + info.l2_bytes, 0u) << junk;
  }
}

#if defined(__linux__)
// The CPUs that a thread may run on after run_on_fast_cores().
std::vector<int> cpus_after(const CpuInfo& info, int threads) {
  std::vector<int> cpus;
  std::thread([&] {
    run_on_fast_cores(info, threads);
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }).join();
  return cpus;
}

TEST(CpuCores, ThreadsRunOnTheFastOnes) {
  CpuInfo info;
  const std::vector<int> before = cpus_after(info, 1);
  ASSERT_FALSE(before.empty());
  info.performance_cores = 1;
  info.fast_cpus = {before.back()};
  EXPECT_EQ(cpus_after(info, 1), info.fast_cpus);
  EXPECT_EQ(cpus_after(info, 2), before);  // asked for more than there are
  EXPECT_EQ(cpus_after({}, 1), before);
}
#endif

TEST(CpuInfo, IsPlausible) {
  const CpuInfo& info = cpu_info();
  EXPECT_FALSE(info.model.empty());
  EXPECT_GE(info.logical_cores, 1);
  EXPECT_LE(static_cast<unsigned>(info.logical_cores), std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_GE(info.performance_cores + info.efficiency_cores, 1);
  EXPECT_LE(info.performance_cores + info.efficiency_cores, info.logical_cores);
  EXPECT_GE(choose_threads(info).threads, 1);
  EXPECT_LE(choose_threads(info).threads, info.logical_cores);
  EXPECT_LT(info.l1d_bytes, uint64_t{1} << 20);
  EXPECT_LT(info.l2_bytes, uint64_t{1} << 28);
  EXPECT_GT(info.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(&info, &cpu_info());
}

TEST(CpuInfo, WiderSetsImplyNarrowerOnes) {
  const CpuInfo& info = cpu_info();
  EXPECT_TRUE(info.avx512 || !info.avx512_vnni);
  EXPECT_TRUE(info.avx512_vnni || !info.amx_int8);
  EXPECT_TRUE(info.avx2 || !info.avx512);
  EXPECT_FALSE(info.neon && info.avx2);
  EXPECT_TRUE(info.neon || !info.neon_dotprod);
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
  EXPECT_EQ(cpu_info().amx_int8, cpu_info().avx512_vnni && has("amx_tile") && has("amx_int8"));
}
#endif

}  // namespace
}  // namespace anabranch
