// What the disk tier counts, and what follows from its counts: budgets of several processes, and speed.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "cache/disk_store.h"
#include "cache/records.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;

uint64_t bytes_in(const std::string& directory) {
  uint64_t sum = 0;
  for (const DiskRecord& file : listed(directory)) sum += file.bytes;
  return sum;
}

void expect_counts(const DiskStore& store, const std::string& directory, const char* when) {
  EXPECT_EQ(store.stats().bytes, bytes_in(directory)) << when;
  EXPECT_EQ(store.stats().files, listed(directory).size()) << when;
}

TEST(DiskStoreTest, CountsWhatIsThereAfterRemovalAndDamage) {
  TemporaryDirectory directory;
  const auto store = open_store(directory.path());
  const auto a = chain(1, 2), b = chain(2, 3);
  put_all(*store, a);
  put_all(*store, b, 9000);
  store->drain();
  expect_counts(*store, directory.path(), "written");
  store->remove(std::vector{disk_record(kFingerprint, a[2])});
  expect_counts(*store, directory.path(), "removed");
  store->remove(std::vector{disk_record(kFingerprint, a[2])});
  expect_counts(*store, directory.path(), "removed twice");
  const std::string path = record_path(directory.path(), disk_record(kFingerprint, b[3]));
  std::string bytes = read_bytes(path);
  bytes.back() ^= 1;
  write_bytes(path, bytes);
  EXPECT_FALSE(store->get(b[3]).ok());
  EXPECT_FALSE(store->get(b[3]).ok());
  EXPECT_EQ(store->stats().corrupt, 1u);
  expect_counts(*store, directory.path(), "damaged");
  put_all(*store, b, 9000);
  put_all(*store, a);
  store->drain();
  expect_counts(*store, directory.path(), "written again");
  EXPECT_EQ(listed(directory.path()).size(), 7u);
  EXPECT_EQ(store->stats().written_records, 9u);
}

// Each knows of the other's records by listing only.
TEST(DiskStoreTest, TwoProcessesStayWithinOneBudget) {
  TemporaryDirectory directory;
  constexpr uint64_t kBudget = 1 << 20;
  const auto with_budget = [](DiskOptions& o) { o.budget_bytes = kBudget; };
  const auto one = open_store(directory.path(), with_budget),
             other = open_store(directory.path(), with_budget);
  for (int seed = 0; seed < 100; seed++) {
    DiskStore& store = seed % 2 ? *one : *other;
    put_all(store, chain(seed, 0), 12000);
    store.drain();
    ASSERT_LE(bytes_in(directory.path()), kBudget + kBudget / 16) << seed;
  }
  EXPECT_GT(bytes_in(directory.path()), kBudget / 2);
}

// So that not every further record lists all files.
TEST(DiskStoreTest, EvictionMakesMoreRoomThanForOneRecord) {
  TemporaryDirectory directory;
  constexpr uint64_t kBudget = 1 << 20;
  const auto store = open_store(directory.path(), [](DiskOptions& o) { o.budget_bytes = kBudget; });
  for (int seed = 0; store->stats().evicted == 0 && seed < 200; seed++) {
    put_all(*store, chain(seed, 0), 12000);
    store->drain();
  }
  EXPECT_GT(store->stats().evicted, 2u);
  EXPECT_LE(store->stats().bytes, kBudget / 16 * 15);
}

TEST(DiskStoreTest, MeasuresHowFastTheDiskIs) {
  TemporaryDirectory directory;
  const auto store = open_store(directory.path(), [](DiskOptions& o) {
    o.write = [](int fd, const void* data, size_t n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return ::write(fd, data, n);
    };
  });
  EXPECT_EQ(store->bytes_per_second(), kUsualSpeed);
  put_all(*store, chain(1, 0));
  store->drain();
  EXPECT_GT(store->bytes_per_second(), 0);
  EXPECT_LT(store->bytes_per_second(), 1e6);
}

TEST(DiskStoreTest, ARecordIsQueuedOnce) {
  TemporaryDirectory directory;
  std::mutex closed;
  std::atomic<bool> called{false};
  const auto store = open_store(directory.path(), [&](DiskOptions& o) {
    o.write = [&](int fd, const void* data, size_t n) {
      called = true;
      const std::lock_guard lock(closed);
      return ::write(fd, data, n);
    };
  });
  std::unique_lock lock(closed);
  put_all(*store, chain(1, 0));
  for (int i = 0; i < 2000 && !called; i++) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  put_all(*store, chain(2, 0));
  const DiskStats once = store->stats();
  EXPECT_EQ(once.queued_records, 2u);
  for (int i = 0; i < 5; i++) put_all(*store, chain(2, 0));
  EXPECT_EQ(store->stats().queued_records, once.queued_records);
  EXPECT_EQ(store->stats().queued_bytes, once.queued_bytes);
  lock.unlock();
  store->drain();
  EXPECT_EQ(store->stats().queued_records, 0u);
  EXPECT_EQ(store->stats().queued_bytes, 0u);
}

// Two changes of the folder may have the same time.
TEST(DiskStoreTest, AChangeInTheSameTickIsSeen) {
  TemporaryDirectory directory;
  const auto ours = open_store(directory.path()), theirs = open_store(directory.path());
  const std::string folder = folder_path(directory.path(), kFingerprint);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto changed_now = [&] {
    const timespec both[2] = {now, now};
    ASSERT_EQ(::utimensat(AT_FDCWD, folder.c_str(), both, 0), 0);
  };
  changed_now();
  EXPECT_TRUE(ours->refresh(true).empty());
  put_all(*theirs, chain(1, 0));
  theirs->drain();
  changed_now();
  EXPECT_EQ(ours->refresh(true).size(), 1u);
}

TEST(DiskStoreTest, AWriteThatASignalInterruptsIsTriedAgain) {
  TemporaryDirectory directory;
  int calls = 0;
  const auto store = open_store(directory.path(), [&](DiskOptions& o) {
    o.write = [&](int fd, const void* data, size_t n) -> ssize_t {
      if (++calls % 2) return errno = EINTR, -1;
      return ::write(fd, data, n);
    };
  });
  put_all(*store, chain(1, 1));
  store->drain();
  EXPECT_EQ(count_right(*store, chain(1, 1)), 2);
  EXPECT_EQ(store->stats().failed, 0u);
}

}  // namespace
}  // namespace anabranch
