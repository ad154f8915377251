// As config_fields_test.cc, for hybrids of attention with Mamba2, short convolutions and other recurrences.
#include "models/config_fields.h"

namespace anabranch {
namespace {

// Hybrids with Mamba2, short convolutions, or OLMo's Gated DeltaNet.
std::vector<MemberFields> hybrid_fields() {
  const Fields mamba_of_width = {{"mamba_n_groups", 2},
                                 {"mamba_d_state", 32},
                                 {"mamba_d_conv", 3},
                                 {"mamba_conv_bias", false},
                                 {"time_step_limit", {0.1, 1.5}},
                                 {"time_step_limit", {2.0, 1.5}, Use::refused},
                                 {"time_step_min", 0.5, Use::no_matter},
                                 {"hidden_act", "relu", Use::refused},
                                 {"rms_norm_eps", 1e-3}};
  const Fields mamba = mamba_of_width + Fields{{"mamba_n_heads", 8}, {"mamba_d_head", 64}};
  const Json sizes = {{"mamba_n_heads", 4}, {"mamba_d_head", 32}, {"mamba_d_state", 16}};
  const auto types = [](const char* other) {
    Json list = kinds(other);
    list[1] = list[4] = "full_attention";
    return list;
  };
  return {
      {"lfm2",
       {{"full_attn_idxs", {1, 3}}, {"block_multiple_of", 8}, {"norm_eps", 1e-5}},
       kDense + Fields{{"norm_eps", 1e-3},
                       {"rms_norm_eps", 1e-3, Use::no_matter},
                       {"tie_embedding", false},
                       {"conv_L_cache", 4},
                       {"conv_bias", true},
                       {"full_attn_idxs", {2}},
                       {"num_hidden_layers", 5},
                       {"layer_types", types("conv")},
                       {"layer_types", types("mamba"), Use::refused},
                       {"block_ff_dim", 48},
                       {"block_multiple_of", 48},
                       {"block_ffn_dim_multiplier", 2.0},
                       {"block_auto_adjust_ff_dim", false},
                       {"rope_theta", 3000.0},
                       {"partial_rotary_factor", 0.5, Use::refused}}},
      {"lfm3",
       {{"norm_eps", 1e-5},
        {"layer_types", {"conv", "sliding_attention", "full_attention", "conv", "full_attention", "conv"}}},
       kDense + Fields{{"norm_eps", 1e-3},
                       {"rms_norm_eps", 1e-3, Use::no_matter},
                       {"conv_L_cache", 4},
                       {"conv_bias", true},
                       {"attention_bias", true},
                       {"sliding_window", 16},
                       {"sliding_window", nullptr, Use::refused},
                       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}, Use::refused},
                       {"use_sandwich_norm", false},
                       {"use_attention_gate", false},
                       {"num_hidden_layers", 5, Use::refused},
                       {"layer_types", types("conv")},
                       {"layer_types", types("mamba"), Use::refused},
                       {"rope_parameters", {{"rope_theta", 3000.0}}, Use::refused},
                       {"rope_parameters",
                        {{"full_attention", {{"rope_type", "default"}}},
                         {"sliding_attention", {{"rope_type", "default"}}}}},
                       {"rope_parameters",
                        {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}}},
                         {"sliding_attention", {{"rope_type", "default"}}}}},
                       {"partial_rotary_factor", 0.25, Use::refused}}},
      {"nemotron_h",
       {{"hybrid_override_pattern", "M-*M-*"},
        {"n_groups", 8},
        {"conv_kernel", 4},
        {"use_conv_bias", true},
        {"time_step_min", 0.001},
        {"n_routed_experts", 8},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", 24}},
       kDense + Fields{{"layer_norm_epsilon", 1e-3},
                       {"rms_norm_eps", 1e-3, Use::no_matter},
                       {"hybrid_override_pattern", "M-*M"},
                       {"hybrid_override_pattern", "ME*"},
                       {"hybrid_override_pattern", "MX*", Use::refused},
                       {"layers_block_type", types("mamba")},
                       {"mlp_hidden_act", "gelu"},
                       {"mlp_hidden_act", "silu", Use::refused},
                       {"mlp_bias", true},
                       {"mamba_num_heads", 16},
                       {"mamba_head_dim", 32},
                       {"n_groups", 4},
                       {"mamba_n_groups", 4},
                       {"ssm_state_size", 64},
                       {"conv_kernel", 3},
                       {"mamba_d_conv", 3},
                       {"use_conv_bias", false},
                       {"mamba_conv_bias", false},
                       {"time_step_min", 0.5},
                       {"mamba_dt_min", 0.5},
                       {"time_step_limit", {0.1, 0.2}, Use::no_matter},
                       {"mamba_hidden_act", "relu", Use::refused},
                       {"num_hidden_layers", 5, Use::no_matter},
                       {"rope_theta", 3000.0, Use::no_matter},
                       {"num_nextn_predict_layers", 1, Use::no_matter}}},
      {"granitemoehybrid",
       joined(sizes, {{"num_local_experts", 0},
                      {"num_experts_per_tok", 2},
                      {"shared_intermediate_size", 96},
                      {"layer_types", types("mamba")}}),
       mamba + Fields{{"shared_intermediate_size", 64},
                      {"intermediate_size", 64, Use::no_matter},
                      {"num_local_experts", 8},
                      {"num_local_experts", 1, Use::refused},
                      {"attention_bias", true},
                      {"attention_multiplier", 2.0},
                      {"embedding_multiplier", 2.0},
                      {"logits_scaling", 2.0},
                      {"residual_multiplier", 2.0},
                      {"layer_types", kinds("mamba")},
                      {"num_hidden_layers", 5, Use::refused},
                      {"position_embedding_type", "rope"},
                      {"partial_rotary_factor", 0.5, Use::no_matter}}},
      {"granitemoehybrid",
       joined(
           sizes,
           {{"num_local_experts", 0}, {"position_embedding_type", "rope"}, {"layer_types", types("mamba")}}),
       {{"rope_theta", 3000.0}, {"partial_rotary_factor", 0.5, Use::refused}}},
      {"bamba", joined(sizes, {{"attn_layer_indices", {1, 3}}}),
       mamba + kDense +
           Fields{{"attn_layer_indices", {1}},
                  {"num_hidden_layers", 5},
                  {"attention_bias", true},
                  {"mlp_bias", true},
                  {"rope_theta", 3000.0},
                  {"partial_rotary_factor", 1.0, Use::no_matter},
                  {"rope_parameters", {{"partial_rotary_factor", 1.0}}},
                  {"rope_parameters", {{"partial_rotary_factor", 0.5}}, Use::no_matter}}},
      {"falcon_h1", joined(sizes, {{"mamba_d_ssm", 128}}),
       kDense + mamba_of_width +
           Fields{{"mamba_n_heads", 8, Use::refused},
                  {"mamba_d_head", 64, Use::refused},
                  {"mamba_d_head", "auto", Use::no_matter},
                  {"mamba_d_ssm", 256, Use::refused},
                  {"mamba_expand", 3, Use::no_matter},
                  {"mamba_rms_norm", true},
                  {"mamba_norm_before_gate", false, Use::no_matter},
                  {"num_hidden_layers", 5},
                  {"rope_theta", 3000.0},
                  {"partial_rotary_factor", 0.5, Use::refused},
                  {"attention_bias", true},
                  {"mlp_bias", true},
                  {"embedding_multiplier", 2.0},
                  {"lm_head_multiplier", 2.0},
                  {"key_multiplier", -2.0},
                  {"attention_in_multiplier", 2.0},
                  {"attention_out_multiplier", 2.0},
                  {"ssm_in_multiplier", 2.0},
                  {"ssm_out_multiplier", 2.0},
                  {"ssm_out_multiplier", "2", Use::refused},
                  {"ssm_multipliers", {2.0, 1.0, 1.0, 1.0, 1.0}},
                  {"ssm_multipliers", {1.0, 2.0, 1.0, 1.0, 1.0}},
                  {"ssm_multipliers", {1.0, 1.0, 2.0, 1.0, 1.0}},
                  {"ssm_multipliers", {1.0, 1.0, 1.0, 2.0, 1.0}},
                  {"ssm_multipliers", {1.0, 1.0, 1.0, 1.0, 2.0}},
                  {"ssm_multipliers", {2.0, 2.0}, Use::refused},
                  {"mlp_multipliers", {2.0, 1.0}},
                  {"mlp_multipliers", {1.0, 2.0}},
                  {"mlp_multipliers", {2.0, 2.0, 2.0}, Use::refused},
                  {"num_logits_to_keep", 2, Use::no_matter}}},
      {"falcon_h1",
       joined(sizes, {{"mamba_d_ssm", 128}, {"mamba_rms_norm", true}}),
       {{"mamba_norm_before_gate", false}, {"mamba_n_groups", 2}}},
      {"minimax", joined({{"num_local_experts", 4}}, {{"num_experts_per_tok", 2}}),
       kDense + kRouter +
           Fields{{"num_local_experts", 8},
                  {"num_hidden_layers", 5},
                  {"sliding_window", 16},
                  {"rope_theta", 3000.0},
                  {"rms_norm_eps", 1e-3},
                  {"hidden_act", "relu", Use::refused},
                  {"partial_rotary_factor", 0.5},
                  {"partial_rotary_factor", 2, Use::refused},
                  {"rope_parameters", {{"partial_rotary_factor", 0.5}}},
                  {"rotary_dim", 8},
                  {"rotary_dim", 16, Use::no_matter},
                  {"rotary_dim", 17, Use::refused},
                  {"block_size", 64, Use::no_matter},
                  {"router_jitter_noise", 0.5, Use::no_matter},
                  {"layer_types", types("linear_attention")},
                  {"layer_types", types("conv"), Use::refused},
                  {"full_attn_alpha_factor", 2.0},
                  {"full_attn_beta_factor", 2.0},
                  {"linear_attn_alpha_factor", 2.0},
                  {"linear_attn_beta_factor", 2.0},
                  {"mlp_alpha_factor", 2.0},
                  {"mlp_beta_factor", 2.0}}},
      {"olmo_hybrid",
       {{"linear_num_key_heads", 2}, {"linear_num_value_heads", 4}},
       kDense + Fields{{"linear_num_key_heads", 4},
                       {"linear_num_value_heads", 2},
                       {"linear_key_head_dim", 16},
                       {"linear_value_head_dim", 16},
                       {"linear_conv_kernel_dim", 3},
                       {"linear_allow_neg_eigval", false},
                       {"attention_bias", true},
                       {"num_hidden_layers", 5},
                       {"layer_types", types("linear_attention")},
                       {"layer_types", kinds("linear_attention"), Use::refused},
                       {"layer_types", kinds("full_attention"), Use::refused},
                       {"rope_theta", 3000.0},
                       {"rope_parameters", {{"rope_theta", nullptr}}},
                       {"hidden_act", "relu", Use::refused},
                       {"rms_norm_eps", 1e-3},
                       {"partial_rotary_factor", 0.5, Use::refused}}},
  };
}

