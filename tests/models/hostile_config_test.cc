// config.json with values that nobody checked: loading ends with an error that says what is wrong, or the
// model runs and its logits are numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "models/any_weights.h"
#include "models/model.h"
#include "ops/testing.h"
#include "slow.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using ops::to_vector;

// One model of every kind of config.
constexpr const char* kModels[] = {
    "llama3_rope_untied",
    "ministral_windows",
    "ministral3",
    "llama_longrope",
    "qwen2_dynamic",
    "qwen3_moe",
    "mixtral",
    "qwen3_next",
    "qwen35_moe_nested_mtp",
    "gemma2",
    "gemma3",
    "gemma4_shared_kv",
    "gemma4_moe",
    "qwen3_yarn",
    "smollm3",
    "phi3_longrope",
    "olmo3",
    "granite",
    "exaone4",
    "cohere2",
    "starcoder2",
    "stablelm_parallel",
    "lfm2",
    "lfm3",
    "mimo_v2_flash",
    "step3p7",
    "laguna",
    "muse_glimmer_nested",
    "granite_swa",
    "nemotron_h",
    "granite_h_rope",
    "bamba",
    "olmo_hybrid_rope",
    "falcon_h1_norm_after",
    "minimax",
    "kimi_linear",
    "bailing_hybrid",
    "qwen4_exp",
    "lara_mini_biases",
    "glm4",
    "qwen2_moe",
    "hunyuan_v1_dense",
    "deepseek_v3",
    "minicpm3",
    "glm4_moe",
    "ernie4_5_moe",
    "nemotron_h_moe",
    "gpt_oss",
    "apertus",
    "afmoe",
    "flint",
    "mamba2",
    "nanochat",
    "hyperclovax",
    "cohere2_moe",
    "gpt_neox",
};

constexpr int kEvery = kSlowdown > 1 ? 7 : 1;  // with sanitizers, every seventh case

constexpr const char* kNotNumbers = "the logits are not numbers";

// The files of a model under another config.json.
class Variant {
 public:
  explicit Variant(const std::string& name)
      : from_(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model") {
    for (const auto& file : fs::directory_iterator(from_))
      if (file.path().filename() != "config.json")
        fs::create_symlink(file.path(), fs::path(dir_.path()) / file.path().filename());
  }
  Json config() const {
    return parse_json(read_file((from_ / "config.json").string(), 1 << 20).value()).value();
  }
  // What went wrong; empty: the model loads, and its logits are numbers.
  std::string outcome_of(const Json& config) const {
    dir_.write("config.json", config.dump());
    const auto checkpoint = Checkpoint::open(dir_.path());
    if (!checkpoint) return checkpoint.error().message;
    const auto model = Model::load(**checkpoint, ops::cpu_device());
    if (!model) return model.error().message;
    auto state = (*model)->make_state();
    for (const std::vector<int>& ids : {std::vector<int>{1, 7, 3, 200, 5}, {6}}) {
      Batch batch;
      batch.add(state, ids, Batch::Logits::all);
      for (const float x : to_vector((*model)->forward(batch).logits))
        if (!std::isfinite(x)) return kNotNumbers;
    }
    return {};
  }

 private:
  testing::TempDir dir_;
  fs::path from_;
};

// Calls visit(pointer) for every value within `json`.
template <class Visit>
void visit_values(const Json& json, const Json::json_pointer& at, const Visit& visit) {
  if (!at.empty()) visit(at);
  if (json.is_object())
    for (const auto& [key, value] : json.items()) visit_values(value, at / key, visit);
}

TEST(HostileConfig, AnyValueAnywhereIsAnErrorOrRuns) {
  // Where the first four change nothing, nobody reads the value: what is read is of one type.
  constexpr int kTypes = 4;
  const Json values = {"x", nullptr, Json::array(),          -1,        0, 1, 2, 3,
                       0.5, 1e300,   (int64_t{1} << 31) - 1, UINT64_MAX};
  for (const char* name : kModels) {
    const Variant model(name);
    const Json good = model.config();
    ASSERT_EQ(model.outcome_of(good), "") << name;
    int errors = 0, number = 0;
    visit_values(good, Json::json_pointer(), [&](const Json::json_pointer& at) {
      int tried = 0, ran = 0;
      for (const Json& value : values) {
        if (tried++ == kTypes && ran == kTypes) break;
        if (number++ % kEvery != 0) continue;
        Json bad = good;
        bad[at] = value;
        std::string outcome;
        ASSERT_NO_THROW(outcome = model.outcome_of(bad)) << name << ": " << at << " = " << value;
        EXPECT_NE(outcome, kNotNumbers) << name << ": " << at << " = " << value;
        errors += !outcome.empty();
        ran += outcome.empty();
      }
    });
    EXPECT_GT(errors, 50 / kEvery) << name;
  }
}

