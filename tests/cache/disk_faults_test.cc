// Everything that can go wrong around the disk tier: no crash, no wrong contents, no good record lost, and a
// reason for each. With ANABRANCH_CACHE_FAULTS=full it kills 200 writers and damages 1,000 files.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cache/disk_store.h"
#include "cache/records.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;

bool full() {
  const char* wish = std::getenv("ANABRANCH_CACHE_FAULTS");
  return wish && std::string(wish) == "full";
}

// --- Damaged files

// What may become of a file. `other`: a good record's bytes. Says what it did.
std::string damage(std::mt19937& random, std::string& bytes, const std::string& other) {
  const size_t at = random() % bytes.size();
  const size_t n = std::min<size_t>(1 + random() % 600, bytes.size() - at);
  switch (random() % 9) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      return "a bit flipped";
    case 1:
      bytes.resize(at);
      return "cut off";
    case 2:
      bytes.append(n, static_cast<char>(random()));
      return "bytes behind its end";
    case 3:
      bytes.replace(at, n, std::string(n, '\0'));
      return "zeros within";
    case 4:
      for (size_t i = at; i < at + n; i++) bytes[i] = static_cast<char>(random());
      return "noise within";
    case 5:
      bytes = other;
      return "another record";
    case 6:
      bytes[8] = static_cast<char>(2 + random() % 200);
      return "a future version";
    case 7:
      bytes = "GGUF" + other;
      return "a foreign file";
    default:
      bytes.erase(at, n);
      return "bytes missing";
  }
}

TEST(DiskFaultsTest, DamagedFilesAreNeverRead) {
  TemporaryDirectory directory;
  const int rounds = full() ? 1000 : 300;
  std::mt19937 random(1);
  auto store = open_store(directory.path());
  int wrong = 0, refused = 0, unchanged = 0, lost = 0;
  for (int round = 0; round < rounds; round++) {
    // Of this record only, so that what is read again is what was damaged.
    const int blocks = static_cast<int>(random() % 2), rest = static_cast<int>(random() % 256);
    const auto heads = chain(round, blocks, blocks == 0 ? std::max(rest, 1) : rest);
    const auto stranger = chain(-1 - round, 0);
    put_all(*store, heads, 64 + random() % 5000);
    store->drain();
    const RecordHead& head = heads[random() % heads.size()];
    const std::string path = record_path(directory.path(), disk_record(kFingerprint, head));
    const std::string good = read_bytes(path);
    std::string bytes = good;
    const std::string what = damage(
        random, bytes, record_bytes(kFingerprint, stranger[0], sections_of(stranger[0], good.size() / 2)));
    write_bytes(path, bytes);
    if (round % 3 == 0) store->scan();
    if (round % 3 == 1) store = open_store(directory.path());
    const auto record = store->get(head);
    if (record.ok() && !is_right(*record, head)) wrong++;
    if (record.ok() && is_right(*record, head)) unchanged += bytes == good;
    if (record.ok() != (bytes == good)) ADD_FAILURE() << what << ": read all the same, or a good one refused";
    refused += !record.ok();
    // The others are still there, and this one can be written again.
    for (const RecordHead& each : heads) lost += each != head && count_right(*store, {each}) == 0;
    put_all(*store, heads, 1000);
    store->drain();
    EXPECT_EQ(count_right(*store, heads), static_cast<int>(heads.size()))
        << what << ": cannot be written again";
  }
  const auto check = *verify_records(directory.path(), false);
  EXPECT_EQ(check.damaged + check.unusable + check.orphans, 0u);
  std::printf("%d files damaged: %d refused, %d were as before, %d read wrongly, %d other records lost\n",
              rounds, refused, unchanged, wrong, lost);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(refused + unchanged, rounds);
}