TEST(ConfigFields, OtherHybrids) {
  const Fields of_all = {{"vocab_size", 101},
                         {"hidden_size", 128},
                         {"num_attention_heads", 8},
                         {"num_key_value_heads", 4},
                         {"head_dim", 32},
                         {"head_dim", 1, Use::refused},
                         {"max_position_embeddings", 600},
                         {"tie_word_embeddings", false},
                         {"initializer_range", 0.5, Use::no_matter},
                         {"attention_dropout", 0.5, Use::no_matter}};
  for (const MemberFields& hybrid : hybrid_fields()) {
    const Json config = base(hybrid.type, hybrid.more);
    for (const Field& field : hybrid.fields + of_all) expect_use(config, field);
  }
}

TEST(ConfigFields, Mamba2Alone) {
  Json config = base("mamba2", {{"num_heads", 8}, {"layer_norm_epsilon", 1e-5}});
  config.erase("head_dim");
  for (const Field& field : Fields{{"vocab_size", 101},
                                   {"hidden_size", 128},
                                   {"num_hidden_layers", 5},
                                   {"tie_word_embeddings", false},
                                   {"num_heads", 16},
                                   {"head_dim", 32},
                                   {"n_groups", 4},
                                   {"state_size", 32},
                                   {"conv_kernel", 3},
                                   {"use_conv_bias", false},
                                   {"time_step_limit", {0.1, 2.0}},
                                   {"layer_norm_epsilon", 1e-3},
                                   {"hidden_act", "relu", Use::refused},
                                   {"intermediate_size", 64, Use::no_matter},
                                   {"num_attention_heads", 8, Use::no_matter},
                                   {"rope_theta", 3000.0, Use::no_matter},
                                   {"expand", 3, Use::no_matter}})
    expect_use(config, field);
}

