#include "cli/pid_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "temp_dir.h"

namespace anabranch::cli {
namespace {

// Runs it in another process, whose locks are its own. Returns the process; `work` says how it ends.
pid_t in_another_process(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  return child;
}

int status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Shared {
  std::atomic<int> holders{0}, most{0}, taken{0}, failed{0}, ready{0};
};

Shared& shared_memory() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) Shared;
}

TEST(PidFile, WhoeverHoldsItIsFoundAndNobodyElseTakesIt) {
  testing::TempDir folder;
  const std::string path = folder.file("serve.pid");
  Shared& shared = shared_memory();
  const pid_t holder = in_another_process([&] {
    auto file = PidFile::take(path);
    if (!file || !file->write({.pid = ::getpid(), .model = "m", .address = "http://127.0.0.1:1"})) return 1;
    shared.ready = 1;
    while (shared.ready == 1) ::usleep(1000);
    return 0;
  });
  while (shared.ready == 0 && ::waitpid(holder, nullptr, WNOHANG) == 0) ::usleep(1000);
  ASSERT_EQ(shared.ready, 1) << "the holder ended early";
  const auto found = find_server(path);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->pid, holder);
  EXPECT_EQ((*found)->address, "http://127.0.0.1:1");
  const auto second = PidFile::take(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  shared.ready = 2;
  EXPECT_EQ(status_of(holder), 0);
  EXPECT_TRUE(PidFile::take(path));
}

TEST(PidFile, AFileThatAnEndedServerLeftBehindIsNoServer) {
  testing::TempDir folder;
  const std::string path = folder.file("serve.pid");
  // This process lives, but holds no lock.
  std::ofstream(path) << ::getpid() << "\n{\"address\": \"http://127.0.0.1:1\"}\n";
  const auto found = find_server(path);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  EXPECT_TRUE(PidFile::take(path));
}

TEST(PidFile, IsGoneWithItsHolder) {
  testing::TempDir folder;
  const std::string path = folder.file("serve.pid");
  { ASSERT_TRUE(PidFile::take(path)); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A holder that ends removes the file that another process may have opened just before.
TEST(PidFile, TwoProcessesNeverHoldItAtOnce) {
  testing::TempDir folder;
  const std::string path = folder.file("serve.pid");
  Shared& shared = shared_memory();
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i)
    children.push_back(in_another_process([&] {
      for (int round = 0; round < 2000; ++round) {
        const auto file = PidFile::take(path);
        if (!file) {
          shared.failed += file.error().kind != ErrorKind::busy;
          continue;
        }
        const int now = ++shared.holders;
        for (int most = shared.most; now > most && !shared.most.compare_exchange_weak(most, now);) {
        }
        ++shared.taken;
        ::usleep(20);
        --shared.holders;
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(shared.most, 1);
  EXPECT_EQ(shared.failed, 0);
  EXPECT_GT(shared.taken, 0);
}

}  // namespace
}  // namespace anabranch::cli
