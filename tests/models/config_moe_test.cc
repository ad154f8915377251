// The fields of configs that describe mixtures of experts, for every family that has them.
#include "models/config_fields.h"

namespace anabranch {
namespace {

Json deep(const Json& more = Json::object()) {
  return joined({{"n_routed_experts", 12},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"n_shared_experts", 1},
                 {"n_group", 3},
                 {"topk_group", 2},
                 {"norm_topk_prob", true},
                 {"routed_scaling_factor", 1.5}},
                more);
}
const Fields kDeep = {{"num_experts_per_tok", 3},      {"num_experts_per_tok", 9, Use::refused},
                      {"moe_intermediate_size", 48},   {"n_group", 4},
                      {"n_group", 5, Use::refused},    {"n_group", 12, Use::refused},
                      {"n_group", 0, Use::refused},    {"topk_group", 1},
                      {"topk_group", 4, Use::refused}, {"norm_topk_prob", false},
                      {"routed_scaling_factor", 2.5},  {"routed_scaling_factor", -1, Use::refused}};
const Fields kDeepNames = {{"n_routed_experts", 24},
                           {"n_routed_experts", 1, Use::refused},
                           {"n_shared_experts", 2},
                           {"n_shared_experts", 0}};
const Json kLocal = {{"num_local_experts", 8}, {"num_experts_per_tok", 2}};
const Fields kLocalFields = {{"num_local_experts", 4},
                             {"num_local_experts", 1, Use::refused},
                             {"num_experts_per_tok", 3},
                             {"intermediate_size", 48},
                             {"router_jitter_noise", 0.5, Use::no_matter}};
const Fields kMultipliers = {{"embedding_multiplier", 2.0},
                             {"logits_scaling", 2.0},
                             {"residual_multiplier", 2.0},
                             {"attention_multiplier", 2.0},
                             {"attention_bias", true}};

std::vector<MemberFields> moe_fields() {
  const Fields windows = {{"sliding_window", 16}, {"layer_types", kinds("full_attention")}};
  return {
      {"glm4_moe", deep(),
       kDeep + kDeepNames +
           Fields{{"first_k_dense_replace", 2},
                  {"use_qk_norm", true},
                  {"attention_bias", true},
                  {"partial_rotary_factor", 1.0},
                  {"num_nextn_predict_layers", 1, Use::no_matter}}},
      {"solar_open", deep(),
       kDeep + kDeepNames + Fields{{"attention_bias", true}, {"first_k_dense_replace", 2, Use::no_matter}}},
      {"dots1", deep({{"max_window_layers", 3}, {"sliding_window", 32}}),
       kDeep + kDeepNames + windows +
           Fields{{"first_k_dense_replace", 2}, {"attention_bias", true}, {"max_window_layers", 4}}},
      {"exaone_moe", deep({{"num_experts", 12}, {"sliding_window", 32}}),
       kDeep + windows +
           Fields{{"num_experts", 24},
                  {"num_shared_experts", 2},
                  {"first_k_dense_replace", 2},
                  {"mlp_layer_types", {"sparse", "dense", "sparse", "sparse", "sparse", "sparse"}},
                  {"mlp_layer_types", {"sparse", "dense"}, Use::refused},
                  {"mlp_layer_types", kinds("moe"), Use::refused},
                  {"sliding_window_pattern", 3}}},
      {"minimax_m2", kLocal,
       kLocalFields + Fields{{"rotary_dim", 8},
                             {"rotary_dim", 40, Use::refused},
                             {"norm_topk_prob", false, Use::no_matter}}},
      {"granitemoe", kLocal, kLocalFields + kMultipliers},
      {"granitemoeshared", joined(kLocal, {{"shared_intermediate_size", 24}}),
       kLocalFields + kMultipliers +
           Fields{{"shared_intermediate_size", 0}, {"shared_intermediate_size", 48}}},
      {"olmoe",
       {{"num_experts", 8}, {"num_experts_per_tok", 2}},
       {{"num_experts", 4},
        {"num_experts_per_tok", 3},
        {"norm_topk_prob", true},
        {"intermediate_size", 48},
        {"attention_bias", true},
        {"clip_qkv", nullptr, Use::no_matter},
        {"clip_qkv", 8.0, Use::refused}}},
      {"ernie4_5_moe",
       {{"moe_num_experts", 8}, {"moe_k", 2}, {"moe_intermediate_size", 24}},
       {{"moe_num_experts", 4},
        {"moe_k", 3},
        {"moe_k", 9, Use::refused},
        {"moe_intermediate_size", 48},
        {"moe_num_shared_experts", 1},
        {"moe_layer_start_index", 2},
        {"moe_layer_end_index", 3},
        {"moe_layer_interval", 2},
        {"moe_norm_min", 0.5},
        {"use_bias", true}}},
      {"phimoe",
       kLocal,
       {{"num_local_experts", 4},
        {"num_experts_per_tok", 1, Use::refused},
        {"num_experts_per_tok", 3, Use::refused},
        {"intermediate_size", 48},
        {"router_jitter_noise", 0.5}}},
      {"hunyuan_v1_moe",
       {{"num_experts", 8}, {"moe_topk", 2}},
       {{"num_experts", 4},
        {"moe_topk", 3},
        {"moe_topk", {1, 2, 3, 4, 5, 6}},
        {"moe_topk", {1, 2}, Use::refused},
        {"moe_topk", {1, 2, 3, 4, 5, 9}, Use::refused},
        {"moe_topk", "2", Use::refused},
        {"intermediate_size", 48},
        {"attention_bias", true}}},
      {"qwen3_moe",
       joined(kMixture, {{"norm_topk_prob", true}}),
       {{"norm_topk_prob", false},
        {"decoder_sparse_step", 2},
        {"mlp_only_layers", {1}},
        {"n_group", 2, Use::no_matter}}},
      {"lfm2_moe",
       joined(kMixture, {{"norm_eps", 1e-5}, {"layer_types", kinds("conv")}}),
       {{"num_experts", 8},
        {"moe_intermediate_size", 48},
        {"num_dense_layers", 3},
        {"use_expert_bias", false},
        {"norm_topk_prob", false},
        {"routed_scaling_factor", 2.0},
        {"intermediate_size", 64},
        {"block_auto_adjust_ff_dim", false, Use::no_matter},
        {"num_experts_per_tok", 1}}},
      {"nemotron_h", deep({{"layers_block_type", {"mamba", "moe", "attention", "mlp", "moe", "mamba"}}}),
       kDeep + Fields{{"n_routed_experts", 24},
                      {"moe_shared_expert_intermediate_size", 48},
                      {"n_shared_experts", 2, Use::no_matter},
                      {"moe_latent_size", 16},
                      {"mlp_bias", true},
                      {"mlp_hidden_act", "gelu", Use::refused}}},
      {"granitemoehybrid",
       joined(kLocal, {{"shared_intermediate_size", 24},
                       {"layer_types", kinds("mamba")},
                       {"mamba_n_heads", 4},
                       {"mamba_d_head", 32}}),
       {{"num_local_experts", 4},
        {"num_local_experts", 0},
        {"num_experts_per_tok", 3},
        {"intermediate_size", 48},
        {"shared_intermediate_size", 48}}},
  };
}

TEST(ConfigOfExperts, Fields) {
  for (const MemberFields& member : moe_fields())
    for (const Field& field : member.fields) {
      // Members that have no head_dim of their own state the usual one.
      expect_use(base(member.type, member.more), field);
    }
}

// What absent keys mean, and the other names of some.
TEST(ConfigOfExperts, OtherNamesAndAbsentKeys) {
  const auto moe_of = [](const Json& config, size_t layer) {
    const auto spec = read(config);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    return spec.ok() ? std::get<MoeSpec>(spec->layers.at(layer).mlp) : MoeSpec();
  };
  Json config =
      base("glm4_moe", {{"num_local_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}});
  EXPECT_EQ(moe_of(config, 1).experts, 6);
  EXPECT_EQ(moe_of(config, 1).shared_intermediate, 24);
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(read(config)->layers[0].mlp));
  config["n_routed_experts"] = 7;
  EXPECT_EQ(moe_of(config, 1).experts, 7);
  config.erase("n_routed_experts"), config.erase("num_local_experts");
  EXPECT_NE(read(config).error().message.find("n_routed_experts"), std::string::npos);
  config =
      base("ernie4_5_moe", {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}});
  EXPECT_EQ(moe_of(config, 1).experts, 6);
  EXPECT_EQ(moe_of(config, 1).routing.top_k, 2);
  EXPECT_EQ(moe_of(config, 1).shared_intermediate, 48);
  config = base("glm4_moe", deep({{"moe_intermediate_size", 1 << 20}, {"n_shared_experts", 1024}}));
  EXPECT_NE(read(config).error().message.find("1024 experts of 1048576 are too wide"), std::string::npos);
  config =
      base("exaone_moe", {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}});
  EXPECT_FLOAT_EQ(moe_of(config, 1).routing.scale, 2.5f);
}

}  // namespace
}  // namespace anabranch
