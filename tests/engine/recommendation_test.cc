#include "engine/recommendation.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "checkpoint/gguf_writer.h"
#include "engine/tiny_model.h"

namespace anabranch {
namespace {

// What generation_config.json with this text recommends; "": there is none.
Recommendation recommended(const std::string& text) {
  const testing::TinyModel model("qwen35_flat_tied");
  if (text.empty())
    std::filesystem::remove(model.path() + "/generation_config.json");
  else
    model.write("generation_config.json", text);
  return read_recommendation(*Checkpoint::open(model.path()).value());
}

void expect_default(const Recommendation& got) {
  EXPECT_FLOAT_EQ(got.sampling.temperature, 0.8f);
  EXPECT_FLOAT_EQ(got.sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(got.sampling.min_p, 0.05f);
  EXPECT_EQ(got.sampling.top_k, 0);
  EXPECT_EQ(got.from, "default");
}

TEST(Recommendation, WithoutOneTheDefault) {
  expect_default(recommended(""));
  expect_default(recommended("no JSON"));
  expect_default(recommended("[]"));
  const auto ids_only = recommended(R"({"eos_token_id": [5, 6], "temperature": 0.1})");
  expect_default(ids_only);
  EXPECT_EQ(ids_only.eos, (std::vector<int>{5, 6}));
  expect_default(recommended(R"({"do_sample": "yes"})"));
}

TEST(Recommendation, OfGenerationConfig) {
  const auto sampled =
      recommended(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.1})");
  EXPECT_FLOAT_EQ(sampled.sampling.temperature, 0.6f);
  EXPECT_FLOAT_EQ(sampled.sampling.top_p, 0.9f);
  EXPECT_EQ(sampled.sampling.top_k, 50);  // Transformers' own
  EXPECT_FLOAT_EQ(sampled.sampling.min_p, 0);
  EXPECT_FLOAT_EQ(sampled.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampled.from, "generation_config.json");
  const auto greedy = recommended(R"({"do_sample": false, "temperature": 0.6})");
  EXPECT_EQ(greedy.sampling.temperature, 0);
  EXPECT_EQ(greedy.from, "generation_config.json");
}

TEST(Recommendation, NumbersThatMakeNoSenseAreBounded) {
  const auto got = recommended(
      R"({"do_sample": true, "temperature": -3, "top_p": 7, "min_p": -1, "top_k": -5, "repetition_penalty": -2})");
  EXPECT_FLOAT_EQ(got.sampling.temperature, 0);
  EXPECT_FLOAT_EQ(got.sampling.top_p, 1);
  EXPECT_FLOAT_EQ(got.sampling.min_p, 0);
  EXPECT_EQ(got.sampling.top_k, 0);
  EXPECT_FLOAT_EQ(got.sampling.repetition_penalty, 1);
}

TEST(Recommendation, OfGguf) {
  const auto of = [](const testing::GgufWriter& keys) {
    const std::string file =
        read_file(std::string(ANABRANCH_SOURCE_DIR) + "/tests/models/data/qwen35_moe_gguf/model.gguf",
                  64 << 20)
            .value();
    const testing::TempDir dir;
    dir.write("model.gguf", testing::with_metadata(file, keys.keys(), keys.key_count()));
    return read_recommendation(*Checkpoint::open(dir.file("model.gguf")).value());
  };
  expect_default(of(testing::GgufWriter()));
  testing::GgufWriter keys;
  keys.f32("general.sampling.temp", 0.7f).u32("general.sampling.top_k", 20);
  const auto got = of(keys);
  EXPECT_FLOAT_EQ(got.sampling.temperature, 0.7f);
  EXPECT_EQ(got.sampling.top_k, 20);
  EXPECT_FLOAT_EQ(got.sampling.top_p, 1);
  EXPECT_EQ(got.from, "GGUF metadata");
}

}  // namespace
}  // namespace anabranch
