// The disk tier's everyday life: what is put is found again, recency, budget, other processes, closing.
#include "cache/disk_store.h"

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/log.h"
#include "cache/records.h"
#include "slow.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;

std::vector<RecordHead> sorted(std::vector<RecordHead> heads) {
  std::sort(heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return heads;
}

std::vector<PrefixKey> leaf_to_root(const std::vector<RecordHead>& heads) {
  std::vector<PrefixKey> keys;
  for (auto head = heads.rbegin(); head != heads.rend(); ++head) keys.push_back(head->key);
  return keys;
}

TEST(DiskFiles, ACopyOfARecordHasTheSameBytes) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/record";
  write_bytes(path, std::string(100'001, 'x'));
  const auto mapped = map_record(path), copy = map_record(path, true);
  ASSERT_TRUE(mapped.ok() && copy.ok());
  EXPECT_TRUE(std::ranges::equal(mapped->bytes, copy->bytes));
  EXPECT_EQ(copy->bytes.size(), 100'001u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy->bytes.data()) % kSectionAlignment, 0u);
  std::filesystem::remove(path);
  EXPECT_EQ(static_cast<char>(copy->bytes[100'000]), 'x');
  EXPECT_EQ(map_record(path, true).error().kind, ErrorKind::not_found);
}

TEST(DiskStoreTest, KeepsRecordsOverRestarts) {
  TemporaryDirectory directory;
  const auto a = chain(1, 3), b = chain(2, 0, 200);
  {
    auto store = open_store(directory.path() + "/deep/er");
    EXPECT_TRUE(store->scan().empty());
    put_all(*store, a);
    put_all(*store, b);
    put_all(*store, a);  // nothing is written twice
    store->drain();
    put_all(*store, a);
    store->drain();
    const auto stats = store->stats();
    EXPECT_EQ(stats.written_records, a.size() + b.size());
    EXPECT_EQ(stats.files, a.size() + b.size());
    EXPECT_EQ(stats.queued_bytes, 0u);
    EXPECT_EQ(stats.dropped + stats.failed + stats.corrupt + stats.evicted, 0u) << stats.last_reason;
    EXPECT_EQ(count_right(*store, a), 4);
  }
  auto store = open_store(directory.path() + "/deep/er");
  auto expected = a;
  expected.insert(expected.end(), b.begin(), b.end());
  const auto found = store->scan();
  EXPECT_EQ(sorted(found), sorted(expected));
  std::set<PrefixKey> seen;
  for (const RecordHead& head : found) {
    if (head.parent_length() > 0) {
      EXPECT_TRUE(seen.contains(head.parent)) << "a child before its parent";
    }
    seen.insert(head.key);
    EXPECT_TRUE(store->has(head));
  }
  EXPECT_EQ(count_right(*store, expected), 5);
  EXPECT_EQ(store->stats().read_records, 5u);
  EXPECT_EQ(store->get(chain(3, 1)[0]).error().kind, ErrorKind::not_found);
  EXPECT_FALSE(store->has(chain(3, 1)[0]));
}

TEST(DiskStoreTest, FilesArePrivate) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/cache";
  auto store = open_store(path);
  put_all(*store, chain(1, 1));
  store->drain();
  struct stat info {};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(DiskStoreTest, ReadsOutliveTheStoreAndTheFile) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 1);
  auto store = open_store(directory.path());
  put_all(*store, heads);
  store->drain();
  store->prefetch(heads);
  auto record = store->get(heads[0]);
  ASSERT_TRUE(record.ok());
  store.reset();
  ASSERT_EQ(clear_records(directory.path())->files, 2u);
  EXPECT_TRUE(is_right(*record, heads[0]));
}

TEST(DiskStoreTest, FingerprintsAreApart) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 1);
  auto store = open_store(directory.path());
  put_all(*store, heads);
  store->drain();
  auto other = open_store(directory.path(), [](DiskOptions& o) { o.fingerprint = {1, 2}; });
  EXPECT_TRUE(other->scan().empty());
  EXPECT_EQ(other->get(heads[0]).error().kind, ErrorKind::not_found);
  EXPECT_EQ(other->stats().files, 2u);  // the budget is for all
}

TEST(DiskStoreTest, OrphansAreLeftOutUntilTheirParentIsBack) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 3);
  auto store = open_store(directory.path());
  put_all(*store, heads);
  store->drain();
  ASSERT_TRUE(std::filesystem::remove(record_path(directory.path(), disk_record(kFingerprint, heads[1]))));
  EXPECT_EQ(store->scan(), std::vector(heads.begin(), heads.begin() + 1));
  EXPECT_EQ(verify_records(directory.path(), false)->orphans, 2u);
  // A child alone is not worth writing.
  const auto child = head_after(RecordKind::snapshot, heads[1].key, 512, {1});
  store->put(child, sections_of(child));
  store->drain();
  EXPECT_EQ(store->stats().dropped, 1u);
  EXPECT_NE(store->stats().last_reason.find("parent"), std::string::npos);
  put_all(*store, heads);
  store->drain();
  EXPECT_EQ(sorted(store->scan()), sorted(heads));
}

