#include "decode/spec_stats.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace anabranch {
namespace {

namespace fs = std::filesystem;

SpecStats learnt(int rounds) {
  SpecCosts costs;
  SpecController controller(costs, {});
  std::mt19937_64 rng(rounds);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  for (int i = 0; i < rounds; i++) {
    const int drafted = static_cast<int>(rng() % (kMaxDraft + 1));
    RoundResult result;
    result.source = drafted == 0 ? DraftSource::none : static_cast<DraftSource>(1 + rng() % 5);
    result.drafted = drafted;
    result.accepted = static_cast<int>(rng() % (drafted + 1));
    result.ngram_match = static_cast<int>(rng() % 12);
    result.draft_s = 0.001 * drafted * uniform(rng);
    result.verify_s = 0.02 * uniform(rng);
    controller.observe(result);
  }
  return costs.stats();
}

TEST(SpecStats, TextGivesBackTheSameBits) {
  for (const int rounds : {0, 1, 3, 100, 5000}) {
    const SpecStats stats = learnt(rounds);
    const std::optional<SpecStats> read = parse_spec_stats(spec_stats_text(stats));
    ASSERT_TRUE(read) << rounds;
    EXPECT_EQ(*read, stats) << rounds;
  }
  EXPECT_LT(spec_stats_text(learnt(5000)).size(), size_t{32} << 10);
}

TEST(SpecStats, AnythingOddIsRefused) {
  const std::string head = "anabranch-speculation 1\n";
  EXPECT_TRUE(parse_spec_stats(head + "end\n"));
  EXPECT_TRUE(parse_spec_stats(head + "verify 1 0.5 1\ndraft mtp 2 0.25 3\naccept 4 1 2 1\nend\n"));
  for (const std::string body : {"",
                                 "end",
                                 "end\n\n",
                                 "end\nend\n",
                                 "verify 1 0.5 1\n",
                                 "verify 0 0.5 1\nend\n",
                                 "verify 17 0.5 1\nend\n",
                                 "verify -1 0.5 1\nend\n",
                                 "verify 1 nan 1\nend\n",
                                 "verify 1 inf 1\nend\n",
                                 "verify 1 -0.5 1\nend\n",
                                 "verify 1 0 1\nend\n",
                                 "verify 1 1e300 1\nend\n",
                                 "verify 1 1e999 1\nend\n",
                                 "verify 1 0.5 0\nend\n",
                                 "verify 1 0.5 1e9\nend\n",
                                 "verify 1 0.5\nend\n",
                                 "verify 1 0.5 1 1\nend\n",
                                 "verify 1 0.50 1\nend\n",
                                 "verify  1 0.5 1\nend\n",
                                 "verify 2 0.5 1\nverify 1 0.5 1\nend\n",
                                 "verify 1 0.5 1\nverify 1 0.5 1\nend\n",
                                 "draft none 1 0.5 1\nend\n",
                                 "draft ngram 1 0.5 1\nend\n",
                                 "draft other 1 0.5 1\nend\n",
                                 "draft\nend\n",
                                 "accept 8 1 2 1\nend\n",
                                 "accept -1 1 2 1\nend\n",
                                 "accept 0 0 2 1\nend\n",
                                 "accept 0 16 2 1\nend\n",
                                 "accept 0 1 1 2\nend\n",
                                 "accept 0 1 1 -1\nend\n",
                                 "accept 0 1 0 0\nend\n",
                                 "accept 0 1 1e9 1\nend\n",
                                 "other 1 2 3\nend\n"})
    EXPECT_FALSE(parse_spec_stats(head + body)) << body;
  EXPECT_FALSE(parse_spec_stats(""));
  EXPECT_FALSE(parse_spec_stats("anabranch-speculation 2\nend\n"));
  EXPECT_FALSE(parse_spec_stats(std::string(1 << 20, 'x')));
  EXPECT_FALSE(parse_spec_stats(head + std::string("end\n\0", 5)));
}

TEST(SpecStats, DamagedTextNeverDoesHarm) {
  const std::string text = spec_stats_text(learnt(200));
  std::mt19937_64 rng(7);
  int accepted = 0;
  for (int i = 0; i < 3000; i++) {
    std::string damaged = text;
    for (int n = 0; n < 3; n++) damaged[rng() % damaged.size()] = static_cast<char>(rng());
    if (i % 3 == 0) damaged.resize(rng() % damaged.size());
    const std::optional<SpecStats> read = parse_spec_stats(damaged);
    if (!read) continue;  // a digit for a digit is a valid file
    accepted++;
    SpecCosts costs(*read);
    for (int rows = 2; rows <= kMaxDraft + 1; rows++) {
      ASSERT_TRUE(std::isfinite(costs.verify_costs()[rows]));
      ASSERT_GE(costs.verify_costs()[rows], costs.verify_costs()[rows - 1]);
    }
    RoundLimits limits;
    limits.max_drafts = 8;
    limits.available.fill(true);
    EXPECT_LE(SpecController(costs, {}).choose(limits).depth, 8);
  }
  EXPECT_LT(accepted, 300);
}

class SpecStatsFile : public ::testing::Test {
 protected:
  SpecStatsFile() {
    char name[] = "/tmp/spec-stats-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SpecStatsFile() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(SpecStatsFile, IsKeptUnderTheCacheFolder) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  const std::string path = spec_stats_path("ab_C-9");
  EXPECT_EQ(path, folder_ + "/anabranch/speculation/ab_C-9.txt");
  for (const char* key : {"", "..", "a/b", "a.b", "a b"}) EXPECT_EQ(spec_stats_path(key), "") << key;
  EXPECT_EQ(spec_stats_path(std::string(129, 'a')), "");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  setenv("HOME", folder_.c_str(), 1);
  EXPECT_EQ(spec_stats_path("k"), folder_ + "/.cache/anabranch/speculation/k.txt");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "", 1);
  EXPECT_EQ(spec_stats_path("k"), "");

  const SpecStats stats = learnt(50);
  ASSERT_TRUE(save_spec_stats(path, stats));
  ASSERT_TRUE(save_spec_stats(path, stats));  // and over an old one
  EXPECT_EQ(load_spec_stats(path), stats);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(fs::path(path).parent_path())) files++;
  EXPECT_EQ(files, 1) << "nothing temporary is left";
}

TEST_F(SpecStatsFile, WhatCannotBeReadOrWrittenIsSkipped) {
  EXPECT_EQ(load_spec_stats(""), SpecStats{});
  EXPECT_EQ(load_spec_stats(folder_ + "/missing"), SpecStats{});
  EXPECT_EQ(load_spec_stats(folder_), SpecStats{});
  std::ofstream(folder_ + "/file") << "anabranch-speculation 1\nverify 1 0.5 1\n";
  EXPECT_EQ(load_spec_stats(folder_ + "/file"), SpecStats{});
  EXPECT_FALSE(save_spec_stats("", {}));
  EXPECT_FALSE(save_spec_stats(folder_ + "/file/under/a/file.txt", {}));
  fs::create_directory(folder_ + "/taken");
  EXPECT_FALSE(save_spec_stats(folder_ + "/taken", {}));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) files++;
  EXPECT_EQ(files, 2);
}

}  // namespace
}  // namespace anabranch
