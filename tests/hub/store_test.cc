#include "hub/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "hub/blob_file.h"
#include "hub/model_directory.h"
#include "hub/pull.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'c');

class HubStore : public ::testing::Test {
 protected:
  HubStore()
      : root_(fs::temp_directory_path() / fmt::format("hub-store-{}", ::getpid())), store_(root_.string()) {
    fs::remove_all(root_);
  }
  ~HubStore() override { fs::remove_all(root_); }

  // Stores a file as if it had been downloaded.
  RepoFile add(const std::string& path, const std::string& text) {
    RepoFile file{path, text.size(), ""};
    Digest digest(std::string(64, '0'), text.size());
    digest.add(text);
    file.oid = digest.finish();
    EXPECT_TRUE(store_.prepare("o/n").ok());
    auto blob = BlobFile::open(store_, "o/n", file);
    EXPECT_TRUE(blob.ok() && *blob);
    if (!(*blob)->is_done()) {
      EXPECT_TRUE((*blob)->append(text).ok());
      EXPECT_TRUE(*(*blob)->finish());
    }
    const auto linked = store_.link("o/n", kCommit, file);
    EXPECT_TRUE(linked.ok()) << linked.error().message;
    return file;
  }

  fs::path root_;
  Store store_;
};

TEST(Digest, IsTheOneOfTheName) {
  Digest sha256(std::string(64, '0'), 3), git(std::string(40, '0'), 6);
  sha256.add("a");
  sha256.add("bc");
  git.add("hello\n");
  EXPECT_EQ(sha256.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(git.finish(), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
}

TEST_F(HubStore, LinksAreRelative) {
  const auto top = add("config.json", "{}"), deep = add("a/b/c.gguf", "x");
  const fs::path snapshot = root_ / "models--o--n/snapshots" / kCommit;
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), "../../blobs/" + top.oid);
  EXPECT_EQ(fs::read_symlink(snapshot / "a/b/c.gguf"), "../../../../blobs/" + deep.oid);
  EXPECT_EQ(*read_file((snapshot / "a/b/c.gguf").string(), 9), "x");
  EXPECT_EQ(files_below(store_.snapshot_directory("o/n", kCommit)),
            (std::vector<std::string>{"a/b/c.gguf", "config.json"}));
  EXPECT_TRUE(fs::exists(root_ / "CACHEDIR.TAG"));
}

TEST_F(HubStore, ALinkFollowsANewBlob) {
  add("config.json", "{}");
  const auto newer = add("config.json", "{ }");
  const fs::path path = root_ / "models--o--n/snapshots" / kCommit / "config.json";
  EXPECT_EQ(fs::read_symlink(path), "../../blobs/" + newer.oid);
  // A file that somebody has put there stays.
  fs::remove(path);
  std::ofstream(path) << "own";
  add("config.json", "{}");
  EXPECT_EQ(*read_file(path.string(), 9), "own");
}

TEST_F(HubStore, RefsNameCommits) {
  add("config.json", "{}");
  EXPECT_EQ(store_.commit_of("o/n", "main"), std::nullopt);
  ASSERT_TRUE(store_.write_ref("o/n", "main", kCommit).ok());
  ASSERT_TRUE(store_.write_ref("o/n", "refs/pr/1", kCommit).ok());
  EXPECT_EQ(store_.commit_of("o/n", "main"), kCommit);
  EXPECT_EQ(store_.commit_of("o/n", "refs/pr/1"), kCommit);
  EXPECT_EQ(store_.commit_of("o/n", kCommit), kCommit);
  EXPECT_EQ(store_.commit_of("o/n", std::string(40, 'd')), std::nullopt);
  EXPECT_EQ(store_.commit_of("o/n", "../../x"), std::nullopt);
  std::ofstream(root_ / "models--o--n/refs/bad") << "../../../etc";
  EXPECT_EQ(store_.commit_of("o/n", "bad"), std::nullopt);
}

TEST_F(HubStore, OneProcessWritesABlob) {
  const RepoFile file{"x", 3, std::string(64, 'a')};
  ASSERT_TRUE(store_.prepare("o/n").ok());
  auto first = BlobFile::open(store_, "o/n", file);
  ASSERT_TRUE(first.ok() && *first);
  const auto second = BlobFile::open(store_, "o/n", file);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(*second) << "locked twice";
}

TEST_F(HubStore, AModelIsFoundWhenItIsComplete) {
  const auto name = *parse_model_name("o/n");
  EXPECT_NE(find_in_store(store_, name, Purpose::model).error().message.find("is not in"), std::string::npos);
  add("config.json", "{}");
  ASSERT_TRUE(store_.write_ref("o/n", "main", kCommit).ok());
  add("model.safetensors.index.json",
      R"({"weight_map": {"a": "m-1.safetensors", "mtp.b": "m-2.safetensors"}})");
  add("m-2.safetensors", "x");
  EXPECT_NE(find_in_store(store_, name, Purpose::model).error().message.find("lacks m-1.safetensors"),
            std::string::npos);
  EXPECT_TRUE(find_in_store(store_, name, Purpose::mtp_head).ok());
  add("m-1.safetensors", "y");
  EXPECT_NE(find_in_store(store_, name, Purpose::model).error().message.find("tokenizer.json"),
            std::string::npos);
  add("tokenizer.json", "{}");
  EXPECT_EQ(*find_in_store(store_, name, Purpose::model), store_.snapshot_directory("o/n", kCommit));
  // A link whose blob is gone is no file.
  fs::remove(fs::canonical(store_.snapshot_directory("o/n", kCommit) + "/m-1.safetensors"));
  EXPECT_FALSE(find_in_store(store_, name, Purpose::model).ok());
}

TEST_F(HubStore, ARefMayEndWithALineBreak) {
  add("config.json", "{}");
  fs::create_directories(root_ / "models--o--n/refs");
  std::ofstream(root_ / "models--o--n/refs/main") << kCommit << "\n";
  EXPECT_EQ(store_.commit_of("o/n", "main"), kCommit);
}

}  // namespace
}  // namespace anabranch::hub
