// Every field of the config classes of our families in Transformers 5.24, with a value that is not the usual
// one: it changes what is computed, it is refused, or it does not matter to what is computed.
#include <gtest/gtest.h>

#include <sstream>

#include "models/family.h"

namespace anabranch {
namespace {

enum class Use { read, refused, no_matter };

struct Field {
  const char* name;
  Json other;
  Use use = Use::read;
};
using Fields = std::vector<Field>;

// What a model with this description computes.
struct Description {
  std::ostringstream out;

  template <class... Values>
  void add(const Values&... values) {
    ((out << values << ' '), ...);
  }
  void mixer(const AttentionSpec& a) {
    add("attention", a.heads, a.kv_heads, a.head_dim, a.window, a.qkv_bias, a.out_bias, a.qk_norm,
        a.norms_all_heads, a.norms_after_rope, a.neighbours_turn, a.output_gate, a.scale, a.soft_cap,
        a.v_norm, a.keys_are_values, a.kv_layer, a.sinks);
  }
  void mixer(const ops::RecurrenceShape& d) {
    const ops::RecurrenceRule& r = d.rule;
    add("recurrence", d.key_heads, d.value_heads, d.key_dim, d.value_dim, d.conv_kernel, d.sigmoid_gate,
        d.channels, r.delta, static_cast<int>(r.beta), static_cast<int>(r.decay), static_cast<int>(r.norm),
        r.norm_group, r.step_min, r.step_max, r.conv_bias, r.skip);
  }
  void mixer(std::monostate) { add("none"); }
  void mlp(std::monostate) { add("none"); }
  void mlp(const MlpSpec& m) {
    add("mlp", m.intermediate, static_cast<int>(m.activation), m.bias, m.gated, static_cast<int>(m.gelu),
        m.relu2);
  }
  void mlp(const MoeSpec& m) {
    add("moe", m.experts, m.intermediate, m.shared_intermediate, m.routing.top_k, m.routing.normalise,
        static_cast<int>(m.activation), m.bias);
    if (m.clamped) add(m.clamped->alpha, m.clamped->limit);
  }
  void mlp(const MlpAndMoeSpec& both) { mlp(both.mlp), mlp(both.moe); }
  void rope(const ops::Rope& r) {
    add("rope", r.attention_factor, r.far_from, r.far_theta, r.far_factor, r.query_beta, r.query_period);
    for (const auto* list : {&r.inv_freq, &r.far_inv_freq})
      for (const float v : *list) add(v);
    for (const auto axis : r.axis) add(static_cast<int>(axis));
  }
};

std::string describe(const ModelSpec& spec) {
  Description d;
  d.add(spec.hidden, spec.vocab, spec.context_length, spec.norms.eps, spec.norms.offset, spec.tied_embeddings,
        spec.embedding_scale, spec.logits_scale, spec.logits_soft_cap, spec.per_layer_width,
        spec.per_layer_vocab);
  for (const LayerSpec& layer : spec.layers) {
    std::visit([&](const auto& mixer) { d.mixer(mixer); }, layer.mixer);
    std::visit([&](const auto& mlp) { d.mlp(mlp); }, layer.mlp);
    d.add(layer.norms.eps, layer.norms.offset, layer.norms.layer_norm, layer.rope, layer.residual_scale,
          layer.form.parallel);
  }
  for (const auto& rope : spec.ropes) d.rope(rope);
  return d.out.str();
}

Result<ModelSpec> read(const Json& config) {
  const std::string type = config["model_type"];
  if (type.starts_with("gemma")) return read_gemma_config(config, "config.json");
  if (is_hybrid_member(type)) return read_hybrid_config(config, "config.json");
  if (is_llama_member(type)) return read_llama_config(config, "config.json");
  return read_qwen3_5_config(config, "config.json");
}

void expect_use(const Json& config, const Field& field) {
  const std::string what = config["model_type"].get<std::string>() + ": " + field.name;
  const auto usual = read(config);
  ASSERT_TRUE(usual.ok()) << what << ": " << usual.error().message;
  Json other = config;
  other[field.name] = field.other;
  const auto spec = read(other);
  if (field.use == Use::refused) {
    ASSERT_FALSE(spec.ok()) << what;
    EXPECT_NE(spec.error().message.find(field.name), std::string::npos) << spec.error().message;
    return;
  }
  ASSERT_TRUE(spec.ok()) << what << ": " << spec.error().message;
  EXPECT_EQ(describe(*spec) == describe(*usual), field.use == Use::no_matter) << what;
}

Json joined(Json a, const Json& b) {
  a.update(b);
  return a;
}
Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Json base(const char* type, const Json& more = Json::object()) {
  return joined({{"model_type", type},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 6},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"max_position_embeddings", 512},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", true},
                 {"rope_theta", 10000.0}},
                more);
}

