#include "base/private_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace anabranch {
namespace {

class PrivateFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string at(const std::string& name) const { return directory_ + "/" + name; }
  static unsigned mode_of(const std::string& path) {
    struct stat about {};
    EXPECT_EQ(::lstat(path.c_str(), &about), 0) << path;
    return about.st_mode & 0777;
  }

  const std::string directory_ = ::testing::TempDir() + "private_files_" + std::to_string(::getpid());
};

TEST_F(PrivateFile, AFileThatOthersCouldReadBecomesPrivate) {
  std::ofstream(at("old")) << "kept";
  ::chmod(at("old").c_str(), 0666);
  for (const char* name : {"old", "new"}) {
    EXPECT_TRUE(make_private_file(at(name)).ok());
    EXPECT_EQ(mode_of(at(name)), 0600u) << name;
  }
  std::ostringstream text;
  text << std::ifstream(at("old")).rdbuf();
  EXPECT_EQ(text.str(), "kept");
}

TEST_F(PrivateFile, NothingButAFileIsTaken) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(at("folder"));
  std::ofstream(at("elsewhere")) << "";
  ::chmod(at("elsewhere").c_str(), 0644);
  std::filesystem::create_symlink(at("elsewhere"), at("link"));
  for (const char* name : {"fifo", "folder", "link", "none/file"})
    EXPECT_FALSE(make_private_file(at(name)).ok()) << name;
  EXPECT_EQ(mode_of(at("elsewhere")), 0644u) << "a link is not followed";
}

TEST_F(PrivateFile, DirectoriesAreMadeForTheirOwnerOnly) {
  EXPECT_EQ(make_private_directory(at("a/b/c")), 0);
  for (const char* name : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(at(name)), 0700u) << name;
  EXPECT_EQ(make_private_directory(at("a/b")), 0) << "it is there";
  std::ofstream(at("file")) << "";
  EXPECT_NE(make_private_directory(at("file/below")), 0);
}

// A pipe takes few bytes at a time.
TEST_F(PrivateFile, WriteAllWritesAll) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string bytes(1 << 20, 'x');
  std::thread writer([&] {
    EXPECT_TRUE(write_all(ends[1], bytes));
    ::close(ends[1]);
  });
  std::string read;
  char piece[5000];
  for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) > 0;) read.append(piece, static_cast<size_t>(n));
  writer.join();
  ::close(ends[0]);
  EXPECT_EQ(read, bytes);
  EXPECT_FALSE(write_all(-1, "x"));
}

}  // namespace
}  // namespace anabranch
