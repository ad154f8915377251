#include "terminal/history.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace anabranch::terminal {
namespace {

class History : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/anabranch-history-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/deep/history";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
};

TEST_F(History, LinesComeBackInTheirOrder) {
  EXPECT_TRUE(read_history(path_).empty());
  const std::vector<std::string> lines = {"Grüße", "two\nlines", "\"quotes\" \\ and \t tabs", "你好 🎉"};
  for (const auto& line : lines) EXPECT_TRUE(append_history(path_, line));
  EXPECT_EQ(read_history(path_), lines);
}

TEST_F(History, IsForItsOwnerOnly) {
  std::filesystem::create_directories(folder_ + "/deep");
  std::ofstream(path_) << "\"old\"\n";
  ::chmod(path_.c_str(), 0644);
  EXPECT_TRUE(append_history(path_, "new"));
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(read_history(path_).size(), 2u);
}

TEST_F(History, WhatIsNoStringIsLeftOut) {
  std::filesystem::create_directories(folder_ + "/deep");
  std::ofstream(path_) << "no JSON\n12\n\"\"\n\"good\"\n{\"a\":1}\n";
  EXPECT_EQ(read_history(path_), std::vector<std::string>{"good"});
}

TEST_F(History, OldLinesGo) {
  for (size_t i = 0; i < 2 * kHistoryLines + 1; i++) append_history(path_, std::to_string(i));
  const auto lines = read_history(path_);
  ASSERT_EQ(lines.size(), kHistoryLines);
  EXPECT_EQ(lines.back(), std::to_string(2 * kHistoryLines));
  trim_history(path_, lines);
  EXPECT_EQ(read_history(path_), lines);
  std::ifstream file(path_);
  size_t n = 0;
  for (std::string line; std::getline(file, line);) n++;
  EXPECT_EQ(n, kHistoryLines);
}

TEST_F(History, LongMessagesAreNotKept) {
  EXPECT_TRUE(append_history(path_, std::string(kHistoryLineBytes + 1, 'x')));
  EXPECT_TRUE(read_history(path_).empty());
}

// As on a full disk: the lines that are there stay.
TEST_F(History, StaysWholeWhenItCannotBeWrittenAnew) {
  for (size_t i = 0; i < 2 * kHistoryLines + 1; i++) append_history(path_, std::to_string(i));
  const auto size = std::filesystem::file_size(path_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 5000;  // bytes of a file, of which all lines would take more
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  trim_history(path_, read_history(path_));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(std::filesystem::file_size(path_), size);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/deep"), {}), 1) << "nothing else";
}

TEST_F(History, AFileThatCannotBeWritten) {
  EXPECT_FALSE(append_history("/proc/anabranch/history", "text"));
}

}  // namespace
}  // namespace anabranch::terminal
