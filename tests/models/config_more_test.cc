// The fields of configs of the families in models/llama_members_more.h, and models around a text model.
#include "models/config_fields.h"

namespace anabranch {
namespace {

std::vector<MemberFields> more_fields() {
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  const Json cohere = {{"num_experts", 8},     {"num_experts_per_tok", 2},   {"num_shared_experts", 1},
                       {"sliding_window", 32}, {"first_k_dense_replace", 2}, {"rms_norm_eps", nullptr}};
  const Json afmoe = {
      {"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}, {"sliding_window", 32}};
  return {
      {"gemma",
       {},
       {{"head_dim", 32},
        {"hidden_act", "gelu", Use::no_matter},
        {"hidden_act", "gelu_new", Use::no_matter},
        {"hidden_act", "silu"},
        {"rms_norm_eps", 1e-3},
        {"attention_bias", true},
        {"sliding_window", 16, Use::no_matter},
        {"use_bidirectional_attention", true, Use::refused},
        {"use_bidirectional_attention", nullptr, Use::no_matter},
        {"partial_rotary_factor", 0.5, Use::refused}}},
      {"arcee",
       {},
       {{"head_dim", 32},
        {"hidden_act", "gelu"},
        {"hidden_act", "relu2", Use::no_matter},
        {"hidden_act", "xielu", Use::refused},
        {"hidden_act", "silu", Use::refused},
        {"rms_norm_eps", 1e-3},
        {"attention_bias", true},
        {"mlp_bias", true},
        {"partial_rotary_factor", 0.5, Use::refused}}},
      {"cwm",
       {{"sliding_window", 32}},
       {{"head_dim", 32},
        {"mlp_bias", true},
        {"attention_bias", true, Use::no_matter},
        {"pretraining_tp", 2, Use::no_matter},
        {"sliding_window", 16},
        {"sliding_window", nullptr},
        {"layer_types", kinds("full_attention")},
        {"rope_scaling", linear}}},
      {"olmo",
       {},
       {{"attention_bias", true},
        {"rms_norm_eps", 1e-3, Use::no_matter},
        {"clip_qkv", 8.0, Use::refused},
        {"clip_qkv", nullptr, Use::no_matter}}},
      {"apertus",
       {},
       {{"hidden_act", "xielu", Use::no_matter},
        {"hidden_act", "relu2"},
        {"rms_norm_eps", 1e-3},
        {"mlp_bias", true, Use::no_matter},
        {"attention_bias", true},
        {"rope_scaling", linear}}},
      {"nanochat",
       {},
       {{"hidden_act", "gelu"},
        {"rms_norm_eps", 1e-3},
        {"attention_bias", true},
        {"final_logit_softcapping", 20.0},
        {"final_logit_softcapping", nullptr},
        {"final_logit_softcapping", 15.0, Use::no_matter},
        {"rope_scaling", linear},
        {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}, Use::refused}}},
      {"hyperclovax",
       {},
       {{"head_dim", 32},
        {"attention_bias", true},
        {"mlp_bias", true},
        {"embedding_multiplier", 2.0},
        {"logits_scaling", 2.0},
        {"residual_multiplier", 2.0},
        {"attention_multiplier", 2.0},
        {"attention_multiplier", nullptr, Use::no_matter},
        {"use_post_norm", false},
        {"use_post_norm", true, Use::no_matter}}},
      {"jais2",
       {},
       {{"head_dim", 32},
        {"hidden_act", "gelu"},
        {"layer_norm_eps", 1e-3},
        {"rms_norm_eps", 1e-3, Use::no_matter},
        {"attention_bias", false},
        {"mlp_bias", false}}},
      {"nemotron",
       {},
       {{"head_dim", 32},
        {"hidden_act", "gelu"},
        {"norm_eps", 1e-3},
        {"attention_bias", true},
        {"mlp_bias", true},
        {"partial_rotary_factor", 0.25},
        {"partial_rotary_factor", 0.5, Use::no_matter}}},
      {"flex_olmo",
       {{"num_experts", 8}, {"num_experts_per_tok", 2}},
       {{"num_experts", 7}, {"num_experts_per_tok", 3}, {"norm_topk_prob", true}, {"attention_bias", true}}},
      {"cohere2_moe",
       cohere,
       {{"head_dim", 32},
        {"num_experts", 7},
        {"num_experts_per_tok", 3},
        {"num_shared_experts", 2},
        {"shared_expert_combination_strategy", "sum"},
        {"shared_expert_combination_strategy", "average", Use::no_matter},
        {"shared_expert_combination_strategy", "most", Use::refused},
        {"expert_selection_fn", "sigmoid"},
        {"expert_selection_fn", "tanh", Use::refused},
        {"norm_topk_prob", false, Use::no_matter},
        {"first_k_dense_replace", 3},
        {"mlp_layer_types", {"sparse", "dense", "sparse", "sparse", "sparse", "sparse"}},
        {"layer_types", kinds("full_attention")},
        {"sliding_window", 16},
        {"sliding_window_pattern", 3},
        {"prefix_dense_sliding_window_pattern", 2},
        {"prefix_dense_intermediate_size", 64},
        {"layer_norm_eps", 1e-3},
        {"rms_norm_eps", 1e-5},
        {"logit_scale", 0.5},
        {"attention_bias", true}}},
      {"phi",
       {},
       {{"hidden_act", "gelu"},
        {"hidden_act", "gelu_new", Use::no_matter},
        {"layer_norm_eps", 1e-3},
        {"partial_rotary_factor", 0.25},
        {"qk_layernorm", true, Use::refused}}},
      {"gpt_neox",
       {},
       {{"hidden_act", "gelu_new"},
        {"hidden_act", "gelu", Use::no_matter},
        {"layer_norm_eps", 1e-3},
        {"rotary_pct", 0.5},
        {"rotary_emb_base", 3000},
        {"rope_theta", 3000.0, Use::no_matter},
        {"attention_bias", false},
        {"use_parallel_residual", false}}},
      {"exaone",
       {},
       {{"head_dim", 32}, {"rms_norm_eps", 1e-3}, {"attention_bias", true}, {"mlp_bias", true}}},
      {"internlm3", {}, {{"head_dim", 32}, {"attention_bias", true}, {"mlp_bias", true}}},
      {"afmoe",
       afmoe,
       {{"head_dim", 32},
        {"num_experts", 7},
        {"num_experts_per_tok", 3},
        {"num_shared_experts", 1},
        {"moe_intermediate_size", 16},
        {"num_dense_layers", 3},
        {"route_scale", 2.0},
        {"mup_enabled", true},
        {"sliding_window", 16},
        {"global_attn_every_n_layers", 3},
        {"layer_types", kinds("full_attention")},
        {"attention_bias", true}}},
      {"sarvam_moe",
       joined(afmoe, {{"n_routed_experts", 8}}),
       {{"head_dim", 32},
        {"n_routed_experts", 6, Use::no_matter},
        {"num_experts", 6},
        {"n_shared_experts", 2},
        {"use_qk_norm", false},
        {"n_group", 4},
        {"routed_scaling_factor", 1.0},
        {"norm_topk_prob", false},
        {"first_k_dense_replace", 3},
        {"partial_rotary_factor", 0.5},
        {"attention_bias", true}}},
      {"flint",
       afmoe,
       {{"head_dim", 32},
        {"num_experts", 7},
        {"norm_topk_prob", false},
        {"shared_expert_intermediate_size", 28},
        {"mlp_only_layers", {2}},
        {"mlp_only_layers", {0, 1}, Use::no_matter},
        {"decoder_sparse_step", 2},
        {"sliding_window", 16},
        {"layer_types", kinds("full_attention")},
        {"attention_bias", true}}},
      {"glm4v_text",
       {},
       {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1e-3}, {"attention_bias", false, Use::no_matter}}},
  };
}

TEST(ConfigMore, FieldsOfMembers) {
  const Fields of_all = {{"vocab_size", 101},
                         {"hidden_size", 128},
                         {"num_attention_heads", 8},
                         {"num_key_value_heads", 4},
                         {"intermediate_size", 64},
                         {"num_hidden_layers", 5},
                         {"max_position_embeddings", 600},
                         {"hidden_act", "relu", Use::refused},
                         {"tie_word_embeddings", false},
                         {"rope_parameters", kYarn},
                         {"attention_dropout", 0.5, Use::no_matter}};
  for (const MemberFields& member : more_fields()) {
    Json config = base(member.type, member.more.is_null() ? Json::object() : member.more);
    for (const Field& field : member.fields) expect_use(config, field);
    for (const char* fixed : {"olmo", "apertus", "nanochat", "flex_olmo", "phi", "gpt_neox", "glm4v_text"})
      if (config["model_type"] == fixed) config.erase("head_dim");
    // A rope that depends on the position cannot turn back, but yarn does not.
    for (const Field& field : of_all) expect_use(config, field);
  }
}

TEST(ConfigMore, VaultGemmaIsGemma2WithoutTheNormsAfterBothParts) {
  const auto vault = read(base("vaultgemma")), gemma = read(base("gemma2"));
  ASSERT_TRUE(vault.ok() && gemma.ok());
  EXPECT_NE(describe(*vault), describe(*gemma));
  ModelSpec same = *gemma;
  for (LayerSpec& layer : same.layers) layer.form.post1 = layer.form.post2 = nullptr;
  EXPECT_EQ(describe(*vault), describe(same));
  for (const Field& field : Fields{{"query_pre_attn_scalar", 64},
                                   {"sliding_window", 16},
                                   {"attn_logit_softcapping", 20.0},
                                   {"final_logit_softcapping", nullptr},
                                   {"layer_types", kinds("full_attention")}})
    expect_use(base("vaultgemma"), field);
}

// What absent keys mean.
TEST(ConfigMore, Defaults) {
  const auto without = [](const char* type, std::initializer_list<const char*> keys,
                          const Json& more = Json::object()) {
    Json config = base(type, more);
    for (const char* key : keys) config.erase(key);
    auto spec = read(config);
    EXPECT_TRUE(spec.ok()) << type << ": " << spec.error().message;
    return std::move(*spec);
  };
  const auto attention = [](const ModelSpec& spec) { return std::get<AttentionSpec>(spec.layers[1].mixer); };
  const ModelSpec gemma = without("gemma", {"head_dim", "num_key_value_heads", "tie_word_embeddings"},
                                  {{"num_attention_heads", 16}});
  EXPECT_EQ(attention(gemma).head_dim, 256);
  EXPECT_EQ(attention(gemma).kv_heads, 16);
  EXPECT_TRUE(gemma.tied_embeddings);
  EXPECT_EQ(gemma.embedding_scale, 8);
  const ModelSpec cwm =
      without("cwm", {"head_dim", "rope_theta", "num_key_value_heads"}, {{"num_attention_heads", 8}});
  EXPECT_EQ(attention(cwm).head_dim, 128);
  EXPECT_EQ(attention(cwm).window, 8192);
  EXPECT_EQ(std::get<AttentionSpec>(cwm.layers[4].mixer).window, 0);
  EXPECT_FLOAT_EQ(cwm.ropes[0].inv_freq[63], std::pow(1e6f, -126.0f / 128) / 16);
  const ModelSpec apertus = without("apertus", {"rope_theta"});
  EXPECT_FLOAT_EQ(apertus.ropes[0].inv_freq[7], std::pow(12e6f, -14.0f / 16) / 8);
  EXPECT_FLOAT_EQ(without("nanochat", {}).logits_soft_cap, 15);
  EXPECT_FLOAT_EQ(without("nanochat", {}).ropes[0].inv_freq[0], -1);
  EXPECT_EQ(without("nemotron", {}).ropes[0].inv_freq.size(), 4u);
  EXPECT_EQ(without("phi", {}).ropes[0].inv_freq.size(), 4u);
  EXPECT_EQ(without("gpt_neox", {}).ropes[0].inv_freq.size(), 2u);
  EXPECT_EQ(without("olmo", {}).norms.eps, 1e-5f);
  const ModelSpec flint =
      without("flint", {"sliding_window", "head_dim"},
              {{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}});
  for (const auto& [layer, window, sparse] :
       {std::tuple{0, 0, false}, {1, 0, false}, {2, 513, true}, {4, 513, true}, {5, 0, true}}) {
    const LayerSpec& each = flint.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(std::get<AttentionSpec>(each.mixer).window, window) << layer;
    EXPECT_EQ(std::holds_alternative<MoeSpec>(each.mlp), sparse) << layer;
  }
}

// The keys of published configs.
TEST(ConfigMore, OlderNames) {
  const auto same = [](const Json& config, const char* key, const char* older) {
    Json other = config;
    other[older] = config[key];
    other.erase(key);
    const auto usual = read(config), named = read(other);
    ASSERT_TRUE(named.ok()) << older << ": " << named.error().message;
    EXPECT_EQ(describe(*usual), describe(*named)) << older;
    // Of both names the published one counts.
    other[key] = config[key].is_boolean() ? Json(!config[key].get<bool>()) : Json(1);
    const auto both = read(other);
    ASSERT_TRUE(both.ok()) << older << ": " << both.error().message;
    EXPECT_EQ(describe(*usual), describe(*both)) << older;
  };
  const Json exaone = base("exaone", {{"rms_norm_eps", 1e-3}});
  same(exaone, "num_hidden_layers", "num_layers");
  same(exaone, "rms_norm_eps", "layer_norm_epsilon");
  EXPECT_FALSE(read(base("exaone", {{"activation_function", "relu"}})).ok());
  const Json intern = base("internlm3", {{"attention_bias", true}, {"mlp_bias", true}});
  same(intern, "attention_bias", "qkv_bias");
  same(intern, "mlp_bias", "bias");
  const Json sarvam = base("sarvam_moe", {{"n_routed_experts", 8},
                                          {"n_shared_experts", 2},
                                          {"attention_bias", true},
                                          {"num_experts_per_tok", 2},
                                          {"moe_intermediate_size", 8}});
  same(sarvam, "n_shared_experts", "num_shared_experts");
  same(sarvam, "n_routed_experts", "num_experts");
  same(sarvam, "attention_bias", "use_qkv_bias");
}

// A config without a tower's part, of this type, is read as the text model alone.
TEST(ConfigMore, ModelsAroundATextModel) {
  for (const auto& [outer, inner] : {std::pair{"llava", "llama"},   {"llava_next", "llama"},
                                     {"llava_onevision", "qwen2"},  {"internvl", "qwen2"},
                                     {"idefics3", "llama"},         {"smolvlm", "llama"},
                                     {"got_ocr2", "qwen2"},         {"lighton_ocr", "qwen3"},
                                     {"lfm2_vl", "lfm2"},           {"lfm3_vl", "lfm3"},
                                     {"aya_vision", "cohere2"},     {"cohere2_vision", "cohere2"},
                                     {"llava_next_video", "llama"}, {"vipllava", "llama"},
                                     {"qwen2_vl", "qwen2_vl_text"}, {"qwen2_5_vl", "qwen2_5_vl_text"},
                                     {"glm4v", "glm4v_text"},       {"glm46v", "glm4v_text"},
                                     {"exaone4_5", "exaone4"},      {"mistral3", "mistral"}}) {
    const Json config = base(inner);
    const auto plain = read(config);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    Json named = {{"model_type", outer}, {"text_config", config}}, unnamed = named;
    unnamed["text_config"].erase("model_type");
    for (const Json& each : {named, unnamed}) {
      const auto nested = read(each);
      ASSERT_TRUE(nested.ok()) << outer << ": " << nested.error().message;
      EXPECT_EQ(nested->family, inner);
      EXPECT_EQ(describe(*nested), describe(*plain)) << outer;
    }
  }
  EXPECT_EQ(text_type_of({{"model_type", "exaone4_5"}, {"text_config", {{"model_type", "exaone4_5_text"}}}}),
            "exaone4");
  EXPECT_EQ(text_type_of({{"model_type", "llava"}, {"text_config", {{"model_type", "mistral"}}}}), "mistral");
}

// As in LLaVA's first files, whose text_config leaves out what Transformers' class has.
TEST(ConfigMore, TextModelsMayLeaveOutUsualSizes) {
  const auto spec =
      read({{"model_type", "llava"},
            {"text_config", {{"model_type", "llama"}, {"rms_norm_eps", 1e-5}, {"vocab_size", 32064}}}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->hidden, 4096);
  EXPECT_EQ(spec->vocab, 32064);
  EXPECT_EQ(spec->layers.size(), 32u);
  EXPECT_EQ(std::get<MlpSpec>(spec->layers[0].mlp).intermediate, 11008);
  const auto mistral = read({{"model_type", "llava_next"}, {"text_config", {{"model_type", "mistral"}}}});
  ASSERT_TRUE(mistral.ok()) << mistral.error().message;
  EXPECT_EQ(std::get<AttentionSpec>(mistral->layers[0].mixer).kv_heads, 8);
  EXPECT_FALSE(read({{"model_type", "llama"}, {"rms_norm_eps", 1e-5}}).ok());
}

// Published configs of Qwen2-VL are flat, with a rope of a type that is plain for text.
TEST(ConfigMore, Qwen2Vl) {
  const Json rope = {{"type", "mrope"}, {"mrope_section", {4, 2, 2}}};
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"}) {
    const auto vl = read(base(type, {{"rope_scaling", rope}})), plain = read(base("qwen2"));
    ASSERT_TRUE(vl.ok()) << vl.error().message;
    EXPECT_EQ(describe(*vl), describe(*plain));
    const Json windows = {{"use_sliding_window", true}, {"sliding_window", 16}};
    EXPECT_EQ(describe(*read(base(type, windows))), describe(*plain)) << "layers from 80 on have one";
    expect_use(base(type, windows), {"max_window_layers", 3});
  }
  EXPECT_FALSE(read(base("qwen2", {{"rope_scaling", rope}})).ok());
}

}  // namespace
}  // namespace anabranch