TEST(DiskStoreTest, TokensThatOnlyShareAKeyGetNoState) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 1);
  const auto store = open_store(directory.path());
  put_all(*store, heads);
  store->drain();
  RecordHead other = heads[0];
  other.tokens.back()++;
  EXPECT_EQ(store->get(other).error().kind, ErrorKind::not_found);
  EXPECT_TRUE(store->get(heads[0]).ok()) << "and it stays";
}

TEST(DiskStoreTest, ARecordAtAnotherPlaceThanBehindItsParentIsLeftOut) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 2);
  const auto store = open_store(directory.path());
  put_all(*store, heads);
  const auto away =
      head_after(RecordKind::block, heads[0].key, heads[1].length, std::vector(kBlockTokens, 1));
  store->put(away, sections_of(away));
  store->drain();
  ASSERT_TRUE(std::filesystem::exists(record_path(directory.path(), disk_record(kFingerprint, away))));
  EXPECT_EQ(sorted(store->scan()), sorted(heads));
}

TEST(DiskStoreTest, RefreshTellsWhatOthersAdded) {
  TemporaryDirectory directory;
  auto mine = open_store(directory.path()), other = open_store(directory.path());
  EXPECT_TRUE(mine->scan().empty());
  put_all(*mine, chain(1, 1));
  mine->drain();
  EXPECT_TRUE(mine->refresh().empty());                          // its own
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // others' are looked for again
  EXPECT_TRUE(mine->refresh().empty());
  put_all(*other, chain(2, 2));
  other->drain();
  EXPECT_EQ(mine->refresh(), chain(2, 2));
  EXPECT_TRUE(mine->refresh().empty());
  // A parent that another process wrote is known when it is needed.
  const auto parent = chain(3, 1)[0];
  other->put(parent, sections_of(parent));
  other->drain();
  put_all(*mine, {chain(3, 1)[1]});
  mine->drain();
  EXPECT_EQ(mine->stats().dropped, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(mine->refresh(), std::vector{parent});
  EXPECT_EQ(mine->scan().size(), 7u);
}

// A record that was lost counts again once another process has written it, whoever notices first: a listing,
// a lookup, or a put() that finds the file.
TEST(DiskStoreTest, ARecordThatAnotherProcessWroteAgainIsNotMissing) {
  const auto heads = chain(1, 0);
  const std::function<void(DiskStore&)> noticing[] = {
      [&](DiskStore& store) { EXPECT_EQ(store.refresh(), heads); },
      [&](DiskStore& store) { EXPECT_TRUE(store.get(heads[0]).ok()); },
      [&](DiskStore& store) {
        put_all(store, heads);
        store.drain();
      }};
  for (const auto& notice : noticing) {
    TemporaryDirectory directory;
    auto mine = open_store(directory.path()), other = open_store(directory.path());
    put_all(*other, heads);
    other->drain();
    EXPECT_EQ(mine->scan(), heads);
    ASSERT_TRUE(std::filesystem::remove(record_path(directory.path(), disk_record(kFingerprint, heads[0]))));
    EXPECT_EQ(mine->get(heads[0]).error().kind, ErrorKind::not_found);
    put_all(*other, heads);
    other->drain();
    notice(*mine);
    EXPECT_TRUE(mine->take_missing().empty());
    EXPECT_EQ(count_right(*mine, heads), 1);
    // It can be lost again, and is reported again.
    ASSERT_TRUE(std::filesystem::remove(record_path(directory.path(), disk_record(kFingerprint, heads[0]))));
    EXPECT_EQ(mine->get(heads[0]).error().kind, ErrorKind::not_found);
    EXPECT_EQ(mine->take_missing().size(), 1u);
  }
}

TEST(DiskStoreTest, TheLeastRecentlyUsedGoesFirstOverARestart) {
  TemporaryDirectory directory;
  const auto old = chain(1, 2), fresh = chain(2, 2), next = chain(3, 0, 9);
  {
    auto store = open_store(directory.path());
    put_all(*store, old);
    put_all(*store, fresh);
    store->drain();
    store->used(leaf_to_root(fresh));
    store->used(leaf_to_root(old));
    store->drain();
  }
  {
    // The times alone already say that children go before parents.
    const auto files = listed(directory.path());
    ASSERT_EQ(files.size(), 6u);
    std::map<PrefixKey, int64_t> used;
    for (const DiskRecord& file : files) used[file.key] = file.used_at_ns;
    for (const DiskRecord& file : files)
      if (file.parent_length() > 0) {
        EXPECT_LT(used[file.key], used[file.parent]);
      }
    EXPECT_EQ(files[0].key, old[0].key);
  }
  // What is there fills it.
  auto store = open_store(directory.path(), [](DiskOptions& o) { o.budget_bytes = 10 * 4096; });
  put_all(*store, next, 3000);
  store->drain();
  EXPECT_GE(store->stats().evicted, 1u);
  EXPECT_LT(store->stats().evicted, 4u);
  EXPECT_EQ(count_right(*store, old), 3);
  EXPECT_EQ(count_right(*store, next), 1);
  EXPECT_FALSE(store->has(fresh.back()));
  EXPECT_TRUE(store->has(fresh.front()));
}

TEST(DiskStoreTest, StaysWithinItsBudgetAndKeepsChainsWhole) {
  TemporaryDirectory directory;
  const uint64_t budget = 1 << 20;
  auto store = open_store(directory.path(), [](DiskOptions& o) { o.budget_bytes = budget; });
  for (int seed = 0; seed < 60; seed++) {
    put_all(*store, chain(seed, 4), 20000);
    store->drain();
    EXPECT_LE(store->stats().bytes, budget);
  }
  const auto stats = store->stats();
  EXPECT_EQ(stats.written_records, 300u);
  EXPECT_EQ(store->take_missing().size(), stats.evicted);
  EXPECT_TRUE(store->take_missing().empty());
  EXPECT_GT(stats.evicted, 200u);
  EXPECT_GT(stats.bytes, budget * 3 / 4);
  EXPECT_EQ(stats.bytes, [&] {
    uint64_t sum = 0;
    for (const auto& file : listed(directory.path())) sum += file.bytes;
    return sum;
  }());
  const auto check = *verify_records(directory.path(), false);
  EXPECT_EQ(check.good, stats.files);
  EXPECT_EQ(check.orphans + check.damaged, 0u);
  EXPECT_EQ(count_right(*store, chain(59, 4)), 5);
}

TEST(DiskStoreTest, WhatCannotFitIsDroppedAndEvictsNothing) {
  TemporaryDirectory directory;
  auto store = open_store(directory.path(), [](DiskOptions& o) { o.budget_bytes = 100 << 10; });
  put_all(*store, chain(1, 1));
  put_all(*store, chain(2, 0), 200 << 10);
  store->drain();
  EXPECT_EQ(store->stats().dropped, 1u);
  EXPECT_EQ(store->stats().evicted, 0u);
  const auto missing = store->take_missing();
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].key, chain(2, 0).back().key);
  // A chain longer than the budget keeps its beginning.
  put_all(*store, chain(3, 20), 20000);
  store->drain();
  EXPECT_GT(store->stats().dropped, 1u);
  const auto check = *verify_records(directory.path(), false);
  EXPECT_EQ(check.orphans, 0u);
  EXPECT_GE(check.good, 3u);
}

