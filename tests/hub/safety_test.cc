// What a repository, a file of the store or a busy hub must not bring about.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hub/blob_file.h"
#include "hub/repository.h"
#include "hub/retry.h"
#include "hub/store.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

std::string repository_with(const std::string& files) {
  return R"({"id":"org/name","sha":")" + std::string(40, 'a') + R"(","siblings":[)" + files + "]}";
}

std::string file_named(const std::string& path, const std::string& more = R"(,"size":3)") {
  return R"({"rfilename":")" + path + R"(","blobId":")" + std::string(40, '2') + "\"" + more + "}";
}

TEST(RepositorySafety, FilesStayWithinTheModel) {
  ASSERT_TRUE(parse_repository(repository_with(file_named("a/config.json"))).ok());
  for (const char* path :
       {"../x", "/etc/passwd", "a/../../x", "a/..", "..", "", ".", "a//b", "a\\\\b", "a\\u0000b"})
    EXPECT_FALSE(parse_repository(repository_with(file_named(path))).ok()) << path;
}

TEST(RepositorySafety, EachFileHasOneSizeAndOneHash) {
  for (const std::string& files :
       {file_named("a") + "," + file_named("a"), file_named("a", ""), file_named("a", R"(,"size":-1)"),
        file_named("a", R"(,"size":"3")"), file_named("a", R"(,"size":99999999999999)"),
        std::string(R"({"rfilename":"a","size":3})"),
        std::string(R"({"rfilename":"a","size":3,"blobId":"../../../../../../../../../../etc/passwd/xx/"})"),
        std::string(R"({"rfilename":"a","size":3,"lfs":{"sha256":"22"}})")})
    EXPECT_FALSE(parse_repository(repository_with(files)).ok()) << files;
}

class StoreSafety : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    ASSERT_TRUE(store_.prepare("o/n").ok());
  }
  void TearDown() override { fs::remove_all(root_); }

  const fs::path root_ = fs::temp_directory_path() / ("hub_safety_" + std::to_string(::getpid()));
  const Store store_{(root_ / "hub").string()};
  const std::string commit_ = std::string(40, 'c');
};

TEST_F(StoreSafety, ALinkInASnapshotLeadsNoFileOut) {
  const fs::path outside = root_ / "outside";
  fs::create_directories(outside);
  fs::create_directories(store_.snapshot_directory("o/n", commit_));
  fs::create_symlink(outside, store_.snapshot_directory("o/n", commit_) + "/deep");
  EXPECT_FALSE(store_.link("o/n", commit_, {"deep/config.json", 3, std::string(40, '2')}).ok());
  EXPECT_TRUE(fs::is_empty(outside));
  EXPECT_TRUE(store_.link("o/n", commit_, {"other/config.json", 3, std::string(40, '2')}).ok());
}

TEST_F(StoreSafety, ABlobThatWasCutIsNotThere) {
  const RepoFile file{"a", 10, std::string(40, '2')};
  for (const auto& [text, whole] :
       {std::pair("nine byte", false), std::pair("ten bytes!", true), std::pair("eleven byte", false)}) {
    std::ofstream(store_.blob_path("o/n", file.oid), std::ios::trunc) << text;
    EXPECT_EQ(store_.has_blob("o/n", file), whole) << text;
  }
}

TEST_F(StoreSafety, ABlobDoesNotGrowBeyondItsSize) {
  auto blob = BlobFile::open(store_, "o/n", {"a", 10, std::string(40, '2')});
  ASSERT_TRUE(blob.ok() && *blob);
  EXPECT_TRUE((*blob)->append("nine byte").ok());
  EXPECT_FALSE((*blob)->append("xx").ok());
  EXPECT_TRUE((*blob)->append("x").ok());
}

TEST_F(StoreSafety, ARevisionIsNoPath) {
  std::ofstream(store_.repo_directory("o/n") + "/secret") << commit_;
  fs::create_directories(store_.repo_directory("o/n") + "/refs");
  EXPECT_EQ(store_.commit_of("o/n", "../secret"), std::nullopt);
  ASSERT_TRUE(store_.write_ref("o/n", "main", commit_).ok());
  EXPECT_EQ(store_.commit_of("o/n", "main"), commit_);
}

TEST(RetryWaits, GrowToALimitAndEnd) {
  Retry retry;
  net::Response busy;
  busy.status = 503;
  std::vector<double> waits;
  while (const auto wait = retry.wait_after(busy)) waits.push_back(*wait);
  ASSERT_EQ(waits.size(), 5u);
  for (size_t i = 1; i < waits.size(); ++i) EXPECT_EQ(waits[i], 2 * waits[i - 1]) << i;
}

TEST(RetryWaits, AreWhatTheHubAsksForWithinReason) {
  net::Response busy;
  busy.status = 429;
  busy.headers["retry-after"] = "30";
  EXPECT_EQ(Retry().wait_after(busy), 30);
  busy.headers["retry-after"] = "86400";
  EXPECT_EQ(Retry().wait_after(busy), std::nullopt);
}

}  // namespace
}  // namespace anabranch::hub
