// GGUF architectures that run as other families.
#include <array>
#include <cmath>

#include "checkpoint/gguf_metadata_writer.h"

namespace anabranch {
namespace {

using namespace testing;

// Names of architectures that compute what another one does.
TEST(GgufConfig, OthersWithAnotherName) {
  struct Row {
    const char *name, *same, *model_type;
  };
  for (const auto& [name, same, model_type] : {Row{"internlm2", "llama", "llama"},
                                               {"qwen2vl", "qwen2", "qwen2"},
                                               {"minicpm", "granite", "granite"}}) {
    SCOPED_TRACE(name);
    const auto writer = [](const char* arch) {
      Writer w(arch);
      w.set("feed_forward_length", 32).real("rope.freq_base", 500000);
      if (std::string_view(arch) == "minicpm" || std::string_view(arch) == "granite")
        w.real("embedding_scale", 12).real("residual_scale", 0.25f).real("logit_scale", 9);
      return w;
    };
    const Json config = config_of(writer(name));
    EXPECT_EQ(config, config_of(writer(same)));
    EXPECT_EQ(config["model_type"], model_type);
  }
}

// Older files leave MiniCPM's factors out, which are not 1 then.
TEST(GgufConfig, MiniCpmNeedsItsFactors) {
  const std::array<std::string, 3> keys = {"embedding_scale", "residual_scale", "logit_scale"};
  const auto writer = [&](const std::string& without) {
    Writer w("minicpm");
    w.set("feed_forward_length", 32);
    for (const std::string& key : keys)
      if (key != without) w.real(key, 0.25f);
    return w;
  };
  const Json config = config_of(writer(""));
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling"})
    EXPECT_EQ(config[key], 0.25);
  EXPECT_NEAR(config["attention_multiplier"].get<double>(), 1 / std::sqrt(32.0), 1e-7);
  for (const std::string& key : keys) EXPECT_ERROR(writer(key), key);
  EXPECT_ERROR(writer("").set("expert_count", 8).set("expert_used_count", 2), "with experts");
}

TEST(GgufConfig, DivisorsForFarPositionsAreNotLeftOut) {
  for (const char* arch : {"minicpm", "llama", "qwen2"})
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      EXPECT_ERROR(Writer(arch)
                       .set("feed_forward_length", 32)
                       .real("embedding_scale", 1)
                       .real("residual_scale", 1)
                       .real("logit_scale", 1)
                       .vector(name, std::vector<float>(16, 2.0f)),
                   name);
}

TEST(GgufConfig, CommandRWithNormsOfQueriesSaysSo) {
  const auto writer = [] {
    return Writer("command-r").set("feed_forward_length", 32).real("attention.layer_norm_epsilon", 1e-5f);
  };
  EXPECT_EQ(config_of(writer())["use_qk_norm"], false);
  EXPECT_EQ(config_of(writer().vector("blk.0.attn_q_norm.weight", {1}))["use_qk_norm"], true);
}

}  // namespace
}  // namespace anabranch
