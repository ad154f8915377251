// Settings that `doctor --tune` stored, and flags that nobody set.
#include "cli/tuning.h"

#include <gtest/gtest.h>

#include "temp_dir.h"

namespace anabranch::cli {
namespace {

using anabranch::testing::TempDir;

TEST(Tuning, WhatIsSavedIsRead) {
  const TempDir folder;
  const std::string file = folder.file("tuned/a.toml");
  ASSERT_TRUE(save_tuning(file, {.threads = 6, .prefill_chunk = 512, .parallel = 3}, "a model").ok());
  const SettingTable read = read_tuning(file);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read.at("threads").values, std::vector<std::string>{"6"});
  EXPECT_EQ(read.at("prefill-chunk").values, std::vector<std::string>{"512"});
  EXPECT_EQ(read.at("parallel").values, std::vector<std::string>{"3"});
  ASSERT_TRUE(save_tuning(file, {.prefill_chunk = 256, .parallel = 1}, "on a card").ok());
  EXPECT_FALSE(read_tuning(file).contains("threads"));
  EXPECT_TRUE(read_tuning(folder.file("missing.toml")).empty());
  EXPECT_TRUE(read_tuning("").empty());
}

TEST(Tuning, ValuesThatNobodyMeasuredAreNotTaken) {
  const TempDir folder;
  folder.write("a.toml", "threads = 0\nprefill-chunk = -8\nparallel = 1025\n");
  EXPECT_TRUE(read_tuning(folder.file("a.toml")).empty());
  folder.write("a.toml", "threads = 1024\nprefill-chunk = \"8\"\nparallel = 1\n");
  EXPECT_EQ(read_tuning(folder.file("a.toml")).size(), 2u);
  folder.write("a.toml", "parallel = 2\nthreads = = 3\n");
  EXPECT_TRUE(read_tuning(folder.file("a.toml")).empty());
}

TEST(Tuning, FlagsOfTheUserStay) {
  CLI::App app;
  int threads = 1, parallel = 1;
  app.add_option("--threads", threads);
  app.add_option("--parallel", parallel);
  app.parse("--threads 5", false);
  set_unset_flags(app,
                  {{"threads", {{"6"}, "tuned"}}, {"parallel", {{"3"}, "tuned"}}, {"no-flag", {{"1"}, ""}}});
  EXPECT_EQ(threads, 5);
  EXPECT_EQ(parallel, 3);
}

}  // namespace
}  // namespace anabranch::cli
