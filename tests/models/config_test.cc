#include <gtest/gtest.h>

#include "models/any_weights.h"
#include "models/config.h"
#include "models/family.h"
#include "models/no_memory.h"

namespace anabranch {
namespace {

Json llama() {
  return {{"model_type", "llama"},       {"hidden_size", 64},
          {"intermediate_size", 128},    {"vocab_size", 100},
          {"num_attention_heads", 4},    {"num_key_value_heads", 2},
          {"num_hidden_layers", 3},      {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true}, {"max_position_embeddings", 512}};
}

Json qwen3_5() {
  return {{"model_type", "qwen3_5_text"},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"vocab_size", 100},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"num_hidden_layers", 8},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 4},
          {"linear_key_head_dim", 16},
          {"linear_value_head_dim", 16},
          {"full_attention_interval", 4}};
}

std::string error_of(const Family& family, Json config, const char* key, Json value) {
  if (value.is_discarded())
    config.erase(key);
  else
    config[key] = std::move(value);
  const auto spec = family.read_config(config, "config.json");
  return spec ? "" : spec.error().message;
}

TEST(Config, LlamaDefaults) {
  const auto spec = find_llama_family("llama")->read_config(llama(), "config.json");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->layers.size(), 3u);
  const auto& a = std::get<AttentionSpec>(spec->layers[0].mixer);
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_FALSE(a.qkv_bias || a.qk_norm || a.output_gate);
  EXPECT_EQ(spec->ropes[0].inv_freq.size(), 8u);
  EXPECT_FLOAT_EQ(spec->ropes[0].inv_freq[0], 1.0f);
}

TEST(Config, Qwen2HasBiasesWithoutSayingSo) {
  auto config = llama();
  config["model_type"] = "qwen2";
  const auto spec = find_llama_family("llama")->read_config(config, "config.json");
  ASSERT_TRUE(spec.ok());
  const auto& a = std::get<AttentionSpec>(spec->layers[0].mixer);
  EXPECT_TRUE(a.qkv_bias);
  EXPECT_FALSE(a.out_bias);
}

const AttentionSpec& attention_of(const ModelSpec& spec) {
  return std::get<AttentionSpec>(spec.layers[0].mixer);
}

// Only some of Transformers' classes read attention_bias; GGUF files say it of q, k, v and of o.
TEST(Config, BiasesOfEachMember) {
  struct Row {
    const char* type;
    bool qkv, out, qkv_if_asked, out_if_asked;
  };
  for (const Row& row :
       {Row{"llama", false, false, true, true}, Row{"qwen3", false, false, true, true},
        Row{"qwen2", true, false, true, false}, Row{"mistral", false, false, false, false}}) {
    auto config = llama();
    config["model_type"] = row.type;
    const auto read = [&] { return attention_of(*find_llama_family(row.type)->read_config(config, "c")); };
    EXPECT_EQ(read().qkv_bias, row.qkv) << row.type;
    EXPECT_EQ(read().out_bias, row.out) << row.type;
    config["attention_bias"] = true;
    EXPECT_EQ(read().qkv_bias, row.qkv_if_asked) << row.type;
    EXPECT_EQ(read().out_bias, row.out_if_asked) << row.type;
    for (const bool qkv : {false, true})
      for (const bool out : {false, true}) {
        config["attention_qkv_bias"] = qkv, config["attention_out_bias"] = out;
        EXPECT_EQ(read().qkv_bias, qkv) << row.type;
        EXPECT_EQ(read().out_bias, out) << row.type;
      }
  }
}

TEST(Config, HybridLayersByIntervalAndByList) {
  auto config = qwen3_5();
  auto spec = qwen3_5_family().read_config(config, "config.json");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (int i = 0; i < 8; i++)
    EXPECT_EQ(std::holds_alternative<AttentionSpec>(spec->layers[i].mixer), (i + 1) % 4 == 0) << i;
  EXPECT_EQ(spec->ropes[0].inv_freq.size(), 4u);  // a quarter of 32 dims, in pairs
  config["num_hidden_layers"] = 2;
  config["layer_types"] = {"full_attention", "linear_attention"};
  spec = qwen3_5_family().read_config(config, "config.json");
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(std::holds_alternative<AttentionSpec>(spec->layers[0].mixer));
}

