// Every field of the config classes of our families in Transformers 5.24, with a value that is not the usual
// one: it changes what is computed, it is refused, or it does not matter to what is computed.
#include "models/config_fields.h"

namespace anabranch {
namespace {

TEST(ConfigFields, Llama) {
  const Json config = base("llama");
  for (const Field& field : common("hidden_act") + kDense + kHeadDim +
                                Fields{{"attention_bias", true},
                                       {"mlp_bias", true},
                                       {"pretraining_tp", 2, Use::no_matter},
                                       {"partial_rotary_factor", 0.5, Use::refused},
                                       {"sliding_window", 16, Use::no_matter},
                                       {"layer_types", kinds("sliding_attention"), Use::refused}})
    expect_use(config, field);
}

TEST(ConfigFields, Mistral) {
  const Fields fields = common("hidden_act") + kDense + kHeadDim +
                        Fields{{"sliding_window", 16},
                               {"attention_bias", true, Use::no_matter},
                               {"mlp_bias", true, Use::no_matter}};
  const Json wide = {{"sliding_window", nullptr}};
  for (const Field& field : fields) {
    expect_use(base("mistral", wide), field);
    expect_use(base("ministral", wide), field);
    expect_use(base("ministral3", joined(wide, {{"rope_scaling", kYarn}, {"rope_theta", 5000.0}})),
               field.name == std::string("rope_parameters")
                   ? Field{field.name, joined(kYarn, {{"beta_fast", 8.0}})}
                   : field);
  }
  expect_use(base("ministral", {{"sliding_window", 16}}), {"layer_types", kinds("full_attention")});
  expect_use(base("mistral", {{"sliding_window", 16}}),
             {"layer_types", kinds("full_attention"), Use::refused});
  // What an absent key means.
  Json absent = base("mistral");
  EXPECT_EQ(std::get<AttentionSpec>(read(absent)->layers[0].mixer).window, 4096);
  absent.erase("num_key_value_heads");
  EXPECT_FALSE(read(absent).ok());  // 8, which 4 heads are no multiple of
  EXPECT_NE(read(base("ministral3")).error().message.find("rope_parameters"), std::string::npos);
}

TEST(ConfigFields, Mixtral) {
  Json config = base("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  for (const Field& field : common("hidden_act") + kDense + kHeadDim + kRouter +
                                Fields{{"num_local_experts", 8},
                                       {"sliding_window", 16},
                                       {"router_jitter_noise", 0.5, Use::no_matter}})
    expect_use(config, field);
  config.erase("rope_theta");
  EXPECT_FLOAT_EQ(read(config)->ropes[0].inv_freq[1], std::pow(1e6f, -2.0f / 16));
}

TEST(ConfigFields, Qwen) {
  const Fields windows = {{"use_sliding_window", true}, {"sliding_window", 16, Use::no_matter}};
  for (const char* type : {"qwen2", "qwen3"}) {
    const Json config = base(type, {{"max_window_layers", 3}, {"sliding_window", 32}});
    for (const Field& field :
         common("hidden_act") + kDense + kHeadDim + windows +
             Fields{{"max_window_layers", 4, Use::no_matter},
                    {"layer_types", kinds("sliding_attention"), Use::refused},
                    {"attention_bias", true, type[4] == '3' ? Use::read : Use::no_matter}})
      expect_use(config, field);
    const Json switched = joined(config, {{"use_sliding_window", true}});
    for (const Field& field : Fields{
             {"max_window_layers", 4}, {"sliding_window", 16}, {"layer_types", kinds("sliding_attention")}})
      expect_use(switched, field);
  }
  const Json mixture = base("qwen3_moe", joined(kMixture, {{"sliding_window", 32}}));
  for (const Field& field : common("hidden_act") + kHeadDim + kRouter + kNarrow + windows +
                                Fields{{"intermediate_size", 64, Use::no_matter},
                                       {"attention_bias", true},
                                       {"decoder_sparse_step", 2},
                                       {"norm_topk_prob", true},
                                       {"mlp_only_layers", {1}}})
    expect_use(mixture, field);
}

// Members of the Llama family without experts, and Qwen2-MoE.
std::vector<MemberFields> member_fields() {
  const Json still = {1, 0, 1, 0, 1, 1}, factors = std::vector<double>(8, 2.0);
  const Json longrope = {{"rope_type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}};
  const Fields layer_norm = {{"layer_norm_eps", 1e-3}}, windows = {{"sliding_window", 16}};
  return {
      {"seed_oss", {}, {{"attention_bias", false}, {"attention_out_bias", true}, {"mlp_bias", true}}},
      {"qwen2_moe", joined(kMixture, {{"shared_expert_intermediate_size", 24}, {"sliding_window", 32}}),
       kNarrow + Fields{{"qkv_bias", false},
                        {"shared_expert_intermediate_size", 48},
                        {"norm_topk_prob", true},
                        {"use_sliding_window", true},
                        {"sliding_window", 0, Use::no_matter},
                        {"max_window_layers", 2, Use::no_matter}}},
      {"smollm3",
       {{"sliding_window", 32}},
       {{"no_rope_layers", still},
        {"no_rope_layers", {1, 0}, Use::refused},
        {"no_rope_layer_interval", 3},
        {"use_sliding_window", true},
        {"layer_types", kinds("sliding_attention")},
        {"attention_bias", true},
        {"mlp_bias", true},
        {"partial_rotary_factor", 0.5, Use::refused}}},
      {"phi3",
       {},
       windows + Fields{{"partial_rotary_factor", 0.5},
                        {"rope_scaling", longrope},
                        {"rope_scaling", kYarn, Use::refused},
                        {"attention_bias", true, Use::no_matter}}},
      {"olmo2", {}, {{"attention_bias", true}, {"sliding_window", 16, Use::no_matter}}},
      {"olmo3",
       {},
       windows + Fields{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
                        {"rope_parameters", {{"sliding_attention", {{"rope_theta", 3000.0}}}}},
                        {"rope_parameters", {{"rope_theta", 3000.0}}, Use::refused},
                        {"layer_types", kinds("full_attention")}}},
      {"granite",
       {},
       {{"embedding_multiplier", 2.0},
        {"logits_scaling", 2.0},
        {"residual_multiplier", 2.0},
        {"attention_multiplier", 2.0},
        {"attention_multiplier", 0, Use::refused},
        {"mlp_bias", true}}},
      {"ernie4_5", {}, {{"use_bias", true}}},
      {"exaone4",
       {{"sliding_window", 32}},
       windows + Fields{{"sliding_window", nullptr},
                        {"sliding_window_pattern", 3},
                        {"sliding_window_pattern", "LLLG", Use::refused},
                        {"layer_types", kinds("full_attention")}}},
      {"hunyuan_v1_dense",
       {},
       {{"attention_bias", true},
        {"rope_scaling", {{"type", "dynamic"}, {"alpha", 50.0}, {"factor", 1.0}}},
        {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}},
        {"partial_rotary_factor", 0.5, Use::refused}}},
      {"cohere2",
       {},
       windows + layer_norm +
           Fields{{"logit_scale", 0.5},
                  {"sliding_window_pattern", 3},
                  {"attention_bias", true},
                  {"head_dim", 32, Use::refused},
                  {"layer_types", kinds("full_attention")}}},
      {"starcoder2",
       {{"hidden_act", "gelu_pytorch_tanh"}},
       windows + Fields{{"use_bias", false},
                        {"norm_epsilon", 1e-3},
                        {"hidden_act", "gelu"},
                        {"hidden_act", "silu", Use::refused}}},
      {"glm4", {}, {{"partial_rotary_factor", 0.25}, {"attention_bias", false}}},
      {"stablelm",
       {},
       layer_norm + Fields{{"partial_rotary_factor", 0.5},
                           {"use_qkv_bias", true},
                           {"use_parallel_residual", true},
                           {"qk_layernorm", true, Use::refused}}},
      {"gpt_oss",
       {{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"sliding_window", 128}},
       {{"swiglu_alpha", 1.5},
        {"swiglu_limit", 5.0},
        {"num_local_experts", 9},
        {"num_experts_per_tok", 3},
        {"num_experts_per_tok", 9, Use::refused},
        {"sliding_window", 64},
        {"attention_bias", false},
        {"layer_types", kinds("full_attention")},
        {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}}},
        {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
        {"router_aux_loss_coef", 0.5, Use::no_matter}}},
  };
}

TEST(ConfigFields, MembersOfTheLlamaFamily) {
  const Fields of_all = {{"vocab_size", 101},
                         {"hidden_size", 128},
                         {"num_attention_heads", 8},
                         {"num_key_value_heads", 4},
                         {"hidden_act", "relu", Use::refused},
                         {"tie_word_embeddings", false},
                         {"rope_theta", 3000.0},
                         {"head_dim", 1, Use::refused},
                         {"attention_dropout", 0.5, Use::no_matter}};
  for (const MemberFields& member : member_fields()) {
    Json config = base(member.type, member.more.is_null() ? Json::object() : member.more);
    for (const Field& field : member.fields) expect_use(config, field);
    if (config["model_type"] == "cohere2" || config["model_type"] == "stablelm") config.erase("head_dim");
    for (const Field& field : of_all) expect_use(config, field);
  }
}

// A config without a rope means the yarn of the published models, whose bounds are not whole numbers.
TEST(ConfigFields, TheRopeOfGptOssWhereConfigsStateNone) {
  const Json config = base("gpt_oss", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  Json yarn = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
               {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  const auto same = [&](const Json& rope) {
    return describe(*read(joined(config, {{"rope_scaling", rope}}))) == describe(*read(config));
  };
  EXPECT_TRUE(same(yarn));
  yarn["truncate"] = true;
  EXPECT_FALSE(same(yarn));
}

TEST(ConfigFields, BasesOfRopesWhereConfigsStateNone) {
  for (const auto& [type, theta] :
       {std::pair{"cohere", 5e5f}, {"helium", 1e5f}, {"cohere2", 1e4f}, {"lfm2", 1e6f}}) {
    Json config = base(type);
    config.erase("rope_theta");
    const auto spec = read(config);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_FLOAT_EQ(spec->ropes[0].inv_freq[1], std::pow(theta, -2.0f / 16)) << type;
  }
}

// The text models of Qwen3-VL are those of Qwen3, but positions in images have a row and a column.
TEST(ConfigFields, Qwen3Vl) {
  const Json rope = {{"rope_theta", 5000.0}, {"mrope_section", {4, 2, 2}}, {"mrope_interleaved", true}};
  for (const auto& [vl, text] : {std::pair{"qwen3_vl", "qwen3"}, {"qwen3_vl_moe", "qwen3_moe"}}) {
    Json config = base(text, joined(kMixture, {{"rope_parameters", rope}, {"norm_topk_prob", true}}));
    const auto plain = read(config);
    config["model_type"] = std::string(vl) + "_text";
    auto nested = read({{"model_type", vl}, {"text_config", config}, {"tie_word_embeddings", true}});
    ASSERT_TRUE(plain.ok() && nested.ok()) << nested.error().message;
    auto flat = read(config);
    for (ModelSpec* spec : {&*nested, &*flat}) {
      EXPECT_EQ(spec->ropes[0].axis, (std::vector<uint8_t>{0, 1, 2, 0, 1, 2, 0, 0})) << vl;
      spec->ropes[0].axis.clear();
      EXPECT_EQ(describe(*spec), describe(*plain)) << vl;
    }
  }
}

const Json kLinear = {{"linear_conv_kernel_dim", 4},
                      {"linear_key_head_dim", 16},
                      {"linear_value_head_dim", 16},
                      {"linear_num_key_heads", 2},
                      {"linear_num_value_heads", 4}};
const Fields kHybrid = {{"head_dim", 32},
                        {"linear_conv_kernel_dim", 3},
                        {"linear_key_head_dim", 32},
                        {"linear_value_head_dim", 32},
                        {"linear_num_key_heads", 4},
                        {"linear_num_value_heads", 8},
                        {"layer_types", kinds("linear_attention")},
                        {"full_attention_interval", 3},
                        {"attention_bias", true},
                        {"partial_rotary_factor", 0.5},
                        {"output_gate_type", "sigmoid"},
                        {"output_gate_type", "silu", Use::no_matter},
                        {"output_gate_type", "swish", Use::no_matter},
                        {"output_gate_type", nullptr, Use::no_matter},
                        {"output_gate_type", "tanh", Use::refused}};

TEST(ConfigFields, Hybrids) {
  const Json mixture = joined(joined(kLinear, kMixture), {{"shared_expert_intermediate_size", 24}});
  const Fields shared = kRouter + kNarrow + Fields{{"shared_expert_intermediate_size", 48}};
  const Fields of_all = common("hidden_act") + kHybrid;
  for (const Field& field : of_all + kDense) expect_use(base("qwen3_5_text", kLinear), field);
  for (const Field& field : of_all + shared +
                                Fields{{"decoder_sparse_step", 2, Use::no_matter},
                                       {"norm_topk_prob", false, Use::no_matter},
                                       {"mlp_only_layers", {1}, Use::no_matter},
                                       {"intermediate_size", 64, Use::no_matter}})
    expect_use(base("qwen3_5_moe_text", mixture), field);
  for (const Field& field :
       of_all + shared +
           Fields{{"decoder_sparse_step", 2}, {"norm_topk_prob", false}, {"mlp_only_layers", {1}}})
    expect_use(base("qwen3_next", mixture), field);
}

TEST(ConfigFields, Gemma) {
  const Json flat = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5000.0}};
  const Json by_kind = {{"full_attention", flat}, {"sliding_attention", {{"rope_theta", 3000.0}}}};
  const Fields of_all = kDense + kHeadDim +
                        Fields{{"attention_bias", true},
                               {"sliding_window", 16},
                               {"sliding_window", nullptr, Use::refused},
                               {"layer_types", kinds("full_attention")},
                               {"final_logit_softcapping", 20.0},
                               {"use_bidirectional_attention", true, Use::refused},
                               {"use_bidirectional_attention", "all", Use::refused}};
  for (const char* type : {"gemma2", "gemma3_text"}) {
    const bool second = type[5] == '2';
    for (const Field& field :
         common("hidden_activation", second ? flat : by_kind) + of_all +
             Fields{{"query_pre_attn_scalar", 64},
                    {"attn_logit_softcapping", 20.0, second ? Use::read : Use::no_matter},
                    {"partial_rotary_factor", 0.5, Use::refused}})
      expect_use(base(type, {{"query_pre_attn_scalar", 16}}), field);
  }
  expect_use(base("gemma3_text"), {"rope_parameters", flat, Use::refused});
  const Json fourth = {
      {"hidden_size_per_layer_input", 8}, {"vocab_size_per_layer_input", 200}, {"global_head_dim", 32}};
  for (const Field& field : common("hidden_activation", by_kind) + of_all +
                                Fields{{"vocab_size_per_layer_input", 300},
                                       {"hidden_size_per_layer_input", 16},
                                       {"attention_k_eq_v", true},
                                       {"num_kv_shared_layers", 1, Use::refused},
                                       {"use_double_wide_mlp", true, Use::no_matter},
                                       {"num_experts", 8, Use::no_matter},
                                       {"top_k_experts", 2, Use::no_matter},
                                       {"moe_intermediate_size", 8, Use::no_matter}})
    expect_use(base("gemma4_text", fourth), field);
  expect_use(base("gemma4_text",
                  joined(fourth, {{"num_experts", 8}, {"top_k_experts", 2}, {"moe_intermediate_size", 8}})),
             {"enable_moe_block", true});
  const Json mixture = joined(fourth, joined(kMixture, {{"enable_moe_block", true}, {"top_k_experts", 2}}));
  for (const Field& field : kNarrow + Fields{{"top_k_experts", 1}})
    expect_use(base("gemma4_text", mixture), field);
  const Json shared = joined(fourth, {{"layer_types",
                                       {"sliding_attention", "full_attention", "sliding_attention",
                                        "full_attention", "sliding_attention", "full_attention"}},
                                      {"num_kv_shared_layers", 2}});
  expect_use(base("gemma4_text", shared), {"num_kv_shared_layers", 1});
  expect_use(base("gemma4_text", shared), {"use_double_wide_mlp", true});
  expect_use(base("gemma4_text", fourth), {"rope_scaling", flat, Use::refused});
  const Json each = {{"head_dim", 64}, {"num_key_value_heads", 2}};
  expect_use(base("gemma4_text", fourth), {"per_layer_config", {{"5", each}}});
  // Full layers with the heads of the others, and those that differ in the number of keys only.
  Json alike = base("gemma4_text", joined(fourth, {{"per_layer_config", Json::object()}}));
  EXPECT_EQ(std::get<AttentionSpec>(read(alike)->layers[5].mixer).head_dim, 16);
  alike["per_layer_config"] = {{"5", {{"num_key_value_heads", 1}}}};
  EXPECT_EQ(std::get<AttentionSpec>(read(alike)->layers[5].mixer).head_dim, 16);
  EXPECT_EQ(std::get<AttentionSpec>(read(alike)->layers[5].mixer).kv_heads, 1);
  for (const Json& other : {Json{{"0", each}}, Json{{"5", joined(each, {{"sliding_window", 3}})}}})
    expect_use(base("gemma4_text", fourth), {"per_layer_config", other, Use::refused});
}

// ---------------------------------------------------------------- ropes by kind of layer

TEST(ConfigRopes, OneForEachKindOfLayer) {
  const Json by_kind = {{"full_attention", kYarn}, {"sliding_attention", {{"rope_theta", 3000.0}}}};
  Json config =
      base("qwen3", {{"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 3}});
  config["rope_parameters"] = by_kind;
  const auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_EQ(spec->ropes.size(), 2u);
  EXPECT_EQ(spec->layers[2].rope, 0);
  EXPECT_EQ(spec->layers[3].rope, 1);
  EXPECT_FLOAT_EQ(spec->ropes[1].inv_freq[1], std::pow(3000.0f, -2.0f / 16));
  config.erase("use_sliding_window");
  config["rope_parameters"] = kYarn;
  const auto one = read(config);
  EXPECT_EQ(one->ropes[0].inv_freq, spec->ropes[0].inv_freq);
  // A kind without an entry, an entry that is none, and keys beside the kinds.
  config["rope_parameters"] = {{"sliding_attention", kYarn}};
  EXPECT_NE(read(config).error().message.find("without an entry for full_attention"), std::string::npos);
  config["rope_parameters"] = joined(by_kind, {{"full_attention", nullptr}});
  EXPECT_FALSE(read(config).ok());
  config["rope_parameters"] = joined(by_kind, {{"rope_theta", 7000.0}});
  EXPECT_NE(read(config).error().message.find("\"rope_theta\" beside kinds"), std::string::npos);
}

// Transformers reads "truncate" beside the kinds only.
TEST(ConfigRopes, TruncationCountsInARopeOfAllLayers) {
  const Json sharp = joined(kYarn, {{"truncate", false}}), plain = {{"rope_theta", 3000.0}};
  for (const char* type : {"gemma3_text", "olmo3", "mellum"}) {
    Json config = base(type, {{"num_experts", 4}, {"moe_intermediate_size", 8}, {"num_experts_per_tok", 2}});
    config["rope_parameters"] = {{"full_attention", kYarn}, {"sliding_attention", plain}};
    expect_use(
        config,
        {"rope_parameters", {{"full_attention", sharp}, {"sliding_attention", plain}}, Use::no_matter});
  }
  expect_use(base("llama", {{"rope_parameters", kYarn}}), {"rope_parameters", sharp});
}

// Of 5 dimensions 6 turn, by the frequencies of 5, as in Transformers.
TEST(ConfigRopes, AnOddNumberOfDimensions) {
  const auto spec = read(base("glm4", {{"head_dim", 20}, {"partial_rotary_factor", 0.25}}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_EQ(spec->ropes[0].inv_freq.size(), 3u);
  EXPECT_FLOAT_EQ(spec->ropes[0].inv_freq[2], std::pow(10000.0f, -4.0f / 5));
}

TEST(ConfigRopes, OfLlamaAndOfHybrids) {
  Json config = base("llama");
  config["rope_parameters"] = {{"full_attention", {{"rope_theta", 500000.0}}}};
  EXPECT_FLOAT_EQ(read(config)->ropes[0].inv_freq[1], std::pow(500000.0f, -2.0f / 16));
  Json hybrid = base("qwen3_5_text", kLinear);
  hybrid["rope_parameters"] = {
      {"full_attention", {{"rope_theta", 500000.0}, {"partial_rotary_factor", 1.0}}}};
  EXPECT_FLOAT_EQ(read(hybrid)->ropes[0].inv_freq[1], std::pow(500000.0f, -2.0f / 16));
}

// Older configs have rope_scaling, newer ones rope_parameters, and some both.
TEST(ConfigRopes, TwoThatDifferAreRefused) {
  Json config = base("llama");
  config["rope_scaling"] = kYarn;
  const auto older = read(config);
  config["rope_parameters"] = kYarn;
  EXPECT_EQ(describe(*read(config)), describe(*older));
  config["rope_parameters"] = {{"rope_theta", 5000.0}};
  EXPECT_EQ(describe(*read(config)), describe(*older));
  config["rope_parameters"] = joined(kYarn, {{"factor", 4.0}});
  EXPECT_NE(read(config).error().message.find("rope_scaling"), std::string::npos);
  config = base("llama");
  config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  EXPECT_NE(read(config).error().message.find("partial_rotary_factor"), std::string::npos);
}

}  // namespace
}  // namespace anabranch