TEST(DiskStoreTest, ASmallerBudgetHoldsAtOnceForAllFingerprints) {
  TemporaryDirectory directory;
  {
    auto store = open_store(directory.path());
    put_all(*store, chain(1, 30), 20000);
    store->drain();
  }
  auto store = open_store(directory.path(), [](DiskOptions& o) {
    o.fingerprint = {1, 2};
    o.budget_bytes = 100 << 10;
  });
  for (int i = 0; i < 1000 && store->stats().bytes > 100 << 10; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(store->stats().bytes, 100u << 10);
  EXPECT_EQ(verify_records(directory.path(), false)->orphans, 0u);
}

TEST(EvictionOrderTest, NeverTakesAParentBeforeItsChildren) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; round++) {
    std::vector<DiskRecord> files;
    for (int seed = 0; seed < 8; seed++)
      for (const RecordHead& head : chain(seed, static_cast<int>(random() % 6))) {
        files.push_back(disk_record(kFingerprint, head));
        files.back().bytes = 4096 * (1 + random() % 5);
        files.back().used_at_ns = static_cast<int64_t>(random() % 1000);
      }
    std::shuffle(files.begin(), files.end(), random);
    const PrefixKey keep = files[0].key;
    const auto order = eviction_order(files, 1ull << 40, keep);
    std::set<PrefixKey> gone;
    for (const size_t i : order) {
      EXPECT_NE(files[i].key, keep);
      for (const DiskRecord& file : files)
        if (file.parent_length() > 0 && file.parent == files[i].key) {
          EXPECT_TRUE(gone.contains(file.key));
        }
      gone.insert(files[i].key);
    }
    EXPECT_EQ(gone.size(), order.size());
    EXPECT_LT(order.size(), files.size());  // `keep` and what it stands on
    EXPECT_GE(order.size(), files.size() - 6);
    const auto few = eviction_order(files, 4096, keep);
    ASSERT_EQ(few.size(), 1u);
    EXPECT_EQ(few[0], order[0]);
  }
}

