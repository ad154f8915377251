#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/poison.h"

namespace anabranch {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("anabranch_mapped_file_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path folder_;
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, ShowsTheBytes) {
  const std::string content = std::string("first\0second", 12) + std::string(10000, 'x');
  const std::string path = write("data", content);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(text_of(**file), content);
  EXPECT_EQ((*file)->path(), path);
}

TEST_F(MappedFileTest, SurvivesTheFilesRemoval) {
  auto file = MappedFile::open(write("data", "still here"));
  ASSERT_TRUE(file.ok());
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(text_of(**file), "still here");
}

TEST_F(MappedFileTest, EmptyFileIsAnEmptySpan) {
  auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE((*file)->bytes().empty());
  EXPECT_EQ(read_file((*file)->path(), 0).value(), "");
}

TEST_F(MappedFileTest, ErrorsNameThePath) {
  const std::string missing = (folder_ / "missing").string();
  auto file = MappedFile::open(missing);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::not_found);
  EXPECT_NE(file.error().message.find(missing), std::string::npos);

  file = MappedFile::open(folder_.string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::invalid);
  EXPECT_NE(file.error().message.find("not a regular file"), std::string::npos);

  file = MappedFile::open("/dev/null");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::invalid);
}

TEST_F(MappedFileTest, ReadFileKeepsToItsLimit) {
  const std::string path = write("data", "12345");
  EXPECT_EQ(read_file(path, 5).value(), "12345");
  const auto result = read_file(path, 4);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::exhausted);
  EXPECT_NE(result.error().message.find("5 bytes"), std::string::npos);
}

#if defined(ANABRANCH_POISON)
TEST_F(MappedFileTest, AddressSanitizerSeesReadsBeyondTheEnd) {
  auto file = MappedFile::open(write("data", "0123456789"));
  ASSERT_TRUE(file.ok());
  const volatile std::byte* data = (*file)->bytes().data();
  const auto byte_at = [&](size_t i) { return static_cast<char>(data[i]); };
  EXPECT_EQ(byte_at(9), '9');
  EXPECT_DEATH(byte_at(10), "use-after-poison");
}
#endif

}  // namespace
}  // namespace anabranch
