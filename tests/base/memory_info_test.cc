#include "base/memory_info.h"

#include <gtest/gtest.h>

#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <barrier>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>
#include <vector>

#include "slow.h"

namespace anabranch {
namespace {

class FakeMemory {
 public:
  FakeMemory() {
    std::string name = (std::filesystem::temp_directory_path() / "memory-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~FakeMemory() { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  uint64_t read() const { return read_linux_memory(root_.string()); }
  uint64_t limit() const { return memory_limit(root_.string()); }

 private:
  std::filesystem::path root_;
};

TEST(AvailableMemory, OfTheMachine) {
  FakeMemory memory;
  EXPECT_EQ(memory.read(), 0u);
  memory.put("proc/meminfo",
             "MemTotal:       8000 kB\nMemFree:        100 kB\nMemAvailable:   3000 kB\nBuffers: 1 kB");
  EXPECT_EQ(memory.read(), 3000u * 1024);
  memory.put("proc/self/cgroup", "0::/user/app");
  memory.put("sys/fs/cgroup/user/app/memory.max", "max");
  memory.put("sys/fs/cgroup/user/app/memory.current", "123");
  EXPECT_EQ(memory.read(), 3000u * 1024);
  EXPECT_EQ(memory.limit(), 0u);
}

TEST(AvailableMemory, TheTightestGroupCounts) {
  FakeMemory memory;
  memory.put("proc/meminfo", "MemAvailable:   3000 kB");
  memory.put("proc/self/cgroup", "0::/user/app");
  memory.put("sys/fs/cgroup/user/app/memory.max", "1000000");
  memory.put("sys/fs/cgroup/user/app/memory.current", "400000");
  EXPECT_EQ(memory.read(), 600000u);
  // Pages of files that were not read lately make room.
  memory.put("sys/fs/cgroup/user/app/memory.stat", "anon 1\ninactive_file 100000\nactive_file 8");
  EXPECT_EQ(memory.read(), 700004u);
  EXPECT_EQ(memory.limit(), 1000000u);
  memory.put("sys/fs/cgroup/user/memory.max", "500000");
  memory.put("sys/fs/cgroup/user/memory.current", "600000");
  EXPECT_EQ(memory.read(), 0u);
  EXPECT_EQ(memory.limit(), 500000u);
}

#if defined(__linux__)
TEST(AvailableMemory, ThisMachineTells) {
  EXPECT_GT(available_memory(), 1u << 20);
}
#endif

TEST(Memory, OfThisProcess) {
  EXPECT_GT(machine_memory(), uint64_t{1} << 28);
#if defined(__linux__)
  EXPECT_GT(resident_memory(), uint64_t{1} << 18);
  EXPECT_LE(resident_memory(), machine_memory());
  EXPECT_LE(available_memory(), machine_memory());
#endif
}

#if defined(__GLIBC__) && !defined(ANABRANCH_SANITIZED)  // sanitizers have their own allocators
// How many heaps the allocator has when 64 threads have allocated at once.
int count_heaps() {
  std::barrier all(64);
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&all] {
      const std::vector<char> some(100'000);
      all.arrive_and_wait();
    });
  for (auto& thread : threads) thread.join();
  char* text = nullptr;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  malloc_info(0, file);
  fclose(file);
  const std::string said(text, size);
  free(text);
  const std::regex heap("<heap nr=");
  return static_cast<int>(std::distance(std::sregex_iterator(said.begin(), said.end(), heap), {}));
}

TEST(MemoryDeathTest, ManyThreadsShareFewHeaps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without the heaps of other tests' threads
  EXPECT_EXIT(std::exit(count_heaps() > 4 ? 1 : 0), testing::ExitedWithCode(1), "");
  EXPECT_EXIT((keep_little_freed_memory(), std::exit(count_heaps() > 4 ? 1 : 0)), testing::ExitedWithCode(0),
              "");
}
#endif

}  // namespace
}  // namespace anabranch