TEST(Config, ErrorsNameFileKeyAndRemedy) {
  const Json absent(Json::value_t::discarded);
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(error_of(*find_llama_family("llama"), llama(), "hidden_size", absent),
                  "config.json: \"hidden_size\" is missing"));
  EXPECT_TRUE(has(error_of(*find_llama_family("llama"), llama(), "hidden_size", "many"), "whole number"));
  EXPECT_TRUE(
      has(error_of(*find_llama_family("llama"), llama(), "hidden_size", -1), "\"hidden_size\" is -1"));
  EXPECT_TRUE(
      has(error_of(*find_llama_family("llama"), llama(), "hidden_act", "gelu"), "not supported; silu is"));
  EXPECT_TRUE(has(error_of(*find_llama_family("llama"), llama(), "num_key_value_heads", 3), "multiple"));
  EXPECT_TRUE(has(error_of(*find_llama_family("llama"), llama(), "rope_scaling",
                           {{"rope_type", "spiral"}, {"factor", 2.0}}),
                  "spiral"));
  EXPECT_TRUE(has(error_of(qwen3_5_family(), qwen3_5(), "num_experts", 8), "num_experts_per_tok"));
  EXPECT_TRUE(has(error_of(qwen3_5_family(), qwen3_5(), "layer_types", {"full_attention"}), "layer_types"));
}

TEST(Config, ShapesThatTheDeviceCannotRunAreToldWithoutAndByLoading) {
  auto checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/llama3_rope_untied/model");
  ASSERT_TRUE(checkpoint.ok());
  testing::NoMemory device;
  const auto spec = read_model_spec(**checkpoint, device);
  ASSERT_FALSE(spec.ok());
  const auto model = Model::load(**checkpoint, device);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(spec.error().message, model.error().message);
  EXPECT_EQ(model.error().kind, ErrorKind::unsupported);
  for (const char* part :
       {"llama3_rope_untied", "layer 0: ", "32, 64, .. 576 dimensions, not 16", "--device cpu"})
    EXPECT_NE(model.error().message.find(part), std::string::npos) << model.error().message;
}

// The latent and the part that turns are kept as one head; each must fit by itself, too.
TEST(Config, LatentAttentionThatTheDeviceCannotRun) {
  testing::NoMemory device;
  const auto spec_of = [&](const std::string& name) {
    auto checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model");
    EXPECT_TRUE(checkpoint.ok());
    return read_model_spec(**checkpoint, device);
  };
  EXPECT_TRUE(spec_of("deepseek_v3_card").ok());
  const auto narrow = spec_of("deepseek_v3");  // 20 and 8 dimensions
  ASSERT_FALSE(narrow.ok());
  EXPECT_EQ(narrow.error().kind, ErrorKind::unsupported);
  for (const char* part : {"layer 0: latent attention: ", "32, 64, .. 576 dimensions, not 8", "--device cpu"})
    EXPECT_NE(narrow.error().message.find(part), std::string::npos) << narrow.error().message;
}

TEST(Config, Llama3ScalingBendsLowFrequenciesOnly) {
  auto config = llama();
  config["head_dim"] = 128;
  config["rope_theta"] = 500000.0;
  const auto plain = find_llama_family("llama")->read_config(config, "config.json");
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  const auto scaled = find_llama_family("llama")->read_config(config, "config.json");
  ASSERT_TRUE(plain.ok() && scaled.ok());
  EXPECT_EQ(plain->ropes[0].inv_freq.front(), scaled->ropes[0].inv_freq.front());
  EXPECT_FLOAT_EQ(plain->ropes[0].inv_freq.back() / 8, scaled->ropes[0].inv_freq.back());
}

// The rope of one kind of layers knows the model's context.
TEST(Config, GemmasRopesReachTheContext) {
  const Json config = {
      {"model_type", "gemma3_text"},     {"hidden_size", 64},
      {"intermediate_size", 72},         {"num_hidden_layers", 6},
      {"max_position_embeddings", 5000}, {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}};
  const auto spec = gemma_family().read_config(config, "config.json");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->ropes[0].far_from, 5000);
  EXPECT_EQ(spec->ropes[1].far_from, 0);
}

TEST(Config, TokenIdsAreNumbersThatTokensCanHave) {
  EXPECT_EQ(read_token_ids(7), std::vector<int>{7});
  EXPECT_EQ(read_token_ids({3, -1, "x", (int64_t{1} << 32) + 5, UINT64_MAX, 1.5, nullptr, 0}),
            (std::vector<int>{3, 0}));
  EXPECT_TRUE(read_token_ids(nullptr).empty());
}

// As Transformers 5.23 saves it.
TEST(Config, ExpertsHaveTwoNames) {
  auto config = llama();
  config["model_type"] = "qwen3_moe";
  config["num_local_experts"] = 6;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 32;
  const auto saved = find_llama_family("qwen3_moe")->read_config(config, "config.json");
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(std::get<MoeSpec>(saved->layers[0].mlp).experts, 6);
  config.erase("num_local_experts");
  config["num_experts"] = 5;
  const auto published = find_llama_family("qwen3_moe")->read_config(config, "config.json");
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(std::get<MoeSpec>(published->layers[0].mlp).experts, 5);
}

}  // namespace
}  // namespace anabranch
