// As config_fields_test.cc, for members of the Llama family whose layers with windows differ from the others.
#include "models/config_fields.h"

namespace anabranch {
namespace {

const Json kWindowed = {"full_attention",    "sliding_attention", "sliding_attention",
                        "sliding_attention", "full_attention",    "sliding_attention"};
const Json kSparse = {"sparse", "dense", "sparse", "sparse", "sparse", "sparse"};
const Json kBoth = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 3000.0}}},
                    {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 500.0}}}};
const Fields kRopesByKind = {{"rope_parameters", kBoth},
                             {"rope_parameters", {{"rope_theta", 3000.0}}, Use::refused},
                             {"rope_parameters", {{"full_attention", kBoth["full_attention"]}}, Use::refused},
                             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}, Use::refused}};
const Fields kOfAll = {{"vocab_size", 101},
                       {"hidden_size", 80},
                       {"intermediate_size", 64},
                       {"max_position_embeddings", 600},
                       {"rms_norm_eps", 1e-3},
                       {"tie_word_embeddings", false},
                       {"head_dim", 32},
                       {"attention_bias", true},
                       {"sliding_window", 16},
                       {"layer_types", kinds("full_attention")},
                       {"layer_types", kinds("conv"), Use::refused},
                       {"initializer_range", 0.5, Use::no_matter},
                       {"attention_dropout", 0.5, Use::no_matter},
                       {"use_cache", false, Use::no_matter},
                       {"output_router_logits", true, Use::no_matter},
                       {"router_aux_loss_coef", 0.5, Use::no_matter}};