TEST(DiskFaultsTest, DamageIsRemovedAndStrangersAreLeftAlone) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 0);
  const std::string path = record_path(directory.path(), disk_record(kFingerprint, heads[0]));
  auto store = open_store(directory.path());
  put_all(*store, heads);
  store->drain();
  const std::string good = read_bytes(path);

  write_bytes(path, good.substr(0, 200));
  EXPECT_TRUE(store->scan().empty());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(store->stats().corrupt, 1u);
  EXPECT_NE(store->stats().last_reason.find("cut off"), std::string::npos) << store->stats().last_reason;

  std::string future = good;
  future[8] = 3;
  write_bytes(path, future);
  for (int i = 0; i < 3; i++) {
    EXPECT_TRUE(store->scan().empty());
    EXPECT_EQ(store->get(heads[0]).error().kind, ErrorKind::unsupported);
    EXPECT_FALSE(store->has(heads[0]));
  }
  EXPECT_EQ(read_bytes(path), future);
  EXPECT_EQ(store->stats().unusable, 1u);
  EXPECT_NE(store->stats().last_reason.find("format 3"), std::string::npos);

  // A record of another fingerprint, copied here under the right name.
  write_bytes(path, record_bytes({1, 2}, heads[0], sections_of(heads[0])));
  EXPECT_TRUE(open_store(directory.path())->scan().empty());
  EXPECT_EQ(store->get(heads[0]).error().kind, ErrorKind::unsupported);

  const auto odd = folder_path(directory.path(), kFingerprint) + "/README";
  write_bytes(odd, "hello");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);  // not even a file
  store = open_store(directory.path());
  EXPECT_TRUE(store->scan().empty());
  EXPECT_EQ(store->get(heads[0]).error().kind, ErrorKind::io);
  EXPECT_TRUE(std::filesystem::exists(odd));
  put_all(*store, heads);
  store->drain();
}

// --- A disk that refuses

TEST(DiskFaultsTest, ADiskThatRefusesIsLeftAloneForAWhile) {
  for (const int code : {ENOSPC, EIO, EROFS, EDQUOT}) {
    TemporaryDirectory directory;
    bool refuse = true;
    int calls = 0;
    auto store = open_store(directory.path(), [&](DiskOptions& o) {
      o.retry_seconds = 1;  // ten small records take far less
      o.write = [&, code](int fd, const void* data, size_t n) -> ssize_t {
        if (!refuse || ++calls % 4 != 0) return ::write(fd, data, n);  // in the midst of a record
        errno = code;
        return -1;
      };
    });
    put_all(*store, chain(1, 9), 5000);
    store->drain();
    auto stats = store->stats();
    EXPECT_EQ(stats.failed, 1u);
    EXPECT_GE(stats.dropped, 9u);
    EXPECT_NE(stats.last_reason.find(std::strerror(code)), std::string::npos) << stats.last_reason;
    EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
    refuse = false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    put_all(*store, chain(1, 9), 5000);
    store->drain();
    EXPECT_EQ(count_right(*store, chain(1, 9)), 10) << store->stats().last_reason;
  }
}

TEST(DiskFaultsTest, ALimitOnFilesIsNoDeath) {
  TemporaryDirectory directory;
  EXPECT_EQ(in_child([&] {
              auto store = open_store(directory.path());
              const rlimit limit{100 << 10, 100 << 10};
              ::setrlimit(RLIMIT_FSIZE, &limit);  // more is SIGXFSZ
              put_all(*store, chain(1, 0), 300 << 10);
              put_all(*store, chain(2, 0), 30 << 10);
              store->drain();
              EXPECT_EQ(store->stats().failed, 1u);
              EXPECT_EQ(count_right(*store, chain(2, 0)), 1);
              EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
              return 0;
            }),
            0);
}

TEST(DiskFaultsTest, AFullDisk) {
  TemporaryDirectory directory;
  const int status = in_child([&] {
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return kSkipped;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kSkipped;
    if (::mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) return kSkipped;
    auto store = open_store(directory.path(), [](DiskOptions& o) { o.retry_seconds = 3600; });
    std::vector<RecordHead> all;
    for (int seed = 0; seed < 20; seed++) all.push_back(chain(seed, 0)[0]);
    put_all(*store, all, 150000);
    store->drain();
    EXPECT_EQ(store->stats().written_records, 6u);
    EXPECT_EQ(store->stats().failed, 1u);
    EXPECT_NE(store->stats().last_reason.find("No space"), std::string::npos) << store->stats().last_reason;
    EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
    EXPECT_EQ(count_right(*store, all), 6);
    store = open_store(directory.path(), [](DiskOptions& o) { o.retry_seconds = 0.05; });
    put_all(*store, {all[18]}, 150000);
    store->drain();
    EXPECT_EQ(store->stats().failed, 1u);
    std::filesystem::remove(record_path(directory.path(), disk_record(kFingerprint, all[0])));
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    put_all(*store, {all[19]}, 150000);
    store->drain();
    EXPECT_EQ(count_right(*store, all), 6) << store->stats().last_reason;
    store = open_store(directory.path(), [](DiskOptions& o) { o.budget_bytes = 0; });
    EXPECT_LT(store->stats().budget_bytes, 120000u);  // a tenth
    return 0;
  });
  if (status == kSkipped) GTEST_SKIP() << "no small file system can be mounted here";
  EXPECT_EQ(status, 0);
}

