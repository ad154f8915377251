// Converted checkpoints give the logits of their source: names, shapes and the layout of experts, by family.
#include "checkpoint/convert.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "models/model.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

constexpr int kTokens = 40;

std::string source_of(const std::string& name) {
  return ANABRANCH_SOURCE_DIR "/tests/models/data/" + name +
         (name.ends_with("_gguf") ? "/model.gguf" : "/model");
}

std::vector<float> logits_of(const std::string& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  auto model = Model::load(**checkpoint, ops::cpu_device(0, true));
  EXPECT_TRUE(model.ok()) << model.error().message;
  std::vector<int> tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 5);
  SequenceState state = (*model)->make_state();
  Batch batch;
  batch.add(state, tokens, Batch::Logits::all);
  return ops::to_vector((*model)->forward(batch).logits);
}

class Converted : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("anabranch-convert-" + std::to_string(getpid()));
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::vector<float> convert_to(const std::string& name, const Target& target,
                                TargetKind dense = TargetKind::bf16) {
    ConvertOptions options;
    options.output = directory_.string();
    options.force = true;
    options.fallback = target;
    options.dense = dense;
    const auto report = convert(source_of(name), options);
    EXPECT_TRUE(report.ok()) << name << ": " << report.error().message;
    quantised_ = report.ok() ? report->quantised : 0;
    return logits_of(options.output);
  }
  fs::path directory_;
  int quantised_ = 0;
};

// The largest difference within a row, of the median row. (A rounding may choose another expert in some rows,
// whose logits are then others.)
double typical_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  const size_t width = a.size() / kTokens;
  std::vector<double> rows(kTokens);
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++)
    rows[i / width] = std::max(rows[i / width], std::fabs(double{a[i]} - b[i]));
  std::nth_element(rows.begin(), rows.begin() + kTokens / 2, rows.end());
  return rows[kTokens / 2];
}

TEST_F(Converted, DenseValuesAreTheSame) {
  for (const char* name : {"mixtral",
                           "qwen3_moe",
                           "qwen3_qk_norm",
                           "gemma2",
                           "gemma3",
                           "gemma4_moe",
                           "gemma4_shared_kv",
                           "gemma4_keys_are_values_nested",
                           "ministral3",
                           "mistral3_nested",
                           "qwen2_moe",
                           "smollm3",
                           "olmo3",
                           "granite",
                           "exaone4",
                           "hunyuan_v1_dense",
                           "cohere2",
                           "starcoder2",
                           "glm4",
                           "stablelm",
                           "gpt_oss",
                           "gemma",
                           "vaultgemma",
                           "arcee",
                           "cwm",
                           "olmo",
                           "hyperclovax",
                           "jais2",
                           "nemotron",
                           "phi",
                           "gpt_neox"})
    EXPECT_TRUE(ops::bits_agree(convert_to(name, {TargetKind::bf16, {}}), logits_of(source_of(name))))
        << name;
}

// MLX stores 1 + w of the norms in bf16, which rounds to 8 bits: logits of a deviation of 2 move by some
// hundredths.
TEST_F(Converted, HybridsDifferByTheirNormsRounding) {
  for (const char* name : {"qwen35_moe_fused", "qwen35_moe_nested_mtp", "qwen3_next", "qwen35_flat_tied"})
    EXPECT_LT(typical_difference(convert_to(name, {TargetKind::bf16, {}}), logits_of(source_of(name))), 0.2)
        << name;
}

// Only the gated norms, f32 in the source, are rounded to bf16.
TEST_F(Converted, CodesOfExpertsAreKept) {
  const char* name = "qwen35_moe_mlx_quantised";
  EXPECT_LT(typical_difference(convert_to(name, {TargetKind::keep, {}}), logits_of(source_of(name))), 0.05);
  EXPECT_GT(quantised_, 30);
}