const Json kExperts = {{"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
const Fields kExpertFields = {{"num_experts_per_tok", 3},
                              {"moe_intermediate_size", 48},
                              {"hidden_act", "relu", Use::refused},
                              {"mlp_layer_types", kSparse},
                              {"mlp_layer_types", kinds("moe"), Use::refused},
                              {"first_k_dense_replace", 3, Use::no_matter}};
const Fields kThetas = {{"layer_rope_theta", {0, 5000, 5000, 0, 7000.0, 10000.0}},
                        {"layer_rope_theta", {0, 5000}, Use::refused},
                        {"rope_theta", 3000.0}};

std::vector<MemberFields> fields_by_kind() {
  const Json factors = {{"sliding_window", 32}, {"layer_types", kWindowed}};
  const Fields multipliers = {{"embedding_multiplier", 2.0}, {"logits_scaling", 2.0},
                              {"residual_multiplier", 2.0},  {"attention_multiplier", 2.0},
                              {"num_key_value_heads", 4},    {"rope_parameters", kYarn}};
  return {
      {"mimo_v2_flash",
       joined(kExperts, joined(factors, {{"n_routed_experts", 12}, {"head_dim", 24}, {"v_head_dim", 12}})),
       kRopesByKind + kExpertFields +
           Fields{{"n_routed_experts", 24},
                  {"num_key_value_heads", 1},
                  {"num_key_value_heads", 4, Use::refused},
                  {"v_head_dim", 16},
                  {"v_head_dim", 30, Use::refused},
                  {"attention_value_scale", 0.5},
                  {"attention_value_scale", nullptr},
                  {"sliding_window_size", 64},
                  {"n_group", 4},
                  {"norm_topk_prob", false},
                  {"routed_scaling_factor", 2.5},
                  {"routed_scaling_factor", nullptr, Use::no_matter}}},
      {"mellum",
       joined(kExperts, joined(factors, {{"num_experts", 8},
                                         {"mlp_layer_types",
                                          {"sparse", "sparse", "sparse", "sparse", "sparse", "dense"}}})),
       kRopesByKind + kExpertFields + Fields{{"num_experts", 16}, {"norm_topk_prob", false}}},
      {"laguna", joined(kExperts, joined(factors, {{"num_experts", 8}})),
       kRopesByKind + kExpertFields +
           Fields{{"num_experts", 16},
                  {"shared_expert_intermediate_size", 48},
                  {"num_key_value_heads", 1},
                  {"num_attention_heads", 8},
                  {"num_attention_heads_per_layer", {4, 8, 4, 8, 4, 8}},
                  {"num_attention_heads_per_layer", {4, 3, 4, 8, 4, 8}, Use::refused},
                  {"num_attention_heads_per_layer", {4, 8}, Use::refused},
                  {"gating", true, Use::no_matter},
                  {"gating", "per-head", Use::no_matter},
                  {"gating", "per-element"},
                  {"gating", false, Use::refused},
                  {"gating", "none", Use::refused},
                  {"moe_routed_scaling_factor", 2.5},
                  {"moe_router_logit_softcapping", 5.0},
                  {"moe_apply_router_weight_on_input", true, Use::refused}}},
      {"step3p5", joined(kExperts, joined(factors, {{"n_routed_experts", 8}})),
       Fields{{"n_routed_experts", 16},
              {"moe_top_k", 1, Use::no_matter},
              {"num_experts_per_tok", 3},
              {"mlp_layer_types", kSparse},
              {"moe_layers_enum", "0,2"},
              {"moe_layers_enum", {0, 2}},
              {"share_expert_dim", 48},
              {"share_expert_dims", 48},
              {"hidden_act", "relu", Use::no_matter},
              {"mlp_bias", true},
              {"num_sliding_attention_heads", 6},
              {"num_sliding_attention_heads", 3, Use::refused},
              {"attention_other_setting", {{"num_attention_heads", 6}}},
              {"per_layer_config", {{"1", {{"num_attention_heads", 8}}}}},
              {"per_layer_config", {{"1", {{"head_dim", 8}}}}, Use::refused},
              {"gating", false, Use::refused},
              {"gating", "per-element", Use::refused},
              {"query_pre_attn_scalar", 30.0},
              {"moe_router_scaling_factor", 2.5},
              {"swiglu_limits", {0, 0, 0, 5, nullptr, 0}},
              {"swiglu_limits", {0, 0, 0, -5, 0, 0}, Use::refused},
              {"swiglu_limits", {5, 5, 5, 0, 0, 0}, Use::no_matter},  // of layers without experts
              {"swiglu_limits", {5, 5}, Use::refused},
              {"swiglu_limits_shared", {5, 0, 0, 0, 0, 0}},
              {"swiglu_limits_shared", {0, 0, 0, 5, 0, 0}},
              {"rope_parameters", kBoth},
              {"rope_theta", {9.0, 8.0, 8.0, 8.0, 9.0, 8.0}},
              {"partial_rotary_factors", {0.5, 1, 1, 1, 0.5, 1}},
              {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
              {"use_bidirectional_attention", true, Use::refused}}},
      {"muse_glimmer_text", factors,
       Fields{{"hidden_activation", "relu", Use::refused},
              {"num_key_value_heads", 4},
              {"qk_scale_factor", 2.0},
              {"output_multiplier", 2.0},
              {"final_logit_softcapping", 5.0},
              {"post_norm_eps", 1e-3},
              {"rope_parameters", kYarn},
              {"rope_theta", 3000.0},
              {"layer_rope_theta", {0, 5000, 5000, 0, 7000.0, 10000.0}},
              {"layer_rope_theta", {0, 5000}, Use::refused}}},
      {"granite_swa", factors,
       kThetas + multipliers + Fields{{"hidden_act", "relu", Use::refused}, {"mlp_bias", true}}},
      {"granitemoe_swa", joined(factors, {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}),
       kThetas + multipliers +
           Fields{{"num_local_experts", 4}, {"num_experts_per_tok", 3}, {"shared_intermediate_size", 24}}},
  };
}

TEST(ConfigFields, LayersByKind) {
  for (const MemberFields& member : fields_by_kind()) {
    const Json config = base(member.type, member.more);
    for (const Field& field : member.fields + kOfAll) expect_use(config, field);
  }
}

TEST(ConfigFields, HyV3) {
  const Json config = base("hy_v3", joined(kExperts, {{"num_experts", 8}}));
  for (const Field& field : common("hidden_act") + kDense + kHeadDim + kExpertFields +
                                Fields{{"num_experts", 4},
                                       {"num_shared_experts", 2},
                                       {"num_shared_experts", 0},
                                       {"router_scaling_factor", 1.5},
                                       {"enable_moe_fp32_combine", false, Use::no_matter},
                                       {"attention_bias", true},
                                       {"mlp_bias", true},
                                       {"sliding_window", 16, Use::no_matter}})
    expect_use(config, field);
}

TEST(ConfigFields, Hy3WithoutSharedExpertsHasOneOfTheWidthOfADenseLayer) {
  const auto spec = read(base("hy_v3", joined(kExperts, {{"num_experts", 8}, {"num_shared_experts", 0}})));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(std::get<MoeSpec>(spec->layers[1].mlp).shared_intermediate, 96);
}

// What absent keys mean.
TEST(ConfigFields, LayersByKindWithoutKeys) {
  const auto attention = [](const ModelSpec& spec, size_t layer) {
    return std::get<AttentionSpec>(spec.layers[layer].mixer);
  };
  const auto windows = [&](const char* type, const Json& more) {
    const auto spec = read(base(type, joined({{"num_hidden_layers", 7}}, more)));
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    std::string out;
    for (size_t i = 0; i < spec->layers.size(); i++) out += attention(*spec, i).window > 0 ? 'w' : '-';
    return out;
  };
  const Json mimo = joined(
      kExperts, {{"n_routed_experts", 8}, {"num_key_value_heads", 1}, {"head_dim", 24}, {"v_head_dim", 12}});
  EXPECT_EQ(windows("mimo_v2_flash", mimo), "-wwww-w");
  EXPECT_EQ(windows("laguna", joined(kExperts, {{"num_experts", 8}})), "-------");
  EXPECT_EQ(windows("step3p5", joined(kExperts, {{"n_routed_experts", 8}})), "-------");
  EXPECT_EQ(windows("muse_glimmer_text", Json::object()), "ww-www-");
  EXPECT_EQ(windows("granite_swa", Json::object()), "-www-ww");
  const auto flash = read(base("mimo_v2_flash", mimo));
  for (size_t i = 0; i < 6; i++) {
    const bool windowed = attention(*flash, i).window > 0;
    EXPECT_EQ(attention(*flash, i).kv_heads, windowed ? 2 : 1);
    EXPECT_EQ(attention(*flash, i).sinks, windowed);
    EXPECT_EQ(std::holds_alternative<MlpSpec>(flash->layers[i].mlp), i == 0);
  }
  EXPECT_EQ(attention(*flash, 1).window, 129);
  EXPECT_EQ(flash->ropes.size(), 2u);
  EXPECT_FLOAT_EQ(flash->ropes[0].inv_freq[1], std::pow(5e6f, -2.0f / 8)) << "8 of 24 dimensions turn";
  const auto muse = read(base("muse_glimmer_text"));
  for (size_t i = 0; i < 6; i++)
    EXPECT_EQ(muse->ropes[static_cast<size_t>(muse->layers[i].rope)].inv_freq[0] == 0,
              attention(*muse, i).window == 0);
  EXPECT_TRUE(muse->layers[0].norms.offset);
  EXPECT_FALSE(muse->norms.offset);
}

// The prediction head's layers at the end of lists, and what its model type may be.
TEST(ConfigFields, StepAsPublished) {
  Json text = base("step3p5", joined(kExperts, {{"n_routed_experts", 8}, {"sliding_window", 32}}));
  text["layer_types"] = kWindowed, text["swiglu_limits"] = {0, 0, 0, 5, 0, 0};
  text["rope_theta"] = {9.0, 8.0, 8.0, 8.0, 9.0, 8.0};
  const auto plain = read(text);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  text["num_nextn_predict_layers"] = 1;
  text["layer_types"].push_back("conv"), text["swiglu_limits"].push_back(7),
      text["rope_theta"].push_back(7.0);
  text["model_type"] = "another";
  const auto nested = read({{"model_type", "step3p7"}, {"text_config", text}});
  ASSERT_TRUE(nested.ok()) << nested.error().message;
  EXPECT_EQ(describe(*plain), describe(*nested));
}

// What is said of some layers is not said of others.
TEST(ConfigFields, StepsLayersHaveTheirOwn) {
  const auto step = [](const Json& more) {
    Json config = base("step3p5", joined(kExperts, {{"n_routed_experts", 8}, {"sliding_window", 32}}));
    config["layer_types"] = kWindowed;
    config.update(more);
    auto spec = read(config);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    return std::move(*spec);
  };
  const ModelSpec plain = step(Json::object());
  const auto heads = [](const ModelSpec& spec, bool windowed) {
    for (const LayerSpec& layer : spec.layers)
      if (const auto& attention = std::get<AttentionSpec>(layer.mixer); (attention.window > 0) == windowed)
        return attention.heads;
    return 0;
  };
  const Json other = {{"num_attention_heads", 12}};
  const ModelSpec more = step({{"num_sliding_attention_heads", 8}, {"attention_other_setting", other}});
  EXPECT_EQ(heads(more, true), 8);
  EXPECT_EQ(heads(more, false), heads(plain, false));
  EXPECT_EQ(heads(step({{"attention_other_setting", other}}), true), 12);

  const auto mixtures = [&](const Json& keys) {
    std::string out;
    for (const LayerSpec& layer : step(keys).layers)
      out += std::holds_alternative<MoeSpec>(layer.mlp) ? 'e' : '-';
    return out;
  };
  EXPECT_EQ(mixtures({{"moe_layers_enum", "1,3,100000000"}}), "-e-e--");
  EXPECT_EQ(mixtures({{"moe_layers_enum", {4, -1}}}), "----e-");
  const Json types = {"dense", "dense", "sparse", "dense", "dense", "dense"};
  EXPECT_EQ(mixtures({{"moe_layers_enum", "1,3"}, {"mlp_layer_types", types}}), "--e---");

  const ModelSpec scaled = step({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}});
  for (size_t i = 0; i < plain.layers.size(); i++) {
    const auto first = [&](const ModelSpec& spec) {
      return spec.ropes[static_cast<size_t>(spec.layers[i].rope)].inv_freq[0];
    };
    const bool windowed = std::get<AttentionSpec>(plain.layers[i].mixer).window > 0;
    EXPECT_FLOAT_EQ(first(scaled), first(plain) / (windowed ? 1 : 2)) << i;
  }
}

TEST(ConfigFields, Lfm3WithoutKindsOfLayers) {
  const auto spec = read(base("lfm3", {{"norm_eps", 1e-5}, {"num_hidden_layers", 9}}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  std::string kinds;
  for (const LayerSpec& layer : spec->layers) {
    const auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
    kinds += !attention ? 'c' : attention->window > 0 ? 'w' : '-';
  }
  EXPECT_EQ(kinds, "cc-cwc-cw");
}

// "su" is the name in the first files of Phi 3.
TEST(ConfigFields, LongropeHasAnOlderName) {
  const auto with = [](const char* type) {
    const Json factors(Json::array_t(8, 2.0));
    return read(base("llama", {{"rope_scaling",
                                {{"type", type},
                                 {"short_factor", factors},
                                 {"long_factor", factors},
                                 {"original_max_position_embeddings", 256}}}}));
  };
  const auto su = with("su"), longrope = with("longrope");
  ASSERT_TRUE(su.ok()) << su.error().message;
  ASSERT_TRUE(longrope.ok()) << longrope.error().message;
  EXPECT_EQ(describe(*su), describe(*longrope));
}

}  // namespace
}  // namespace anabranch
