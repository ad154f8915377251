#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/outside_text.h"
#include "base/printed_text.h"

namespace anabranch {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Sends stderr back to where it was.
class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fmt::format("{}log_test.{}", ::testing::TempDir(), ::getpid());
    ::unlink(path_.c_str());
    stderr_ = ::dup(STDERR_FILENO);
  }
  void TearDown() override {
    ::dup2(stderr_, STDERR_FILENO);
    ::close(stderr_);
    ::unlink(path_.c_str());
  }
  std::string path_;
  int stderr_ = -1;
};

TEST_F(Log, WhatClientsChooseIsOneLineAndMovesNoCursor) {
  ASSERT_TRUE(log_to_file(path_).ok());
  log_error("host 'a\n12:00:00.000 error forged\x1b]52;c;eA==\x07 \u009b31m \u202e\u2066\U000E0041'");
  const std::string text = text_of(path_);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_EQ(escape_hidden(text), text);
}

TEST_F(Log, LinesGoToAFileThatIsItsOwnersAlone) {
  ASSERT_TRUE(log_to_file(path_).ok());
  log_error("one");
  std::fputs("two\n", stderr);  // whoever writes to stderr
  const std::string text = text_of(path_);
  EXPECT_NE(text.find("error one\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "colours in a file";
  EXPECT_TRUE(text.ends_with("two\n")) << text;
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  // Moved away as by logrotate: the old file is written to until the path is opened again.
  const std::string old = path_ + ".1";
  ASSERT_EQ(std::rename(path_.c_str(), old.c_str()), 0);
  log_error("three");
  ASSERT_TRUE(log_to_file(path_).ok());
  log_error("four");
  EXPECT_NE(text_of(old).find("three"), std::string::npos);
  EXPECT_EQ(text_of(old).find("four"), std::string::npos);
  EXPECT_NE(text_of(path_).find("four"), std::string::npos);
  ::unlink(old.c_str());
  const auto nowhere = log_to_file("/no/such/folder/log");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("/no/such/folder/log"), std::string::npos);
  log_error("five");
  EXPECT_NE(text_of(path_).find("five"), std::string::npos);
}

TEST_F(Log, TextFromOutsideDoesNotActOnATerminal) {
  ASSERT_TRUE(log_to_file(path_).ok());
  log_error("token '{}'\nis not known", "\x1b[2J\u202e");
  const std::string text = text_of(path_);
  EXPECT_NE(text.find("token '\\x1b[2J\\u202e'\\nis not known"), std::string::npos) << text;
}

// The last test of this file: the format cannot go back.
TEST_F(Log, JsonHasOneObjectALine) {
  ASSERT_TRUE(log_to_file(path_).ok());
  set_log_format(LogFormat::json);
  log_error("a \"quoted\"\nline of {} bytes \xff", 3);
  log_debug("not wanted");
  log_fields(LogLevel::warning, "request",
             {{"status", 200}, {"seconds", 0.25}, {"path", "/\t"}, {"cut", true}});
  std::istringstream lines(text_of(path_));
  std::vector<Json> read;
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_json(line);
    ASSERT_TRUE(json.ok()) << line;
    read.push_back(*json);
  }
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0]["level"], "error");
  EXPECT_EQ(read[0]["message"], "a \"quoted\"\nline of 3 bytes \xef\xbf\xbd");
  EXPECT_EQ(read[1]["level"], "warning");
  EXPECT_EQ(read[1]["status"], 200);
  EXPECT_EQ(read[1]["seconds"], 0.25);
  EXPECT_EQ(read[1]["path"], "/\t");
  EXPECT_EQ(read[1]["cut"], true);
  const std::string time = read[0]["time"];
  ASSERT_EQ(time.size(), 30u) << time;
  EXPECT_EQ(time.substr(4, 1) + time.substr(10, 1) + time.substr(19, 1) + time.substr(29), "-T.Z") << time;
}

}  // namespace
}  // namespace anabranch
