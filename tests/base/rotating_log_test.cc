#include "base/rotating_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temp_dir.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

class RotatingLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const fs::path folder_ = anabranch::testing::temp_path("rotating");
  const std::string path_ = folder_ / "a.log";
};

TEST_F(RotatingLogTest, KeepsFiveOldFiles) {
  const auto log = std::move(*RotatingLog::open(path_, 10));
  for (int i = 0; i < 9; i++) log->write(std::string(7, static_cast<char>('0' + i)));
  EXPECT_EQ(read("a.log"), "8888888\n");
  for (int i = 1; i <= 5; i++)
    EXPECT_EQ(read("a." + std::to_string(i) + ".log"), std::string(7, static_cast<char>('8' - i)) + "\n");
  EXPECT_FALSE(fs::exists(folder_ / "a.6.log"));
  // What was there stays, and a line may be longer than a file.
  const auto next = std::move(*RotatingLog::open(path_, 100));
  next->write("next");
  EXPECT_EQ(read("a.log"), "8888888\nnext\n");
  next->write(std::string(200, 'x'));
  EXPECT_EQ(read("a.log").size(), 201u);
}

TEST_F(RotatingLogTest, GoesOnWhenAFileCannotBeMoved) {
  const auto log = std::move(*RotatingLog::open(path_, 10));
  log->write("one");
  std::ofstream(folder_ / "a.4.log") << "old";
  fs::create_directories(folder_ / "a.5.log" / "in the way");
  for (int i = 0; i < 4; i++) log->write("two");
  EXPECT_EQ(read("a.log"), "one\ntwo\ntwo\ntwo\ntwo\n");
}

TEST_F(RotatingLogTest, OpensAFileThatWasMovedAwayAgain) {
  const auto log = std::move(*RotatingLog::open(path_, 100));
  log->write("one");
  fs::rename(path_, folder_ / "moved");
  log->write("two");
  ASSERT_TRUE(log->reopen().ok());
  log->write("three");
  EXPECT_EQ(read("moved"), "one\ntwo\n");
  EXPECT_EQ(read("a.log"), "three\n");
  EXPECT_EQ(RotatingLog::open(folder_ / "no" / "a.log", 100).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace anabranch