const Json kYarn = {{"rope_type", "yarn"},
                    {"factor", 2.0},
                    {"rope_theta", 5000.0},
                    {"original_max_position_embeddings", 256}};

Fields common(const char* activation, const Json& rope = kYarn) {
  return {{"vocab_size", 101},
          {"hidden_size", 80},
          {"num_hidden_layers", 5},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {activation, "relu", Use::refused},
          {"max_position_embeddings", 600},
          {"initializer_range", 0.5, Use::no_matter},
          {"rms_norm_eps", 1e-3},
          {"use_cache", false, Use::no_matter},
          {"tie_word_embeddings", false},
          {"rope_parameters", rope},
          {"attention_dropout", 0.5, Use::no_matter},
          {"pad_token_id", 3, Use::no_matter},
          {"bos_token_id", 3, Use::no_matter},
          {"eos_token_id", 3, Use::no_matter}};
}
const Fields kDense = {{"intermediate_size", 64}}, kHeadDim = {{"head_dim", 32}};
const Fields kRouter = {{"num_experts_per_tok", 1},
                        {"output_router_logits", true, Use::no_matter},
                        {"router_aux_loss_coef", 0.5, Use::no_matter}};
const Json kMixture = {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
const Fields kNarrow = {{"num_experts", 8}, {"moe_intermediate_size", 48}};

std::vector<std::string> kinds(const char* kind) {
  return std::vector<std::string>(6, kind);
}

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

// Members of the Llama family: the fields that the others do not have, or have with another meaning.
struct MemberFields {
  const char* type;
  Json more;
  Fields fields;
};

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
        {"layer_types", kinds("sliding_attention"), Use::refused},
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

// Hybrids with Mamba2, short convolutions, or OLMo's Gated DeltaNet.
std::vector<MemberFields> hybrid_fields() {
  const Fields mamba = {{"mamba_n_heads", 8},
                        {"mamba_d_head", 64},
                        {"mamba_n_groups", 2},
                        {"mamba_d_state", 32},
                        {"mamba_d_conv", 3},
                        {"mamba_conv_bias", false},
                        {"time_step_limit", {0.1, 1.5}},
                        {"time_step_limit", {2.0, 1.5}, Use::refused},
                        {"time_step_min", 0.5, Use::no_matter},
                        {"hidden_act", "relu", Use::refused},
                        {"rms_norm_eps", 1e-3}};
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
      {"nemotron_h",
       {{"hybrid_override_pattern", "M-*M-*"},
        {"n_groups", 8},
        {"conv_kernel", 4},
        {"use_conv_bias", true},
        {"time_step_min", 0.001}},
       kDense + Fields{{"layer_norm_epsilon", 1e-3},
                       {"rms_norm_eps", 1e-3, Use::no_matter},
                       {"hybrid_override_pattern", "M-*M"},
                       {"hybrid_override_pattern", "ME*", Use::refused},
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
       joined(sizes,
              {{"num_local_experts", 0}, {"shared_intermediate_size", 96}, {"layer_types", types("mamba")}}),
       mamba + Fields{{"shared_intermediate_size", 64},
                      {"intermediate_size", 64, Use::no_matter},
                      {"num_local_experts", 8, Use::refused},
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

// The text models of Qwen3-VL are those of Qwen3.
TEST(ConfigFields, Qwen3Vl) {
  const Json rope = {{"rope_theta", 5000.0}, {"mrope_section", {4, 2, 2}}, {"mrope_interleaved", true}};
  for (const auto& [vl, text] : {std::pair{"qwen3_vl", "qwen3"}, {"qwen3_vl_moe", "qwen3_moe"}}) {
    Json config = base(text, joined(kMixture, {{"rope_parameters", rope}, {"norm_topk_prob", true}}));
    const auto plain = read(config);
    config["model_type"] = std::string(vl) + "_text";
    const auto nested = read({{"model_type", vl}, {"text_config", config}, {"tie_word_embeddings", true}});
    ASSERT_TRUE(plain.ok() && nested.ok()) << nested.error().message;
    EXPECT_EQ(describe(*nested), describe(*plain)) << vl;
    EXPECT_EQ(describe(*read(config)), describe(*plain)) << vl;
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
                        {"attention_bias", true, Use::refused},
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
    for (const Field& field : common("hidden_activation", second ? flat : by_kind) + of_all +
                                  Fields{{"query_pre_attn_scalar", 64},
                                         {"attn_logit_softcapping", 20.0, second ? Use::read : Use::refused},
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