// write(2) that waits until it is told to go on.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int calls = 0;
  void await_call() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return calls > 0; });
    calls = 0;
  }
  void set_open() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  WriteCall write() {
    return [this](int fd, const void* data, size_t n) {
      std::unique_lock lock(mutex);
      calls++;
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
      return ::write(fd, data, n);
    };
  }
};

TEST(DiskStoreTest, AFullQueueDropsTheOldestSnapshotFirst) {
  TemporaryDirectory directory;
  Gate gate;
  auto store = open_store(directory.path(), [&](DiskOptions& o) {
    o.write = gate.write();
    o.queue_bytes = 1 << 20;
  });
  const auto first = chain(1, 0);
  put_all(*store, first, 2 << 20);  // larger than the queue: one is always taken
  gate.await_call();
  EXPECT_EQ(store->stats().queued_records, 1u);
  put_all(*store, chain(2, 0), 1000);
  EXPECT_EQ(store->stats().dropped, 1u);
  EXPECT_TRUE(store->has(first[0]));
  EXPECT_FALSE(store->has(chain(2, 0)[0]));
  gate.set_open();
  store->drain();
  gate.open = false;
  gate.calls = 0;

  // One goes to the writer, which waits; then a snapshot, nine blocks and another snapshot, each of
  // 93,700 bytes in the queue.
  constexpr size_t kBytes = 93700 - kMaxHeadBytes;
  put_all(*store, chain(3, 0), 1000);
  gate.await_call();
  const auto blocks = chain(4, 9);
  const auto older = chain(5, 0), newer = chain(6, 0);
  put_all(*store, older, kBytes);
  for (int i = 0; i < 9; i++) store->put(blocks[i], sections_of(blocks[i], kBytes));
  put_all(*store, newer, kBytes);
  EXPECT_EQ(store->stats().dropped, 2u) << store->stats().queued_bytes;
  EXPECT_FALSE(store->has(older[0]));
  EXPECT_TRUE(store->has(newer[0]));
  // Then blocks, until nothing may give way.
  const auto more = chain(7, 9);
  for (int i = 0; i < 9; i++) store->put(more[i], sections_of(more[i], kBytes));
  EXPECT_FALSE(store->has(newer[0]));
  EXPECT_FALSE(store->has(more[8]));
  EXPECT_LE(store->stats().queued_bytes, 1u << 20);
  gate.set_open();
  store->drain();
  EXPECT_EQ(count_right(*store, std::vector(blocks.begin(), blocks.begin() + 9)), 9);
}

