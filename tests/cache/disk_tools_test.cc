// What `anabranch cache` does with the files.
#include "cache/disk_tools.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cache/records.h"
#include "cache/shared_states.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;

TEST(DiskToolsTest, ListVerifyClear) {
  TemporaryDirectory directory;
  EXPECT_TRUE(list_cache(directory.path() + "/none")->empty());
  EXPECT_EQ(verify_records(directory.path() + "/none", true)->good, 0u);
  EXPECT_EQ(clear_records(directory.path() + "/none")->files, 0u);
  const auto heads = chain(1, 3);
  { put_all(*open_store(directory.path()), heads); }
  {
    put_all(*open_store(directory.path(), [](DiskOptions& o) { o.fingerprint = {1, 2}; }), chain(2, 0));
  }
  const auto files = listed(directory.path());
  ASSERT_EQ(files.size(), 5u);
  EXPECT_EQ(files[0].fingerprint, (Fingerprint{1, 2}));

  const std::string path = record_path(directory.path(), disk_record(kFingerprint, heads[1]));
  std::string bytes = read_bytes(path);
  bytes.back() ^= 1;
  write_bytes(path, bytes);
  const std::string folder = folder_path(directory.path(), kFingerprint);
  write_bytes(folder + "/notes.txt", "not the cache's");
  for (const bool remove : {false, true}) {
    const auto check = *verify_records(directory.path(), remove);
    EXPECT_EQ(check.good, 4u);
    EXPECT_EQ(check.damaged, 1u);
    EXPECT_EQ(check.orphans, 2u);
    EXPECT_EQ(check.removed, remove ? 1u : 0u);
    ASSERT_EQ(check.problems.size(), 1u);
    EXPECT_NE(check.problems[0].find("checksum of section 2"), std::string::npos);
    EXPECT_EQ(std::filesystem::exists(path), !remove);
  }
  auto store = open_store(directory.path());  // alive while another process clears
  EXPECT_EQ(clear_records(directory.path())->files, 4u);
  EXPECT_TRUE(listed(directory.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(folder + "/notes.txt"));
  std::filesystem::remove_all(directory.path());
  put_all(*store, heads);
  store->drain();
  EXPECT_EQ(count_right(*store, heads), 4) << store->stats().last_reason;
}

// Of a model that is not loaded.
TEST(DiskToolsTest, ForgetsWhatNothingElseNeeds) {
  const TemporaryDirectory directory;
  const auto heads = chain(1, 3);
  { put_all(*open_store(directory.path()), heads); }
  std::vector<DiskRecord> records;
  for (const RecordHead& head : heads) {
    records.push_back(disk_record(kFingerprint, head));
    EXPECT_EQ(full_name(*parse_full_name(full_name(records.back()))), full_name(records.back()));
  }
  for (const char* bad : {"", "x", "00/11", "../../etc/passwd"}) EXPECT_FALSE(parse_full_name(bad)) << bad;
  ASSERT_TRUE(forget_records(directory.path(), {records[0], records[1]}).ok());
  EXPECT_EQ(listed(directory.path()).size(), heads.size()) << "others stand on them";
  ASSERT_TRUE(forget_records(directory.path(), {records.begin() + 1, records.end()}).ok());
  ASSERT_EQ(listed(directory.path()).size(), 1u);
  ASSERT_TRUE(forget_records(directory.path(), records).ok());
  EXPECT_TRUE(listed(directory.path()).empty());
  EXPECT_TRUE(forget_records(directory.path() + "/none", records).ok());
}

TEST(DiskToolsTest, AboutSaysWhatAFingerprintIsOf) {
  const TemporaryDirectory directory;
  const std::string folder = folder_path(directory.path(), kFingerprint);
  const auto heads = chain(1, 2);
  auto store = open_store(directory.path(), [](DiskOptions& o) { o.about = "model tiny\x1b[31m\x7f\n"; });
  store->drain();
  EXPECT_EQ(read_about(folder), "");  // nothing is kept yet
  store->put(heads[0], sections_of(heads[0], 3000));
  store->drain();
  ASSERT_EQ(list_cache(directory.path())->size(), 1u);
  EXPECT_EQ(list_cache(directory.path())->front().about, "model tiny[31m\n");  // no commands to a terminal
  struct stat info {};
  ASSERT_EQ(::stat((folder + "/about.txt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(clear_records(directory.path())->files, 1u);
  EXPECT_FALSE(std::filesystem::exists(folder));
  store->put(heads[0], sections_of(heads[0], 3000));  // comes back with the next record
  store->drain();
  EXPECT_EQ(read_about(folder), "model tiny[31m\n");
  store.reset();
  store = open_store(directory.path(), [](DiskOptions& o) { o.about = "model moved\n"; });
  store->put(heads[1], sections_of(heads[1], 3000));
  store->drain();
  EXPECT_EQ(read_about(folder), "model moved\n");
  std::filesystem::remove(folder + "/about.txt");
  std::filesystem::create_directory(folder + "/about.txt");  // whatever is there instead is no matter
  EXPECT_EQ(read_about(folder), "");
  store->put(heads[2], sections_of(heads[2], 3000));
  store->drain();
  EXPECT_EQ(store->stats().written_records, 2u);
  EXPECT_EQ(listed(directory.path()).size(), 3u);
}

TEST(DiskToolsTest, ClearsByFingerprintAndAge) {
  const TemporaryDirectory directory;
  const auto heads = chain(1, 3);
  const Fingerprint other{1, 2};
  { put_all(*open_store(directory.path()), heads); }
  {
    put_all(*open_store(directory.path(), [&](DiskOptions& o) { o.fingerprint = other; }), heads);
  }
  EXPECT_EQ(clear_records(directory.path(), {.fingerprint = "00000000000000010000000000000002"})->files,
            heads.size());
  EXPECT_EQ(listed(directory.path()).size(), heads.size());
  EXPECT_EQ(listed(directory.path())[0].fingerprint, kFingerprint);
  EXPECT_EQ(clear_records(directory.path(), {.fingerprint = "ffff"})->files, 0u);

  // All but the second block look old; the first one stays, since the second stands on it.
  for (size_t i = 0; i < heads.size(); i++) {
    const timespec when{i == 1 ? 2'000'000 : 1'000'000, 0}, both[2] = {when, when};
    const std::string path = record_path(directory.path(), disk_record(kFingerprint, heads[i]));
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
  }
  EXPECT_EQ(clear_records(directory.path(), {.used_before_ns = 1'000'000'000'000'000})->files, 0u);
  EXPECT_EQ(clear_records(directory.path(), {.used_before_ns = 1'500'000'000'000'000})->files,
            heads.size() - 2);
  std::vector<uint32_t> left;
  for (const auto& file : listed(directory.path())) left.push_back(file.length);
  EXPECT_EQ(left, (std::vector<uint32_t>{512, 256}));
  EXPECT_EQ(verify_records(directory.path(), false)->good, 2u);
}

TEST(DiskToolsTest, SaysWhatCannotBeRead) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  write_bytes(file, "text");
  EXPECT_EQ(list_cache(file).error().kind, ErrorKind::io);
  EXPECT_EQ(clear_records(file).error().kind, ErrorKind::io);
  { put_all(*open_store(directory.path()), chain(1, 0)); }
  // A folder by name that is none.
  write_bytes(folder_path(directory.path(), {3, 4}), "no folder");
  const auto folders = *list_cache(directory.path());
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0].problem, "");
  EXPECT_NE(folders[1].problem.find("cannot list"), std::string::npos);
  const auto check = *verify_records(directory.path(), true);
  EXPECT_EQ(check.unreadable, 1u);
  EXPECT_EQ(check.bad(), 1u);
  EXPECT_EQ(check.good, folders[0].records.size());
  EXPECT_FALSE(clear_records(directory.path(), {.fingerprint = "00000000000000030"}).ok());
}

TEST(DiskToolsTest, BranchesAreStretchesOfTheTree) {
  const auto add = [](CacheFolder& folder, const std::vector<RecordHead>& heads, size_t from, int64_t used) {
    for (size_t i = from; i < heads.size(); i++) {
      DiskRecord record = disk_record(kFingerprint, heads[i]);
      record.bytes = 4096;
      record.used_at_ns = used;
      folder.records.push_back(record);
    }
  };
  CacheFolder folder{kFingerprint, {}, {}, {}};
  EXPECT_TRUE(branches_of(folder).empty());
  const auto trunk = chain(1, 4);  // 1,024 tokens and 7
  add(folder, trunk, 0, 5);
  // Another end after the second block, used later.
  const auto block = head_after(RecordKind::block, trunk[1].key, 512, std::vector<int>(kBlockTokens, 1));
  add(folder, {block, head_after(RecordKind::snapshot, block.key, 768, {1, 2, 3})}, 0, 6);
  add(folder, {head_after(RecordKind::snapshot, trunk[1].key, 512, {1})}, 0, 6);
  add(folder, chain(2, 0, 9), 0, 4);  // a short prompt
  add(folder, chain(3, 2), 1, 9);     // its first block is missing
  const auto branches = branches_of(folder);
  ASSERT_EQ(branches.size(), 5u);
  const auto is = [&](size_t i, int depth, uint32_t from, uint32_t to, uint64_t blocks,
                      const std::vector<uint32_t>& points, int64_t used) {
    const CacheBranch& b = branches[i];
    EXPECT_EQ(std::tie(b.depth, b.from, b.to, b.blocks, b.points, b.used_at_ns),
              std::tie(depth, from, to, blocks, points, used))
        << i;
    EXPECT_EQ(b.bytes, 4096 * (blocks + points.size())) << i;
    EXPECT_EQ(b.reachable, i < 4) << i;
  };
  is(0, 0, 0, 513, 2, {513}, 6);
  is(1, 1, 512, 771, 1, {771}, 6);
  is(2, 1, 512, 1031, 2, {1031}, 5);
  is(3, 0, 0, 9, 0, {9}, 4);
  is(4, 0, 256, 519, 1, {519}, 9);
}

}  // namespace
}  // namespace anabranch