// A text_config that does not fit, in a config of any family.
TEST(HostileConfig, AnyTextConfigIsAnErrorOrRuns) {
  const Json types = {nullptr, 3, "", "llama", "gemma3_text", "qwen3_5_text", "deepseek_v3", "nemotron_h"};
  for (const char* name : kModels) {
    const Variant model(name);
    for (const Json& type : types) {
      Json bad = model.config();
      bad["text_config"] = type.is_null() ? Json::object() : Json{{"model_type", type}};
      ASSERT_NO_THROW(model.outcome_of(bad)) << name << ": " << type;
    }
  }
}

// Values whose combination matters, and what the error must say; "": the model runs.
TEST(HostileConfig, ErrorsSayWhatIsWrong) {
  const Json long_factors(Json::array_t(8, 2.0));
  const Json longrope = {
      {"rope_type", "longrope"}, {"short_factor", long_factors}, {"long_factor", long_factors}};
  const auto with = [](Json json, const Json& more) {
    json.update(more);
    return json;
  };
  const struct {
    const char *model, *key;
    Json value;
    const char* expected;
  } cases[] = {
      {"llama_yarn", "rope_theta", 1, "a yarn rope needs a rope_theta above 1"},
      {"llama_tied", "rope_theta", 1, ""},
      {"llama_tied", "rope_theta", 0, "\"rope_theta\" is 0, but a number from 1"},
      {"llama3_rope_untied", "rope_scaling", with(longrope, {{"original_max_position_embeddings", 1}}),
       "original_max_position_embeddings above 1"},
      {"llama3_rope_untied", "rope_scaling", with(longrope, {{"original_max_position_embeddings", 0}}),
       "\"original_max_position_embeddings\" is 0"},
      {"llama3_rope_untied", "rope_scaling", with(longrope, {{"original_max_position_embeddings", 2}}), ""},
      {"llama3_rope_untied", "rope_scaling", with(longrope, {{"short_factor", {1.0}}}),
       "short_factor has 1 entries"},
      {"llama3_rope_untied", "rope_scaling", with(longrope, {{"long_factor", Json::array({0.0})}}),
       "\"long_factor\" must be a list of numbers"},
      {"llama3_rope_untied", "rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}, "\"factor\" is 0"},
      {"llama3_rope_untied",
       "rope_scaling",
       {{"rope_type", "linear"}, {"factor", nullptr}},
       "\"factor\" is missing"},
      {"llama3_rope_untied", "rope_scaling", {{"rope_type", "linear"}}, "\"factor\" is missing"},
      {"llama3_rope_untied", "rope_scaling", {{"rope_type", "dynamic"}, {"factor", 1e7}}, "\"factor\" is"},
      {"llama3_rope_untied", "rope_scaling", {{"rope_type", "dynamic"}, {"factor", 1e6}}, ""},
      {"llama3_rope_untied",
       "rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}},
       "high_freq_factor must be above low_freq_factor"},
      {"llama3_rope_untied",
       "rope_scaling",
       {{"rope_type", "default"}, {"llama_4_scaling_beta", "x"}},
       "\"llama_4_scaling_beta\" is \"x\""},
      {"llama_tied", "head_dim", 1, "\"head_dim\" is 1, but a whole number from 2"},
      {"llama_tied", "head_dim", 17, "9 pairs cannot turn in heads of 17 dimensions"},
      {"llama_yarn", "head_dim", 17, "17 dimensions of each head turn, but an even number"},
      {"gemma3", "head_dim", 33, "17 pairs cannot turn in heads of 33 dimensions"},
      {"gemma4_moe", "global_head_dim", 33, "heads of 33 dimensions cannot turn in pairs"},
      {"qwen35_flat_tied",
       "rope_parameters",
       {{"rope_type", "dynamic"}, {"factor", 2}, {"partial_rotary_factor", 0.27}},
       "17 dimensions of each head turn, but an even number"},
      {"qwen35_flat_tied",
       "rope_parameters",
       {{"partial_rotary_factor", 0.01}},
       "0 dimensions of each head turn"},
      {"qwen35_flat_tied",
       "rope_parameters",
       {{"partial_rotary_factor", 0.25}, {"llama_4_scaling_beta", 0.1}},
       "only a part of each head turns"},
      {"ministral_windows", "sliding_window", 0, "\"sliding_window\" is missing or 0"},
      {"ministral_windows", "sliding_window", nullptr, "\"sliding_window\" is missing"},
      {"ministral_windows", "sliding_window", 1, ""},
      {"ministral_windows", "sliding_window", 1 << 27, ""},
      {"ministral_windows",
       "layer_types",
       {"full_attention"},
       "layer_types does not have num_hidden_layers entries"},
      {"gemma3", "layer_types", Json(Json::array_t(4, "chunked_attention")), "chunked_attention"},
      {"qwen3_next", "layer_types", Json(Json::array_t(4, "sliding_attention")), "sliding_attention"},
      {"mixtral", "num_local_experts", 0, "\"num_local_experts\" is 0"},
      {"mixtral", "num_experts_per_tok", 5, "num_experts_per_tok is above num_local_experts"},
      {"qwen3_next", "intermediate_size", nullptr, "and some layers are not mixtures"},
      {"qwen3_moe", "num_experts_per_tok", 0, "\"num_experts_per_tok\" is 0"},
      {"qwen3_moe", "decoder_sparse_step", 0, "\"decoder_sparse_step\" is 0"},
      {"qwen3_moe", "mlp_only_layers", {1e10}, "\"mlp_only_layers\" must be a list of integers"},
      {"gemma4_moe", "top_k_experts", 7, "top_k_experts is above num_experts"},
      {"gemma4_shared_kv", "num_kv_shared_layers", 6, "leaves no layer of each kind"},
      {"gemma4_shared_kv", "num_kv_shared_layers", 7, "\"num_kv_shared_layers\" is 7"},
      {"gemma4_shared_kv", "num_kv_shared_layers", 5, "leaves no layer of each kind"},
      {"gemma4_shared_kv", "vocab_size_per_layer_input", 100,
       "vocab_size_per_layer_input is below vocab_size"},
      {"gemma4_shared_kv", "hidden_size_per_layer_input", 17, "has shape"},
      {"gemma4_shared_kv", "hidden_size_per_layer_input", -1, "\"hidden_size_per_layer_input\" is -1"},
      {"gemma4_shared_kv", "rope_parameters", 3, "\"rope_parameters\" is not an object"},
      {"smollm3", "no_rope_layers", {1, 0}, "no_rope_layers does not have num_hidden_layers entries"},
      {"smollm3", "no_rope_layers", {0, 0, 0, 0}, ""},
      {"phi3_window", "partial_rotary_factor", 0.6, ""},
      {"exaone4", "sliding_window_pattern", "LLG", "\"sliding_window_pattern\" is \"LLG\""},
      {"cohere2", "logit_scale", 0, "\"logit_scale\" is 0"},
      {"stablelm", "qk_layernorm", true, "\"qk_layernorm\" is not false"},
      {"qwen2_moe", "sliding_window", 0, ""},
      {"nemotron_h", "head_dim", 1, "\"head_dim\" is 1, but a whole number from 2"},
      {"granite_h", "num_attention_heads", 48,
       "head_dim, hidden_size / num_attention_heads, must be at least 2"},
      {"nemotron_h", "mamba_dt_min", 1e7, "\"mamba_dt_min\" is"},
      {"granite_h_rope", "time_step_limit", {1e7, 1e8}, "time_step_limit must be two numbers"},
      {"granite_h_rope", "time_step_limit", {0.4, 0.2}, "time_step_limit must be two numbers"},
      {"granite_h_rope", "time_step_limit", {0.4, 0.4}, ""},
      {"granite_h_rope", "time_step_limit", {0.4, 1e300}, ""},
      {"lfm2", "partial_rotary_factor", 0.5, "\"partial_rotary_factor\" is 0.5"},
      {"granite_h_rope", "partial_rotary_factor", 0.5, "\"partial_rotary_factor\" is 0.5"},
      {"olmo_hybrid_rope", "partial_rotary_factor", 0.5, "\"partial_rotary_factor\" is 0.5"},
      {"bamba", "rope_parameters", {{"partial_rotary_factor", 0.25}}, ""},
      {"olmo_hybrid", "layer_types", Json(Json::array_t(4, "linear_attention")), "each at least once"},
      {"olmo_hybrid", "layer_types", Json(Json::array_t(4, "full_attention")), "each at least once"},
      {"deepseek_v3", "text_config", Json::object(), "model_type \"\" is not supported in text_config"},
      {"deepseek_v3",
       "text_config",
       {{"model_type", "llama"}},
       "model_type \"llama\" is not supported in text_config"},
      {"glm4_moe", "n_shared_experts", 1024, "has shape"},
      {"llama_tied", "max_position_embeddings", 1, ""},
      {"llama_tied", "num_hidden_layers", 1025, "\"num_hidden_layers\" is 1025"},
      {"llama_tied", "num_hidden_layers", 5, "model.layers.4.self_attn.q_proj.weight\" is missing"},
      {"llama_tied", "model_type", 3, "config.json has no \"model_type\""},
  };
  for (const auto& c : cases) {
    const Variant model(c.model);
    Json config = model.config();
    config[c.key] = c.value;
    const std::string outcome = model.outcome_of(config);
    const auto what = fmt::format("{}: {} = {}: {}", c.model, c.key, c.value.dump(), outcome);
    if (*c.expected)
      EXPECT_NE(outcome.find(c.expected), std::string::npos) << what;
    else
      EXPECT_EQ(outcome, "") << what;
  }
}