TEST(ConfigFields, WidthOfFalconH1) {
  const Json config =
      base("falcon_h1", {{"mamba_n_heads", 4}, {"mamba_d_head", 32}, {"mamba_d_ssm", nullptr}});
  expect_use(config, {"mamba_expand", 3, Use::refused});
  expect_use(config, {"mamba_d_head", "auto", Use::no_matter});
  expect_use(joined(config, {{"mamba_d_head", "auto"}}), {"mamba_expand", 3});
}

// Kimi Delta Attention and latent attention.
const Json kLatentSizes = {{"num_key_value_heads", 4}, {"kv_lora_rank", 20},
                           {"qk_nope_head_dim", 12},   {"qk_rope_head_dim", 8},
                           {"v_head_dim", 16},         {"moe_intermediate_size", 24},
                           {"num_experts", 8},         {"num_experts_per_token", 2}};
const Fields kLatentFields = {{"vocab_size", 101},
                              {"hidden_size", 128},
                              {"intermediate_size", 64},
                              {"num_hidden_layers", 5},
                              {"kv_lora_rank", 24},
                              {"q_lora_rank", 24},
                              {"qk_nope_head_dim", 16},
                              {"qk_rope_head_dim", 4},
                              {"v_head_dim", 20},
                              {"attention_bias", true},
                              {"rms_norm_eps", 1e-3},
                              {"tie_word_embeddings", false},
                              {"model_max_length", 700},
                              {"max_position_embeddings", 600},
                              {"moe_intermediate_size", 48},
                              {"num_experts", 16},
                              {"num_local_experts", 16},
                              {"num_experts_per_token", 3},
                              {"num_shared_experts", 2},
                              {"n_shared_experts", 2},
                              {"moe_renormalize", false},
                              {"routed_scaling_factor", 1.5},
                              {"first_k_dense_replace", 3},
                              {"mlp_layer_types", {"dense", "sparse", "dense", "sparse", "dense", "sparse"}},
                              {"layer_types", kinds("full_attention")},
                              {"layer_types", kinds("conv"), Use::refused},
                              {"linear_num_heads", 3},
                              {"linear_head_dim", 24},
                              {"linear_conv_kernel_dim", 3},
                              {"hidden_act", "relu", Use::refused},
                              {"attention_dropout", 0.5, Use::no_matter}};