TEST(DiskFaultsTest, ADirectoryThatCannotBeWrittenIsRead) {
  TemporaryDirectory directory;
  const auto heads = chain(1, 2);
  const std::string cache = directory.path() + "/cache";
  { put_all(*open_store(cache), heads); }
  const std::string damaged = record_path(cache, disk_record(kFingerprint, heads[2]));
  write_bytes(damaged, read_bytes(damaged).substr(0, 50));
  // For root, who may write everywhere: become someone else.
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;
  ::chmod(directory.path().c_str(), 0755);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path())) {
    if (root) {
      EXPECT_EQ(::chown(entry.path().c_str(), kNobody, kNobody), 0);
    }
    if (entry.is_directory()) ::chmod(entry.path().c_str(), 0500);
  }
  EXPECT_EQ(in_child([&] {
              if (root && ::setuid(kNobody) != 0) return kSkipped;
              auto store = open_store(cache);
              EXPECT_FALSE(store->stats().writable);
              EXPECT_NE(store->stats().last_reason.find("Permission denied"), std::string::npos);
              EXPECT_EQ(store->scan(), std::vector(heads.begin(), heads.begin() + 2));
              EXPECT_EQ(count_right(*store, heads), 2);
              EXPECT_EQ(store->stats().corrupt, 1u + 1u);  // by scan() and get()
              store->used(std::vector{heads[0].key});
              put_all(*store, chain(2, 1));
              store->drain();
              EXPECT_EQ(store->stats().dropped, 2u);
              EXPECT_EQ(count_files(cache, ""), 3);
              // Nor can one be made.
              auto none = open_store(cache + "/below");
              EXPECT_FALSE(none->stats().writable);
              EXPECT_TRUE(none->scan().empty());
              return 0;
            }),
            0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path()))
    if (entry.is_directory()) ::chmod(entry.path().c_str(), 0700);
}

TEST(DiskFaultsTest, PlacesThatCannotBeTrustedAreRefused) {
  TemporaryDirectory directory;
  DiskOptions options;
  options.fingerprint = kFingerprint;
  const auto error_at = [&](const std::string& path) {
    options.directory = path;
    const auto store = DiskStore::open(options);
    return store.ok() ? std::string() : store.error().message;
  };
  EXPECT_NE(error_at(""), "");
  write_bytes(directory.path() + "/file", "x");
  EXPECT_NE(error_at(directory.path() + "/file").find("not a directory"), std::string::npos);
  EXPECT_NE(error_at(directory.path() + "/file/below").find("not a directory"), std::string::npos);
  ::chmod(directory.path().c_str(), 0777);
  EXPECT_NE(error_at(directory.path()).find("other users may write"), std::string::npos);
  ::chmod(directory.path().c_str(), 0700);
  EXPECT_EQ(error_at(directory.path()), "");
  ::chmod(folder_path(directory.path(), kFingerprint).c_str(), 0770);
  EXPECT_NE(error_at(directory.path()).find("other users may write"), std::string::npos);
}

// --- Processes that die, and that live side by side

TEST(DiskFaultsTest, LeftOversOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  TemporaryDirectory directory;
  { open_store(directory.path()); }
  const std::string folder = folder_path(directory.path(), kFingerprint);
  write_bytes(folder + "/tmp-1-0123456789abcdef", "left");
  bool looked = false;
  auto writer = open_store(directory.path(), [&](DiskOptions& o) {
    o.write = [&](int fd, const void* data, size_t n) {
      if (!looked) {
        looked = true;
        open_store(directory.path());
        EXPECT_EQ(count_files(directory.path(), "tmp-"), 1);
      }
      return ::write(fd, data, n);
    };
  });
  EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
  put_all(*writer, chain(1, 0));
  writer->drain();
  EXPECT_TRUE(looked);
  EXPECT_EQ(count_right(*writer, chain(1, 0)), 1);
}

