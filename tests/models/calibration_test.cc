// What calibration keeps: reads back as written, and no file that is odd gets further than an error.
#include "models/calibration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/mapped_file.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

Calibration example() {
  Calibration c;
  c.layers = 12;
  c.text = "a \"text\"\nof two lines";
  c.tokens = 1234;
  c.draft_vocab.resize(5000);
  std::iota(c.draft_vocab.begin(), c.draft_vocab.end(), 0);
  for (const int id : {5001, 5003, 5004, 7000, 7001, 7002, 248319}) c.draft_vocab.push_back(id);
  c.vocab_coverage = 0.9876;
  c.exit_layers = {0, 1, 2, 3};
  c.exit_agreement = 0.5;
  c.exit_rate = 1.25;
  c.skip_layers = {4, 9};
  c.skip_agreement = 0.8125;
  c.skip_rate = 0.9;
  c.perplexity = 3.5;
  c.skip_perplexity = 4.25;
  c.lossy_agreement = 0.75;
  return c;
}

TEST(Calibration, ReadsBackWhatItWrote) {
  const Calibration c = example();
  const std::string text = calibration_text(c);
  EXPECT_LT(text.size(), 700u) << "runs are written as such";
  const auto back = parse_calibration(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->layers, c.layers);
  EXPECT_EQ(back->text, c.text);
  EXPECT_EQ(back->tokens, c.tokens);
  EXPECT_EQ(back->draft_vocab, c.draft_vocab);
  EXPECT_EQ(back->vocab_coverage, c.vocab_coverage);
  EXPECT_EQ(back->exit_layers, c.exit_layers);
  EXPECT_EQ(back->exit_agreement, c.exit_agreement);
  EXPECT_EQ(back->exit_rate, c.exit_rate);
  EXPECT_EQ(back->skip_layers, c.skip_layers);
  EXPECT_EQ(back->skip_agreement, c.skip_agreement);
  EXPECT_EQ(back->skip_rate, c.skip_rate);
  EXPECT_EQ(back->perplexity, c.perplexity);
  EXPECT_EQ(back->skip_perplexity, c.skip_perplexity);
  EXPECT_EQ(back->lossy_agreement, c.lossy_agreement);
  EXPECT_EQ(calibration_text(*back), text);
}

TEST(Calibration, EmptyOneReadsBack) {
  const auto back = parse_calibration(calibration_text({}));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_TRUE(back->draft_vocab.empty() && back->exit_layers.empty() && back->skip_layers.empty());
}

TEST(Calibration, UnknownKeysAndOddNumbersArePassedOver) {
  const auto c = parse_calibration(
      R"({"version":1,"new":{"a":[1]},"layers":"many","tokens":1e300,"text":7,"exit_rate":null,
          "perplexity":-3,"exit_layers":[0]})");
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->layers, 0);
  EXPECT_EQ(c->text, "");
  EXPECT_EQ(c->exit_rate, 0);
  EXPECT_EQ(c->perplexity, 0);
  EXPECT_EQ(c->exit_layers, std::vector<int>{0});
}

TEST(Calibration, HostileTextIsAnError) {
  for (const char* text : {"",
                           "null",
                           "[]",
                           "{",
                           "{}",
                           R"({"version":2})",
                           R"({"version":"1"})",
                           R"({"version":1,"draft_vocab":7})",
                           R"({"version":1,"draft_vocab":{"a":1}})",
                           R"({"version":1,"draft_vocab":[-1]})",
                           R"({"version":1,"draft_vocab":[1.5]})",
                           R"({"version":1,"draft_vocab":["1"]})",
                           R"({"version":1,"draft_vocab":[null]})",
                           R"({"version":1,"draft_vocab":[2,1]})",
                           R"({"version":1,"draft_vocab":[1,1]})",
                           R"({"version":1,"draft_vocab":[[1,2,3]]})",
                           R"({"version":1,"draft_vocab":[[3,1]]})",
                           R"({"version":1,"draft_vocab":[[0,4],4]})",
                           R"({"version":1,"draft_vocab":[[0,[1]]]})",
                           R"({"version":1,"draft_vocab":[[0,2147483647]]})",
                           R"({"version":1,"draft_vocab":[2147483648]})",
                           R"({"version":1,"draft_vocab":[18446744073709551616]})",
                           R"({"version":1,"draft_vocab":[[0,600000],[600001,1200000]]})",
                           R"({"version":1,"exit_layers":[0,0]})",
                           R"({"version":1,"skip_layers":[[]]})"})
    EXPECT_FALSE(parse_calibration(text).ok()) << text;
  const std::string deep = R"({"version":1,"draft_vocab":)" + std::string(100000, '[');
  EXPECT_FALSE(parse_calibration(deep).ok());
}

TEST(Calibration, OfAnotherModelIsNoticed) {
  const Calibration c = example();
  EXPECT_TRUE(check_calibration(c, 12).ok());
  EXPECT_FALSE(check_calibration(c, 13).ok());
  Calibration beyond = c;
  beyond.exit_layers.push_back(12);
  EXPECT_FALSE(check_calibration(beyond, 12).ok());
  Calibration all = c;
  all.skip_layers.resize(12);
  std::iota(all.skip_layers.begin(), all.skip_layers.end(), 0);
  EXPECT_FALSE(check_calibration(all, 12).ok());
  Calibration by_hand;
  by_hand.exit_layers = {0, 1, 2};
  EXPECT_TRUE(check_calibration(by_hand, 3).ok());
  EXPECT_FALSE(check_calibration(by_hand, 2).ok());
  EXPECT_TRUE(check_calibration({}, 2).ok());
  by_hand.exit_layers = {0, 2};  // in some models a layer needs those before it
  EXPECT_FALSE(check_calibration(by_hand, 3).ok());
}

TEST(Calibration, StandsBesideTheModel) {
  EXPECT_EQ(calibration_path("/nowhere/m-Q4.gguf"), "/nowhere/m-Q4.speculation.json");
  EXPECT_EQ(calibration_path("m.gguf"), "m.speculation.json");
  for (const char* part : {"d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"})
    EXPECT_EQ(calibration_path(part), "d/m.speculation.json");
  EXPECT_EQ(calibration_path("/nowhere/model.safetensors"), "/nowhere/speculation.json");
  EXPECT_EQ(calibration_path("model.safetensors"), "speculation.json");
  const fs::path folder = fs::temp_directory_path();
  EXPECT_EQ(calibration_path(folder.string()), (folder / "speculation.json").string());
}

TEST(Calibration, IsWrittenWholeOrNotAtAll) {
  const fs::path folder = fs::temp_directory_path() / ("anabranch-calibration-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "speculation.json").string();
  std::ofstream(path) << "old";
  ASSERT_TRUE(save_calibration(example(), path).ok());
  EXPECT_EQ(*read_file(path, 1 << 20), calibration_text(example()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1)
      << "nothing is left over";
  // A directory cannot be replaced by a file.
  fs::create_directories(folder / "taken");
  const auto refused = save_calibration(example(), (folder / "taken").string());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("taken"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 2);
  EXPECT_FALSE(save_calibration(example(), (folder / "no" / "where.json").string()).ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace anabranch