TEST(ConfigFields, KimiLinear) {
  const Json config = base("kimi_linear", kLatentSizes);
  const Json published = {{"num_heads", 3},
                          {"head_dim", 24},
                          {"short_conv_kernel_size", 3},
                          {"full_attn_layers", {2, 4}},
                          {"kda_layers", {1, 3, 5, 6}}};
  for (const Field& field : kLatentFields + Fields{{"head_dim", 24, Use::no_matter},
                                                   {"rope_theta", 3000.0, Use::no_matter},
                                                   {"linear_attn_config", published},
                                                   {"num_expert_group", 2},
                                                   {"moe_router_activation_func", "softmax", Use::refused},
                                                   {"moe_layer_freq", 2, Use::refused},
                                                   {"mla_use_nope", false, Use::refused}})
    expect_use(config, field);
  Json listed = config;
  listed["linear_attn_config"] = published;
  const auto spec = read(listed);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (size_t i = 0; i < spec->layers.size(); i++)
    EXPECT_EQ(std::holds_alternative<LatentAttentionSpec>(spec->layers[i].mixer), i == 1 || i == 3) << i;
  for (const Json& full : {Json{2, 4, 5}, Json{2}}) {  // layer 5 twice, and layer 4 never
    listed["linear_attn_config"]["full_attn_layers"] = full;
    EXPECT_FALSE(read(listed).ok()) << full;
  }
}

