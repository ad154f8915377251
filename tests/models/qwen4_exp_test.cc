// Qwen4-Exp: the fields of its config class, its tables of n-grams, and its state. Its golden case compares
// whole models with Transformers.
#include "models/config_fields.h"
#include "models/no_memory.h"
#include "nn/ngram_input.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

const Json kIndex = {{"indexer_n_heads", 3},
                     {"indexer_kv_heads", 1},
                     {"indexer_head_dim", 16},
                     {"indexer_budget", 12},
                     {"indexer_compress_ratio", 4}};
const Json kNGrams = {{"ple_layer_ids", {3, 1}},
                      {"ngram_vocab_size_base", 50},
                      {"heads_per_ngram", 2},
                      {"eos_token_id", {7, 3}}};

Json qwen4_exp(const Json& more = Json::object()) {
  Json config = base("qwen4_exp_text", joined(joined(kMixture, kIndex), kNGrams));
  config.update(more);
  return config;
}

TEST(Qwen4Exp, FieldsOfItsConfig) {
  const auto types = [](const char* third) {
    Json list = kinds("linear_attention");
    list[1] = third;
    return list;
  };
  for (const Field& field : kRouter + kNarrow +
                                Fields{{"vocab_size", 101},
                                       {"hidden_size", 80},
                                       {"num_hidden_layers", 5},
                                       {"num_attention_heads", 8},
                                       {"num_key_value_heads", 4},
                                       {"head_dim", 12},
                                       {"intermediate_size", 64, Use::no_matter},
                                       {"max_position_embeddings", 600},
                                       {"rms_norm_eps", 1e-3},
                                       {"tie_word_embeddings", false},
                                       {"attention_bias", true},
                                       {"attention_dropout", 0.5, Use::no_matter},
                                       {"rope_theta", 3000.0},
                                       {"rope_parameters", kYarn},
                                       {"partial_rotary_factor", 0.5},
                                       {"hidden_act", "relu", Use::refused},
                                       {"output_gate_type", "sigmoid"},
                                       {"output_gate_type", "silu", Use::no_matter},
                                       {"output_gate_type", "relu", Use::refused},
                                       {"norm_topk_prob", false},
                                       {"shared_expert_intermediate_size", 48},
                                       {"linear_conv_kernel_dim", 3},
                                       {"linear_key_head_dim", 32},
                                       {"linear_value_head_dim", 32},
                                       {"linear_num_key_heads", 4},
                                       {"linear_num_value_heads", 48},
                                       {"linear_num_value_heads", 9, Use::refused},
                                       {"layer_types", types("indexed_attention")},
                                       {"layer_types", types("sliding_attention"), Use::refused},
                                       {"layer_types", {"linear_attention"}, Use::refused},
                                       {"full_attention_interval", 2},
                                       {"hc_count", 3},
                                       {"hc_count", 1, Use::refused},
                                       {"hc_lowrank", 20},
                                       {"indexer_n_heads", 4},
                                       {"indexer_n_heads", nullptr, Use::refused},
                                       {"indexer_kv_heads", 2, Use::refused},
                                       {"indexer_head_dim", 20},
                                       {"indexer_head_dim", 12, Use::refused},
                                       {"indexer_head_dim", 15, Use::refused},
                                       {"indexer_budget", 16},
                                       {"indexer_budget", 14, Use::refused},
                                       {"indexer_compress_ratio", 3},
                                       {"ple_layer_ids", {2}},
                                       {"ple_layer_ids", {1, 3, 1}, Use::no_matter},
                                       {"ple_layer_ids", {4}, Use::refused},
                                       {"ple_layer_ids", {0}, Use::refused},
                                       {"ple_layer_ids", {7}, Use::refused},
                                       {"ple_layer_ids", nullptr},
                                       {"ple_embed_dim", 32},
                                       {"ple_embed_dim", 30, Use::refused},
                                       {"ple_conv_kernel_size", 3},
                                       {"ple_conv_kernel_size", 7, Use::refused},
                                       {"ngram_size", 5},
                                       {"ngram_size", 1, Use::refused},
                                       {"heads_per_ngram", 4},
                                       {"ngram_vocab_size_base", 60},
                                       {"ngram_vocab_size_base", 1 << 30, Use::refused},
                                       {"make_ngram_vocab_size_divisible_by", 64},
                                       {"seed", 1235},
                                       {"seed", -1},
                                       {"split_ngram_parts", 3, Use::no_matter},
                                       {"eos_token_id", 3},
                                       {"eos_token_id", {7, 4}, Use::no_matter},
                                       {"eos_token_id", 100, Use::refused},
                                       {"eos_token_id", nullptr, Use::refused},
                                       {"use_cache", false, Use::no_matter}})
    expect_use(qwen4_exp(), field);
  // A convolution of 16 rows, two apart, and of one more.
  expect_use(qwen4_exp({{"ngram_size", 2}}), {"ple_conv_kernel_size", 8});
  expect_use(qwen4_exp({{"ngram_size", 2}}), {"ple_conv_kernel_size", 9, Use::refused});
  EXPECT_FALSE(read(qwen4_exp({{"rope_parameters", {{"llama_4_scaling_beta", 0.1}}}})).ok());
  for (const char* key : {"num_experts", "moe_intermediate_size"}) {
    Json without = qwen4_exp();
    without.erase(key);
    const auto spec = read(qwen4_exp({{key, nullptr}}));
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(describe(*spec), describe(*read(without))) << key;
  }
}