// Codes of GGUF files are kept. The factors of their groups, and norms, are rounded to f16.
TEST_F(Converted, GgufFilesOfEveryFamily) {
  for (const char* name :
       {"llama3_rope_gguf", "ministral3_gguf", "gemma2_gguf",    "gemma3_gguf",     "gemma4_shared_kv_gguf",
        "gemma4_moe_gguf",  "mixtral_gguf",    "qwen3_moe_gguf", "qwen3_next_gguf", "qwen35_gguf",
        "qwen35_moe_gguf",  "phi3_gguf",       "olmo3_gguf",     "granite_gguf",    "smollm3_gguf",
        "cohere2_gguf",     "starcoder2_gguf", "glm4_gguf",      "stablelm_gguf",   "qwen2_moe_gguf",
        "gemma_gguf",       "arcee_gguf",      "olmo_gguf",      "nemotron_gguf",   "jais2_gguf",
        "phi_gguf",         "gpt_neox_gguf"})
    EXPECT_LT(typical_difference(convert_to(name, {TargetKind::keep, {}}, TargetKind::f16),
                                 logits_of(source_of(name))),
              0.02)
        << name;
}

// A GGUF file's rows, heads, norms, decays and ropes are others than Hugging Face's, and give the same
// logits.
TEST_F(Converted, GgufFilesGiveTheSameLogits) {
  for (const char* name :
       {"llama_tied", "llama_biases", "llama3_rope_untied", "llama_yarn", "mistral_f16", "qwen2_bias",
        "qwen3_qk_norm", "gemma3", "gemma3_nested_untied", "qwen35_flat_tied", "qwen35_mlx",
        "qwen35_true_heads", "qwen35_nested_untied_grouped", "llama3_rope_gguf", "gemma3_gguf", "qwen35_gguf",
        "qwen2_gguf"}) {
    ConvertOptions options;
    options.output = (directory_ / "model.gguf").string();
    options.force = true;
    options.format = ConvertFormat::f16;
    const auto report = convert(source_of(name), options);
    ASSERT_TRUE(report.ok()) << name << ": " << report.error().message;
    EXPECT_LT(typical_difference(logits_of(options.output), logits_of(source_of(name))), 0.02) << name;
  }
}

// Rules for experts and routers hold in every family that has them.
TEST_F(Converted, RecipesNameExpertsAndRouters) {
  for (const char* name :
       {"mixtral", "qwen3_moe", "qwen35_moe_fused", "qwen35_moe_nested_mtp", "qwen3_next"}) {
    SCOPED_TRACE(name);
    ConvertOptions options;
    options.output = directory_.string();
    options.force = true;
    const auto recipe = parse_recipe(R"({"default": {"dtype": "bf16"}, "rules": [
        {"match": "model.layers.*.mlp.switch_mlp.gate_proj", "bits": 8, "group": 32},
        {"match": "model.layers.*.mlp.switch_mlp.up_proj", "bits": 6, "group": 32},
        {"match": "model.layers.*.mlp.gate", "bits": 5, "group": 32}]})",
                                     "recipe", options);
    ASSERT_TRUE(recipe.ok()) << recipe.error().message;
    const auto report = convert(source_of(name), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto checkpoint = Checkpoint::open(options.output).value();
    const auto type_of = [&](const std::string& matrix) {
      const std::string sparse_layer =
          name == std::string("qwen3_next") ? "model.layers.2.mlp." : "model.layers.1.mlp.";
      const auto info = checkpoint->find(sparse_layer + matrix + ".weight");
      return info ? info->type : "missing";
    };
    EXPECT_EQ(type_of("switch_mlp.gate_proj"), "affine-8/32");
    EXPECT_EQ(type_of("switch_mlp.up_proj"), "affine-6/32");
    EXPECT_EQ(type_of("switch_mlp.down_proj"), "BF16");
    EXPECT_EQ(type_of("gate"), "affine-5/32");
    EXPECT_LT(typical_difference(logits_of(options.output), logits_of(source_of(name))), 1.5);
  }
}

TEST_F(Converted, ExpertsAreQuantised) {
  const auto logits = convert_to("mixtral", {TargetKind::affine, {8, 32}});
  // Four of attention and two of the experts in each of three layers, the table and the head. The experts'
  // down_proj has 48 columns and a router 32, which their groups of 32 and 64 do not divide.
  EXPECT_EQ(quantised_, 3 * 6 + 2);
  // 8 bits are 0.5 % of each weight; other models differ by about 8.
  EXPECT_LT(typical_difference(logits, logits_of(source_of("mixtral"))), 0.6);
}

}  // namespace
}  // namespace anabranch
