// The mixtures of families with latent attention, as their configs describe them.
#include <gtest/gtest.h>

#include "models/family_config.h"

namespace anabranch {
namespace {

Json config_of(const char* type, const Json& more = Json::object()) {
  Json config = {{"model_type", type},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"first_k_dense_replace", 1},
                 {"n_routed_experts", 12},
                 {"num_experts_per_tok", 3},
                 {"n_shared_experts", 2},
                 {"moe_intermediate_size", 20},
                 {"n_group", 4},
                 {"topk_group", 2}};
  config.update(more);
  return config;
}

MoeSpec mixture_of(const Json& config) {
  const auto spec = read_latent_config(config, "config.json");
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(spec->layers[0].mlp));
  return std::get<MoeSpec>(spec->layers[2].mlp);
}

std::string refusal_of(const Json& config) {
  const auto spec = read_latent_config(config, "config.json");
  return spec.ok() ? "" : spec.error().message;
}

TEST(LatentConfig, DeepSeek3) {
  const MoeSpec moe = mixture_of(config_of("deepseek_v3"));
  EXPECT_EQ(moe.experts, 12);
  EXPECT_EQ(moe.intermediate, 20);
  EXPECT_EQ(moe.shared_intermediate, 40);
  EXPECT_TRUE(moe.choice_bias && moe.routing.normalise);
  EXPECT_FALSE(moe.routing.best_of_group || moe.shared_gate || moe.bias);
  EXPECT_EQ(moe.routing.scores, ops::RouterSpec::Scores::sigmoid);
  EXPECT_EQ(moe.routing.groups, 4);
  EXPECT_EQ(moe.routing.top_groups, 2);
  EXPECT_FLOAT_EQ(moe.routing.scale, 2.5f);
  Json absent = config_of(
      "deepseek_v3", {{"n_routed_experts", 16}, {"routed_scaling_factor", 1.5}, {"norm_topk_prob", false}});
  absent.erase("n_group"), absent.erase("topk_group");
  EXPECT_EQ(mixture_of(absent).routing.groups, 8);
  EXPECT_EQ(mixture_of(absent).routing.top_groups, 4);
  EXPECT_FLOAT_EQ(mixture_of(absent).routing.scale, 1.5f);
  EXPECT_FALSE(mixture_of(absent).routing.normalise);
}

TEST(LatentConfig, DeepSeek2) {
  const MoeSpec greedy = mixture_of(config_of("deepseek_v2", {{"mlp_bias", true}, {"norm_topk_prob", true}}));
  EXPECT_EQ(greedy.routing.groups, 1);
  EXPECT_FALSE(greedy.choice_bias || greedy.routing.normalise);
  EXPECT_TRUE(greedy.bias);
  EXPECT_EQ(greedy.routing.scores, ops::RouterSpec::Scores::softmax);
  const MoeSpec limited = mixture_of(config_of("deepseek_v2", {{"topk_method", "group_limited_greedy"}}));
  EXPECT_EQ(limited.routing.groups, 4);
  EXPECT_EQ(limited.routing.top_groups, 2);
  EXPECT_TRUE(limited.routing.best_of_group);
}

TEST(LatentConfig, OtherFamilies) {
  const MoeSpec mistral = mixture_of(config_of("mistral4"));
  EXPECT_EQ(mistral.routing.scores, ops::RouterSpec::Scores::softmax);
  EXPECT_TRUE(mistral.routing.normalise);
  EXPECT_FALSE(mistral.choice_bias || mistral.routing.best_of_group);
  EXPECT_EQ(mistral.routing.groups, 4);
  Json glm = config_of("glm4_moe_lite", {{"mlp_layer_types", {"dense", "dense", "sparse"}}});
  EXPECT_FLOAT_EQ(mixture_of(glm).routing.scale, 1.8f);
  const auto layers = read_latent_config(glm, "config.json");
  ASSERT_TRUE(layers.ok());
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(layers->layers[1].mlp));
  const auto youtu = read_latent_config(config_of("youtu"), "config.json");
  ASSERT_TRUE(youtu.ok());
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(youtu->layers[2].mlp)) << "it has no mixtures";
}

TEST(LatentConfig, RefusesOtherRouters) {
  EXPECT_NE(refusal_of(config_of("deepseek_v3", {{"scoring_func", "softmax"}})).find("scoring_func"),
            std::string::npos);
  EXPECT_NE(refusal_of(config_of("deepseek_v3", {{"topk_method", "greedy"}})).find("topk_method"),
            std::string::npos);
  EXPECT_NE(refusal_of(config_of("deepseek_v2", {{"topk_method", "noaux_tc"}})).find("topk_method"),
            std::string::npos);
  EXPECT_NE(refusal_of(config_of("deepseek_v2", {{"scoring_func", "sigmoid"}})).find("scoring_func"),
            std::string::npos);
  EXPECT_NE(refusal_of(config_of("deepseek_v3", {{"moe_layer_freq", 2}})).find("moe_layer_freq"),
            std::string::npos);
  EXPECT_NE(refusal_of(config_of("deepseek_v3", {{"topk_group", 5}})).find("topk_group"), std::string::npos);
  EXPECT_EQ(
      refusal_of(config_of(
          "deepseek_v3", {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"moe_layer_freq", 1}})),
      "");
}

}  // namespace
}  // namespace anabranch