TEST(ConfigFields, Ling) {
  const Json groups = {{"num_expert_group", 4}, {"topk_group", 2}};
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 256}};
  const Json config = base("bailing_hybrid", joined(kLatentSizes, groups));
  for (const Field& field : kLatentFields + Fields{{"head_dim", 24},
                                                   {"rope_theta", 3000.0},
                                                   {"rope_parameters", yarn},
                                                   {"short_conv_kernel_size", 3},
                                                   {"layer_group_size", 2},
                                                   {"kda_safe_gate", false},
                                                   {"kda_lower_bound", -3.0},
                                                   {"kda_lower_bound", 3.0, Use::refused},
                                                   {"num_expert_group", 2},
                                                   {"topk_group", 3},
                                                   {"score_function", "softmax", Use::refused},
                                                   {"qk_rope_head_dim", 5, Use::refused},
                                                   {"num_nextn_predict_layers", 1, Use::no_matter}})
    expect_use(config, field);
}

// Ling's scores grow with a scaled rope, as DeepSeek's do.
TEST(ConfigFields, ScoresOfLing) {
  const auto scale = [](const Json& more) {
    const Json rope =
        joined({{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 256}}, more);
    const Json groups = {{"num_expert_group", 4}, {"topk_group", 2}, {"rope_parameters", rope}};
    const auto spec = read(base("bailing_hybrid", joined(kLatentSizes, groups)));
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    for (const LayerSpec& layer : spec->layers)
      if (const auto* attention = std::get_if<LatentAttentionSpec>(&layer.mixer)) return attention->scale;
    return 0.0f;
  };
  EXPECT_GT(scale({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}), 1.1f * scale(Json::object()));
}

TEST(ConfigFields, KindsOfLayersThatAreNotListed) {
  const auto kinds_of_layers = [](const Json& config) {
    const auto spec = read(config);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    std::string out;
    for (const LayerSpec& layer : spec->layers)
      out += std::holds_alternative<ops::RecurrenceShape>(layer.mixer) ? 'r' : 'a';
    return out;
  };
  const Json minimax = base("minimax", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  EXPECT_EQ(kinds_of_layers(minimax), "ararar");
  EXPECT_EQ(kinds_of_layers(base("kimi_linear", kLatentSizes)), "rrrrar");
  const Json groups = {{"num_expert_group", 4}, {"topk_group", 2}, {"layer_group_size", 3}};
  EXPECT_EQ(kinds_of_layers(base("bailing_hybrid", joined(kLatentSizes, groups))), "rrarra");
  for (const int other : {5, 7}) {
    const std::vector<std::string> types(static_cast<size_t>(other), "full_attention");
    EXPECT_FALSE(read(joined(minimax, {{"layer_types", types}})).ok()) << other << " of 6 layers";
  }
}

TEST(ConfigFields, WidthsOfLfm2AreRoundedUp) {
  const auto spec = read(base("lfm2", {{"full_attn_idxs", {1}}, {"block_multiple_of", 48}}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(std::get<MlpSpec>(spec->layers[0].mlp).intermediate, 96) << "two thirds of 96 are 64";
}

TEST(ConfigFields, Lara) {
  const Json config = base("lara_mini", joined(kMixture, {{"sliding_window", 32}}));
  for (const Field& field : kRouter + kNarrow +
                                Fields{{"head_dim", 32},
                                       {"num_hidden_layers", 5},
                                       {"sliding_window", 16},
                                       {"attention_bias", true},
                                       {"rope_theta", 3000.0},
                                       {"rms_norm_eps", 1e-3},
                                       {"shared_expert_intermediate_size", 48},
                                       {"norm_topk_prob", false},
                                       {"layer_types", kinds("full_attention")},
                                       {"layer_types", kinds("conv"), Use::refused},
                                       {"linear_conv_kernel_dim", 3},
                                       {"linear_key_head_dim", 32},
                                       {"linear_value_head_dim", 32},
                                       {"linear_num_key_heads", 4},
                                       {"linear_num_value_heads", 24},
                                       {"linear_num_value_heads", 9, Use::refused},
                                       {"hidden_act", "relu", Use::refused}})
    expect_use(config, field);
}

}  // namespace
}  // namespace anabranch
