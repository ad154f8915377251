// GGUF metadata of members of the Llama family that differ in their norms, activations or names.
#include <gtest/gtest.h>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_writer.h"

namespace anabranch {
namespace {

using testing::GgufWriter;

// A file of `arch` with 2 layers, width 64 and 2 heads.
GgufWriter file_of(const std::string& arch) {
  GgufWriter w;
  w.text("general.architecture", arch);
  for (const auto& [name, value] : {std::pair{".block_count", 2u},
                                    {".context_length", 4096u},
                                    {".embedding_length", 64u},
                                    {".feed_forward_length", 96u},
                                    {".attention.head_count", 2u}})
    w.u32(arch + name, value);
  w.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f).f32(arch + ".attention.layer_norm_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 1}, 0, std::string(256, '\0'));
  return w;
}

Result<GgufConfig> config_in(const GgufWriter& w) {
  const std::string bytes = w.bytes();
  TRY(const GgufFile file, parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf"));
  return read_gguf_config(file, "x.gguf");
}

TEST(GgufMore, FactorsOfXielu) {
  GgufWriter w = file_of("apertus");
  EXPECT_NE(config_in(w).error().message.find("\"xielu.alpha_p\" is missing"), std::string::npos);
  w.f32("xielu.alpha_p", 0.5f).f32("xielu.alpha_n", 0.25f).f32("xielu.beta", 1).f32("xielu.eps", -1);
  const auto config = config_in(w);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->config["xielu_alpha_p"], Json({0.5, 0.5}));
  EXPECT_EQ(config->config["xielu_eps"], Json({-1, -1}));
  EXPECT_EQ(config->config["hidden_act"], "xielu");
}

TEST(GgufMore, KeysOfGptNeox) {
  GgufWriter w = file_of("gptneox");
  w.f32("gptneox.rope.freq_base", 3000).u32("gptneox.rope.dimension_count", 8);
  EXPECT_EQ(config_in(w)->config["use_parallel_residual"], true);
  w.key("gptneox.use_parallel_residual", 7, std::string(1, '\0'));
  const auto config = config_in(w);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->config["rotary_emb_base"], 3000);
  EXPECT_EQ(config->config["rotary_pct"], 0.25);
  EXPECT_EQ(config->config["use_parallel_residual"], false);
}

// Its rows of queries and keys are in another order.
TEST(GgufMore, Glm4WithImagesIsRefused) {
  GgufWriter w = file_of("glm4");
  EXPECT_TRUE(config_in(w).ok());
  w.numbers("glm4.rope.dimension_sections", {8, 12, 12, 0});
  EXPECT_NE(config_in(w).error().message.find("rope.dimension_sections"), std::string::npos);
}

}  // namespace
}  // namespace anabranch