TEST(DiskStoreTest, ClosingTakesABoundedTime) {
  TemporaryDirectory directory;
  const auto write = [](int fd, const void* data, size_t n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return ::write(fd, data, n);
  };
  const auto begin = std::chrono::steady_clock::now();
  {
    auto store = open_store(directory.path(), [&](DiskOptions& o) {
      o.write = write;
      o.close_seconds = 0.3;
    });
    put_all(*store, chain(1, 100));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8)) << "all take 10 s and more";
  const auto check = *verify_records(directory.path(), false);
  EXPECT_LT(check.good, 50u);
  EXPECT_EQ(check.damaged + check.orphans, 0u);
  EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
}

TEST(DiskStoreTest, ClosingWritesWhatIsQueued) {
  TemporaryDirectory directory;
  put_all(*open_store(directory.path()), chain(1, 100));
  EXPECT_EQ(verify_records(directory.path(), false)->good, 101u);
}

// The engine uses the store meanwhile, and what it puts of the same records can be put again afterwards.
TEST(DiskStoreTest, RemovingLeavesTheStoreToOthers) {
  TemporaryDirectory directory;
  SlowUnlink slow;
  const auto store = open_store(directory.path(), slow.option());
  const auto a = chain(1, 3), b = chain(2, 1);
  const auto child = head_after(RecordKind::snapshot, a[2].key, a[2].length, {1, 2, 3});
  put_all(*store, a);
  store->drain();
  std::vector<DiskRecord> records;
  for (auto head = a.rbegin(); head != a.rend(); ++head) records.push_back(disk_record(kFingerprint, *head));
  std::unique_lock closed(slow.mutex);
  auto removed = std::async(std::launch::async, [&] { store->remove(records); });
  ASSERT_TRUE(slow.was_called());
  auto others = std::async(std::launch::async, [&] {
    put_all(*store, a);
    put_all(*store, b);
    put_all(*store, {child});
    store->drain();
    return store->has(b[0]) && !store->has(child) && store->stats().files > 0;
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(removed.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  closed.unlock();
  removed.get();
  EXPECT_TRUE(others.get());
  EXPECT_EQ(listed(directory.path()).size(), b.size());
  EXPECT_EQ(store->stats().files, b.size());
  EXPECT_EQ(store->take_missing().size(), a.size() + 1) << "the caller believes that it has put them";
  put_all(*store, a);
  store->drain();
  EXPECT_EQ(count_right(*store, a), static_cast<int>(a.size()));
  EXPECT_TRUE(store->take_missing().empty());
}

TEST(DiskStoreTest, RemovingWaitsForARecordThatIsBeingWritten) {
  TemporaryDirectory directory;
  Gate gate;
  const auto store = open_store(directory.path(), [&](DiskOptions& o) { o.write = gate.write(); });
  const auto a = chain(1, 0);
  put_all(*store, a);
  gate.await_call();
  const DiskRecord record = disk_record(kFingerprint, a[0]);
  auto removed = std::async(std::launch::async, [&] { store->remove({&record, 1}); });
  EXPECT_EQ(removed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate.set_open();
  removed.get();
  store->drain();
  EXPECT_TRUE(listed(directory.path()).empty());
  EXPECT_FALSE(store->has(a[0]));
}

TEST(DiskStoreTest, WhatIsPutWhileItIsBeingRemovedDoesNotComeBack) {
  TemporaryDirectory directory;
  const auto a = chain(1, 0);
  std::unique_ptr<DiskStore> store;
  int unlinked = 0;
  store = open_store(directory.path(), [&](DiskOptions& o) {
    o.unlink = [&](const char* path) {
      const int result = ::unlink(path);
      if (unlinked++ == 0) {
        put_all(*store, a);
        store->drain();
      }
      return result;
    };
  });
  put_all(*store, a);
  store->drain();
  const DiskRecord record = disk_record(kFingerprint, a[0]);
  store->remove({&record, 1});
  store->drain();
  EXPECT_EQ(unlinked, 1);
  EXPECT_TRUE(listed(directory.path()).empty());
}

TEST(DiskStoreTest, AWriteThatTakesAPartIsContinued) {
  TemporaryDirectory directory;
  const auto store = open_store(directory.path(), [](DiskOptions& o) {
    o.write = [](int fd, const void* data, size_t n) { return ::write(fd, data, std::min<size_t>(n, 1000)); };
  });
  const auto heads = chain(1, 2);
  put_all(*store, heads);
  store->drain();
  EXPECT_EQ(count_right(*store, heads), static_cast<int>(heads.size()));
}

TEST(DiskStoreTest, FoldersOfTheOldFormatAreRemovedOnce) {
  TemporaryDirectory directory;
  const std::string old = directory.path() + "/v1-", empty = old + std::string(32, '0'),
                    mixed = old + std::string(32, '1'),
                    record = "/" + std::string(32, 'a') + "-" + std::string(32, 'b') + "-00000100.block";
  for (const std::string& folder : {empty, mixed, directory.path() + "/v1-notes"}) {
    std::filesystem::create_directory(folder);
    write_bytes(folder + record, std::string(100, 'x'));
    write_bytes(folder + "/tmp-1-0123456789abcdef", "12345");
    write_bytes(folder + "/about.txt", "a model");
  }
  write_bytes(mixed + "/mine.txt", "stays");
  std::filesystem::create_directory(mixed + record + "x");
  std::filesystem::create_symlink(directory.path() + "/v1-notes", old + std::string(32, '2'));

  set_log_level(LogLevel::info);
  ::testing::internal::CaptureStderr();
  auto store = open_store(directory.path());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("removed 6 files (224 bytes) of an older format"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_FALSE(std::filesystem::exists(empty));
  EXPECT_EQ(read_bytes(mixed + "/mine.txt"), "stays");
  EXPECT_TRUE(std::filesystem::exists(mixed + record + "x"));
  EXPECT_EQ(count_files(mixed, ""), 1);
  EXPECT_EQ(count_files(directory.path() + "/v1-notes", ""), 3) << "not a name of ours, even behind a link";
  EXPECT_EQ(store->stats().files, 0u);
  EXPECT_TRUE(store->scan().empty());

  ::testing::internal::CaptureStderr();
  store = open_store(directory.path());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "there is nothing left to remove";
  set_log_level(LogLevel::warning);
  std::filesystem::create_directory(empty);
  write_bytes(empty + record, "x");
  EXPECT_EQ(clear_records(directory.path(), {"0", 1})->files, 0u);
  EXPECT_TRUE(std::filesystem::exists(empty + record)) << "a filter leaves it alone";
  EXPECT_EQ(clear_records(directory.path())->files, 0u);
  EXPECT_FALSE(std::filesystem::exists(empty));
}

TEST(DiskStoreTest, ScansThousandsQuickly) {
  TemporaryDirectory directory;
  const int chains = 100, blocks = 19;
  { open_store(directory.path()); }
  for (int seed = 0; seed < chains; seed++)
    for (const RecordHead& head : chain(seed, blocks))
      write_bytes(record_path(directory.path(), disk_record(kFingerprint, head)),
                  record_bytes(kFingerprint, head, sections_of(head)));
  const auto begin = std::chrono::steady_clock::now();
  auto store = open_store(directory.path());
  const auto opened = std::chrono::steady_clock::now();
  EXPECT_EQ(store->scan().size(), size_t{chains} * (blocks + 1));
  const auto scanned = std::chrono::steady_clock::now();
  EXPECT_TRUE(store->refresh().empty());
  const auto ms = [](auto duration) { return std::chrono::duration<double, std::milli>(duration).count(); };
  std::printf("%d files: open %.1f ms, scan %.1f ms, refresh %.3f ms\n", chains * (blocks + 1),
              ms(opened - begin), ms(scanned - opened), ms(std::chrono::steady_clock::now() - scanned));
  EXPECT_LT(ms(scanned - begin), 10'000 * kSlowdown);
}

}  // namespace
}  // namespace anabranch
