// What a model reads beside its weights: ends of a turn, whether it has a head, a vocabulary for drafts.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "models/any_weights.h"
#include "models/model.h"
#include "ops/cpu/device.h"

namespace anabranch {
namespace {

constexpr int kVocab = 96;

Json text_config() {
  return Json::parse(R"({
    "model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 64, "vocab_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "attn_output_gate": true,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "linear_num_key_heads": 1, "linear_num_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": true})");
}

class LoadedModel : public ::testing::Test {
 protected:
  std::unique_ptr<Model> load(const Json& config, const std::string& without = "") {
    AnyWeights weights(config, 7);
    weights.without = without;
    auto model = Model::load(weights, *device_);
    EXPECT_TRUE(model) << model.error().message;
    return model ? std::move(*model) : nullptr;
  }
  const std::unique_ptr<Device> device_ = ops::cpu::open_cpu(1, false);
};

TEST_F(LoadedModel, ATurnEndsWithTheTokensOfBothConfigs) {
  Json inner = text_config();
  inner["eos_token_id"] = Json::array({7, 9});
  const auto only_inner = load({{"model_type", "qwen3_5"}, {"text_config", inner}});
  ASSERT_TRUE(only_inner);
  EXPECT_EQ(only_inner->spec().eos, (std::vector<int>{7, 9}));
  const auto both = load({{"model_type", "qwen3_5"}, {"text_config", inner}, {"eos_token_id", 5}});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->spec().eos, (std::vector<int>{5, 7, 9}));
}

TEST_F(LoadedModel, AHeadThatTheFilesHaveIsUsedWhateverTheConfigSays) {
  const auto with = load(text_config()), without = load(text_config(), "lm_head.weight");
  ASSERT_TRUE(with && without);
  EXPECT_FALSE(with->spec().tied_embeddings);
  EXPECT_TRUE(without->spec().tied_embeddings);
}

// Kernels are compiled for the first layers while the others are read: also if the first one is an MLP alone.
TEST_F(LoadedModel, AModelOfTheFirstLayersRuns) {
  for (const char* pattern : {"-M*-M*-M*", "M-*M-*M-*"}) {
    AnyWeights weights({{"model_type", "nemotron_h"},
                        {"hidden_size", 32},
                        {"intermediate_size", 48},
                        {"vocab_size", kVocab},
                        {"num_attention_heads", 2},
                        {"num_key_value_heads", 1},
                        {"head_dim", 16},
                        {"mamba_num_heads", 2},
                        {"mamba_head_dim", 16},
                        {"n_groups", 1},
                        {"ssm_state_size", 16},
                        {"hybrid_override_pattern", pattern}},
                       7);
    size_t layers = 0;
    ModelLoadOptions options;
    options.begun = [&](const Model& begun) {
      auto state = begun.make_state();
      Batch batch;
      batch.add(state, std::vector<int>{1, 5, 3}, Batch::Logits::all);
      begun.forward(batch);
      layers = begun.spec().layers.size();
    };
    const auto model = Model::load(weights, *device_, options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(layers, 3u) << pattern;
  }
}

// Layers for prediction, numbered like the others or not, are left aside with tensors of any type, if the
// config counts them.
TEST(LayersForPrediction, AreLeftAside) {
  namespace fs = std::filesystem;
  for (const char* name : {"glm4_moe", "deepseek_v3", "glm4_moe_lite", "bailing_hybrid", "exaone_moe"}) {
    const fs::path from = fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / name / "model";
    Json config = parse_json(read_file((from / "config.json").string(), 1 << 20).value()).value();
    const int layers = config["num_hidden_layers"];
    const auto error_with = [&](int stated, const std::string& extra) {
      const testing::TempDir dir;
      fs::create_symlink(from / "model.safetensors", fs::path(dir.path()) / "model.safetensors");
      config["num_nextn_predict_layers"] = stated;
      dir.write("config.json", config.dump());
      dir.write("model-2.safetensors", testing::SafetensorsWriter()
                                           .f32(extra + "eh_proj.weight", {1, 2}, {1, 2})
                                           .add(extra + "mlp.up_proj.weight", "F8_E5M2", {1, 2}, "12")
                                           .bytes());
      const auto checkpoint = Checkpoint::open(dir.path());
      if (!checkpoint) return checkpoint.error().message;
      const auto spec = read_model_spec(**checkpoint, ops::cpu_device());
      if (!spec) return spec.error().message;
      if (const auto types = (*checkpoint)->check_types(spec->names_of_mtp()); !types)
        return types.error().message;
      const auto model = Model::load(**checkpoint, ops::cpu_device());
      return model ? std::string() : model.error().message;
    };
    const auto layer = [&](int i) { return fmt::format("model.layers.{}.", layers + i); };
    EXPECT_EQ(error_with(1, layer(0)), "") << name;
    EXPECT_EQ(error_with(2, layer(1)), "") << name;
    EXPECT_NE(error_with(1, layer(1)).find(layer(1)), std::string::npos) << name;
    EXPECT_NE(error_with(0, layer(0)).find(layer(0)), std::string::npos) << name;
    EXPECT_EQ(error_with(1, "model.mtp_block.0."), "") << name;
  }
}

// A layout of which parts are missing, in what is left aside and in the model itself.
TEST(LayersForPrediction, MayBeInAnUnreadableLayout) {
  const auto opened = [](const std::string& module) {
    const testing::TempDir dir;
    dir.write("config.json", R"({"model_type": "glm4_moe", "num_hidden_layers": 2,
        "quantization": {"group_size": 64, "bits": 4}})");
    dir.write("model.safetensors", testing::SafetensorsWriter()
                                       .add(module + "weight", "U32", {1, 8}, std::string(32, '\0'))
                                       .add(module + "scales", "F32", {1, 3}, std::string(12, '\0'))
                                       .add(module + "biases", "F32", {1, 3}, std::string(12, '\0'))
                                       .bytes());
    const auto checkpoint = Checkpoint::open(dir.path());
    return checkpoint.ok() ? "" : checkpoint.error().message;
  };
  for (const char* aside :
       {"mtp.fc.", "model.mtp_block.0.fc.", "model.layers.2.eh_proj.", "model.layers.10.eh_proj."})
    EXPECT_EQ(opened(aside), "") << aside;
  for (const char* inside : {"model.layers.1.eh_proj.", "model.norm."})
    EXPECT_NE(opened(inside), "") << inside;
}

// Statistics of another tokenizer, or of a checkpoint whose vocabulary was padded.
TEST_F(LoadedModel, ADraftVocabularyMayNameTokensThatTheModelDoesNotHave) {
  const auto model = load(text_config());
  ASSERT_TRUE(model);
  AnyWeights again(text_config(), 7);
  ASSERT_TRUE(model->set_draft_vocab(again, {0, 5, kVocab - 1, kVocab, kVocab + 7}).ok());
  EXPECT_EQ(model->draft_vocab(), (std::vector<int>{0, 5, kVocab - 1}));
}

}  // namespace
}  // namespace anabranch