// Logits of all rows, so many tokens at a time.
std::vector<float> logits_of(const Model& model, std::span<const int> ids, size_t chunk) {
  auto state = model.make_state();
  std::vector<float> out;
  for (; !ids.empty(); ids = ids.subspan(std::min(chunk, ids.size()))) {
    Batch batch;
    batch.add(state, ids.first(std::min(chunk, ids.size())), Batch::Logits::all);
    const auto logits = to_vector(model.forward(batch).logits);
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

// Sizes at random, many of them at their limits, that the weights fit.
TEST(HostileConfig, AnySizesAreAnErrorOrRunExactly) {
  int ran = 0;
  for (int round = 0; round < 200 / kEvery; round++) {
    ops::Random random(static_cast<uint64_t>(round) + 1);
    const char* name = kModels[static_cast<size_t>(round) % std::size(kModels)];
    Json config = Variant(name).config();
    Json& text = config.contains("text_config") ? config["text_config"] : config;
    for (const char* key : {"hidden_size",
                            "intermediate_size",
                            "vocab_size",
                            "num_hidden_layers",
                            "num_attention_heads",
                            "num_key_value_heads",
                            "head_dim",
                            "global_head_dim",
                            "num_global_key_value_heads",
                            "sliding_window",
                            "sliding_window_pattern",
                            "num_kv_shared_layers",
                            "hidden_size_per_layer_input",
                            "num_experts",
                            "num_local_experts",
                            "num_experts_per_tok",
                            "top_k_experts",
                            "moe_intermediate_size",
                            "n_routed_experts",
                            "n_shared_experts",
                            "n_group",
                            "topk_group",
                            "first_k_dense_replace",
                            "moe_latent_size",
                            "moe_num_experts",
                            "moe_k",
                            "shared_expert_intermediate_size",
                            "decoder_sparse_step",
                            "full_attention_interval",
                            "linear_conv_kernel_dim",
                            "linear_key_head_dim",
                            "linear_value_head_dim",
                            "linear_num_key_heads",
                            "linear_num_value_heads",
                            "linear_num_heads",
                            "linear_head_dim",
                            "kv_lora_rank",
                            "qk_nope_head_dim",
                            "v_head_dim",
                            "mamba_d_ssm",
                            "mamba_num_heads",
                            "mamba_head_dim",
                            "mamba_n_heads",
                            "mamba_d_head",
                            "mamba_n_groups",
                            "mamba_d_state",
                            "n_groups",
                            "ssm_state_size",
                            "conv_kernel",
                            "shared_intermediate_size",
                            "block_multiple_of",
                            "max_position_embeddings",
                            "mtp_num_hidden_layers"})
      if (text.contains(key) && random.below(3) == 0)
        text[key] = random.below(4) == 0 ? 1 << random.below(9) : 1 + random.below(9);
    if (text.contains("vocab_size_per_layer_input")) text["vocab_size_per_layer_input"] = text["vocab_size"];
    if (random.below(3) > 0) text.erase("layer_types"), text.erase("mlp_only_layers");
    const std::string what = fmt::format("{}, round {}: {}", name, round, config.dump());
    AnyWeights weights(config, static_cast<uint64_t>(round));
    std::unique_ptr<Model> model;
    ASSERT_NO_THROW({
      auto loaded = Model::load(weights, ops::cpu_device());
      if (!loaded) {
        EXPECT_FALSE(loaded.error().message.empty()) << what;
      } else {
        model = std::move(*loaded);
      }
    }) << what;
    if (!model) continue;
    ran++;
    std::vector<int> ids;
    for (int i = 0; i < 300; i++) ids.push_back(random.below(model->spec().vocab));
    std::vector<float> whole, pieces;
    ASSERT_NO_THROW(whole = logits_of(*model, ids, ids.size())) << what;
    ASSERT_NO_THROW(pieces = logits_of(*model, ids, 1 + static_cast<size_t>(random.below(40)))) << what;
    for (const float x : whole) ASSERT_TRUE(std::isfinite(x)) << what;
    ASSERT_TRUE(ops::bits_agree(pieces, whole)) << what;
  }
  EXPECT_GT(ran, 60 / kEvery);
}

}  // namespace
}  // namespace anabranch
