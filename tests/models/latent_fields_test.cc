// As config_fields_test.cc, for families with latent attention.
#include <cmath>

#include "models/config_fields.h"

namespace anabranch {
namespace {

TEST(ConfigFields, LatentAttention) {
  const Json sizes = {{"num_key_value_heads", 4},   {"q_lora_rank", 24},
                      {"kv_lora_rank", 20},         {"qk_nope_head_dim", 12},
                      {"qk_rope_head_dim", 8},      {"v_head_dim", 16},
                      {"first_k_dense_replace", 6}, {"mlp_layer_types", Json(Json::array_t(6, "dense"))}};
  const Json plain = {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 256}};
  const Json yarn = joined(plain, {{"mscale", 1.0}, {"mscale_all_dim", 1.0}});
  const Json grown = joined(plain, {{"mscale", 1.0}, {"mscale_all_dim", 0.5}});
  const Fields of_all = {{"vocab_size", 101},
                         {"hidden_size", 80},
                         {"intermediate_size", 80},
                         {"num_attention_heads", 8, Use::refused},
                         {"num_key_value_heads", 2, Use::refused},
                         {"num_key_value_heads", nullptr, Use::no_matter},
                         {"head_dim", 32, Use::no_matter},
                         {"qk_head_dim", 32, Use::no_matter},
                         {"q_lora_rank", nullptr},
                         {"q_lora_rank", 32},
                         {"kv_lora_rank", 32},
                         {"qk_nope_head_dim", 20},
                         {"qk_rope_head_dim", 4},
                         {"qk_rope_head_dim", 5, Use::refused},
                         {"v_head_dim", 20},
                         {"attention_bias", true},
                         {"hidden_act", "gelu", Use::refused},
                         {"max_position_embeddings", 600},
                         {"rms_norm_eps", 1e-3},
                         {"tie_word_embeddings", false},
                         {"rope_theta", 3000.0},
                         {"rope_scaling", grown},
                         {"attention_dropout", 0.5, Use::no_matter}};
  const Fields by_key = {{"rope_interleave", false}, {"rope_interleave", true, Use::no_matter}};
  const Fields never = {{"rope_interleave", false, Use::no_matter}};
  const Fields bias = {{"mlp_bias", true}}, no_bias = {{"mlp_bias", true, Use::no_matter}};
  const Fields factors = {{"scale_emb", 3.0},
                          {"scale_depth", 0.5},
                          {"scale_depth", nullptr},
                          {"dim_model_base", 32},
                          {"dim_model_base", nullptr}};
  for (const auto& [type, fields] : {std::pair{"deepseek_v2", never + bias},
                                     {"deepseek_v3", by_key + no_bias},
                                     {"kimi_k2", by_key + no_bias},
                                     {"glm4_moe_lite", by_key + no_bias},
                                     {"mistral4", by_key + no_bias},
                                     {"youtu", by_key + no_bias},
                                     {"minicpm3", never + bias + factors}})
    for (const Field& field : fields + of_all)
      expect_use(base(type, joined(sizes, {{"rope_scaling", yarn}})), field);
  // The scores' scale grows with a scaled rope only.
  const auto scale = [&](const Json& rope) {
    const auto spec = read(base("deepseek_v3", joined(sizes, {{"rope_scaling", rope}})));
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    return std::get<LatentAttentionSpec>(spec->layers[0].mixer).scale * std::sqrt(20.0f);
  };
  const float half = 0.1f * 0.5f * std::log(2.0f) + 1;
  EXPECT_FLOAT_EQ(scale(grown), half * half);
  EXPECT_FLOAT_EQ(scale(plain), 1);
  EXPECT_FLOAT_EQ(scale({{"rope_type", "default"}, {"mscale_all_dim", 1.0}}), 1);
  // Mistral 4's own rope.
  Json mistral = base("mistral4", sizes);
  mistral.erase("rope_theta");
  const auto own = read(mistral);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_FLOAT_EQ(own->ropes[0].query_beta, 0.1f);
  EXPECT_EQ(own->ropes[0].query_period, 8192);
  mistral["qk_nope_head_dim"] = 11;
  EXPECT_FALSE(read(mistral).ok()) << "queries are scaled in pairs of dimensions";
}

}  // namespace
}  // namespace anabranch