// What a config without keys means in Transformers' class.
TEST(Qwen4Exp, DefaultsOfItsConfig) {
  Json config = joined({{"model_type", "qwen4_exp_text"}}, kIndex);
  config["indexer_head_dim"] = 256;
  const auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->layers.size(), 40u);
  EXPECT_EQ(spec->hidden, 2048);
  EXPECT_EQ(spec->vocab, 248320);
  EXPECT_EQ(spec->streams.count, 4);
  EXPECT_EQ(spec->streams.rank, 320);
  EXPECT_EQ(spec->ropes[0].inv_freq.size(), 128u) << "whole heads turn";
  const auto& experts = std::get<MoeSpec>(spec->layers[0].mlp);
  EXPECT_EQ(experts.experts, 512);
  EXPECT_EQ(experts.routing.top_k, 10);
  EXPECT_EQ(experts.intermediate, 512);
  EXPECT_EQ(experts.shared_intermediate, 512);
  EXPECT_TRUE(std::holds_alternative<IndexedAttentionSpec>(spec->layers[3].mixer));
}

// Without layers of attention, an index is not needed.
TEST(Qwen4Exp, NestedAndWithoutAnIndex) {
  Json text = qwen4_exp({{"layer_types", kinds("linear_attention")}});
  for (const auto& [key, value] : kIndex.items()) text.erase(key);
  const auto flat = read(text), nested = read({{"model_type", "qwen4_exp"}, {"text_config", text}});
  ASSERT_TRUE(flat.ok()) << flat.error().message;
  ASSERT_TRUE(nested.ok()) << nested.error().message;
  EXPECT_EQ(describe(*flat), describe(*nested));
}

// Transformers' Qwen4ExpTextNGramEmbedding with these sizes, for its second layer with n-grams.
TEST(Qwen4Exp, RowsOfNGramsAreThoseOfTransformers) {
  const auto spec = read(qwen4_exp(
      {{"hidden_size", 24}, {"ple_layer_ids", {1, 2}}, {"make_ngram_vocab_size_divisible_by", 16}}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const NGramSpec& ngrams = *spec->layers[1].ngrams;
  EXPECT_EQ(ngrams.tables.sizes, (std::vector<int64_t>{71, 73, 79, 83}));
  EXPECT_EQ(ngrams.tables.multipliers,
            (std::vector<int64_t>{50384238923866635, 68912755236674477, 38869842557875583}));
  EXPECT_EQ(ngrams.rows, 320);
  // The tokens 5, 99, 7 (which ends a text), 12 and 41.
  const std::vector<std::vector<int>> newest_first = {
      {5, -1, -1}, {99, 5, -1}, {7, 99, 5}, {12, 7, 99}, {41, 12, 7}};
  std::vector<int> rows;
  for (const auto& tokens : newest_first) ngrams.tables.append_rows(tokens, rows);
  EXPECT_EQ(rows, (std::vector<int>{40,  143, 191, 226, 59,  116, 221, 301, 26,  125,
                                    160, 281, 22,  106, 170, 248, 7,   103, 189, 224}));
}

// The state: n-grams' tokens and rows and Gated DeltaNet; and keys, values and the index's keys.
TEST(Qwen4Exp, StateHasTheIndexAndTheNGrams) {
  const auto spec = read(qwen4_exp());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->state_parts(), (std::vector<int>{0, 3, 4, 7, 9, 10}));
  const StateLayout layout = spec->state_layout();
  ASSERT_EQ(layout.size(), 11u);
  const auto& tokens = std::get<ops::RecurrenceShape>(layout[0]);
  const auto& rows = std::get<ops::RecurrenceShape>(layout[1]);
  EXPECT_EQ(tokens.channels, 3);
  EXPECT_EQ(tokens.conv_kernel, 3);
  EXPECT_EQ(rows.channels, 4 * 64);
  EXPECT_EQ(rows.conv_kernel, 10);
  const auto& index = std::get<KvLayout>(layout[8]);
  EXPECT_EQ(index.kv_heads, 1);
  EXPECT_EQ(index.head_dim, 16);
  EXPECT_EQ(index.value_dim, 16);
  // Keys and values of two heads, and a key of the index, in each of the layers with attention: one.
  EXPECT_EQ(kv_bytes_per_token(layout, ops::cpu_device(0, true)), 4u * (2 * 2 * 16 + 16));
}

TEST(Qwen4Exp, IsRefusedOnACardByName) {
  const auto checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/qwen4_exp/model");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const testing::NoMemory card;
  const auto spec = read_model_spec(**checkpoint, card);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().kind, ErrorKind::unsupported);
  for (const char* part : {"layer 0: ", "several residual streams", "a card", "--device cpu"})
    EXPECT_NE(spec.error().message.find(part), std::string::npos) << spec.error().message;
}

}  // namespace
}  // namespace anabranch