// Writes records of chain `seed` for ever, a byte to `out` for each that is on disk.
int write_and_tell(const std::string& directory, int seed, int out) {
  auto store = open_store(directory);
  const auto heads = chain(seed, 200);
  for (size_t i = 0; i < heads.size(); i++) {
    store->put(heads[i], sections_of(heads[i], heads[i].key.low % 300000));
    if (i % 3 == 0) store->used(std::vector{heads[i].key, heads[0].key});
    store->drain();
    if (::write(out, "x", 1) != 1) return 1;
  }
  return 0;
}

TEST(DiskFaultsTest, KilledWritersLoseNothingThatTheyAcknowledged) {
  TemporaryDirectory directory;
  const int kills = full() ? 200 : 25;
  std::mt19937 random(3);
  uint64_t acknowledged = 0, lost = 0, wrong = 0, left_over = 0, found = 0;
  for (int kill = 0; kill < kills; kill++) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      ::_exit(write_and_tell(directory.path(), kill, ends[1]));
    }
    ::close(ends[1]);
    uint64_t told = 0;
    char byte;
    for (const uint64_t least = random() % 6; told < least && ::read(ends[0], &byte, 1) == 1;) told++;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &byte, 1) == 1) told++;
    ::close(ends[0]);
    acknowledged += told;
    left_over += static_cast<uint64_t>(count_files(directory.path(), "tmp-"));

    auto store = open_store(directory.path());
    EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
    const auto heads = chain(kill, 200);
    for (uint64_t i = 0; i < told; i++) lost += count_right(*store, {heads[i]}) == 0;
    if (kill % 10 != 9 && kill != kills - 1) continue;
    // Now and then all that is there, of all writers.
    const auto scanned = store->scan();
    found = scanned.size();
    for (const RecordHead& head : scanned) {
      const auto record = store->get(head);
      wrong += !record.ok() || !is_right(*record, head);
    }
    EXPECT_EQ(store->stats().corrupt, 0u) << store->stats().last_reason;
    EXPECT_GE(found, acknowledged);
  }
  std::printf(
      "%d writers killed: %d records acknowledged, %d lost, %d found, %d wrong, %d left-overs removed\n",
      kills, static_cast<int>(acknowledged), static_cast<int>(lost), static_cast<int>(found),
      static_cast<int>(wrong), static_cast<int>(left_over));
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(acknowledged, static_cast<uint64_t>(kills));
}

// Writes, reads, refreshes within a budget that holds a fraction.
int live_beside_others(const std::string& directory, int process, int rounds) {
  auto store = open_store(directory, [](DiskOptions& o) { o.budget_bytes = 1 << 20; });
  std::mt19937 random(process);
  uint64_t hits = 0;
  for (int round = 0; round < rounds; round++) {
    const auto heads = chain(static_cast<int>(random() % 40), 3);
    put_all(*store, heads, 12000);
    if (round % 4 == 0) store->drain();
    store->refresh();
    for (const RecordHead& head : chain(static_cast<int>(random() % 40), 3)) {
      const auto record = store->get(head);
      if (record.ok()) {
        EXPECT_TRUE(is_right(*record, head));
        hits++;
      } else {
        EXPECT_EQ(record.error().kind, ErrorKind::not_found) << record.error().message;
      }
    }
  }
  store->drain();
  const auto stats = store->stats();
  EXPECT_EQ(stats.corrupt + stats.failed + stats.unusable, 0u) << stats.last_reason;
  EXPECT_GT(stats.evicted, 0u);
  EXPECT_GT(hits, 0u);
  return 0;
}

TEST(DiskFaultsTest, TwoProcessesOnOneDirectory) {
  TemporaryDirectory directory;
  const int rounds = full() ? 500 : 60;
  EXPECT_EQ(in_child([&] {
              const pid_t other = ::fork();
              if (other == 0) ::_exit(live_beside_others(directory.path(), 2, rounds) || HasFailure());
              live_beside_others(directory.path(), 1, rounds);
              int status = 0;
              ::waitpid(other, &status, 0);
              EXPECT_EQ(status, 0);
              return 0;
            }),
            0);
  const auto check = *verify_records(directory.path(), false);
  EXPECT_EQ(check.damaged + check.unreadable + check.unusable, 0u);
  EXPECT_EQ(count_files(directory.path(), "tmp-"), 0);
  EXPECT_GT(check.good, 0u);
  uint64_t bytes = 0;
  for (const DiskRecord& file : listed(directory.path())) bytes += file.bytes;
  EXPECT_LE(bytes, (1u << 20) + (1u << 20) / 8);
}

}  // namespace
}  // namespace anabranch
