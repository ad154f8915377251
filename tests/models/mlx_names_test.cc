// Checkpoints whose matrices have mlx-lm's names, or those of a model with a tower, give the same bits as
// those with Transformers' names of a text model.
#include <cstdint>
#include <fstream>
#include <functional>

#include "models/golden.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using namespace golden;

// Gives a tensor of a safetensors header other names, or takes it apart.
using Rename = std::function<void(Json& header, const std::string& name, const Json& tensor)>;

void replace(Json& header, const std::string& name, const Json& tensor, const std::string& old,
             const std::string& now) {
  std::string other = name;
  if (const size_t at = name.find(old); at != name.npos) other.replace(at, old.size(), now);
  header[other] = tensor;
}

// outer: the model_type of a model around the text model; empty: none.
fs::path renamed(const std::string& name, const Rename& rename, const std::string& outer = "") {
  const fs::path from = fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / name / "model";
  const fs::path to = fs::path(::testing::TempDir()) / ("mlx_names_" + name);
  fs::create_directories(to);
  fs::copy_file(from / "config.json", to / "config.json", fs::copy_options::overwrite_existing);
  if (!outer.empty()) {
    const Json text = *parse_json(*read_file((from / "config.json").string(), 1 << 20));
    std::ofstream(to / "config.json")
        << Json{{"model_type", outer}, {"text_config", text}, {"vision_config", Json::object()}}.dump();
  }
  std::ifstream in(from / "model.safetensors", std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(in)), {});
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  const Json before = Json::parse(file.substr(8, size));
  Json after = Json::object();
  for (const auto& [tensor, value] : before.items()) rename(after, tensor, value);
  const std::string header = after.dump();
  const uint64_t length = header.size();
  std::ofstream out(to / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << file.substr(8 + size);
  return to;
}

std::vector<float> logits_of(const fs::path& path, const std::vector<int>& prompt) {
  auto checkpoint = Checkpoint::open(path.string());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return {};
  const auto model = Model::load(**checkpoint, ops::cpu_device());
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model.ok()) return {};
  auto state = (*model)->make_state();
  return all_logits(**model, state, prompt, 1 << 20);
}

void expect_same(const std::string& name, const Rename& rename, const std::string& outer = "") {
  const auto golden = read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / name);
  const fs::path other = renamed(name, rename, outer);
  const auto expected = logits_of(golden.model, golden.runs[1].prompt);
  const auto got = logits_of(other, golden.runs[1].prompt);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(expected, got);
}

TEST(MlxNames, DenseLayersOfLfm2BesideMixtures) {
  int changed = 0;
  expect_same("lfm2_moe", [&](Json& header, const std::string& name, const Json& tensor) {
    for (const auto& [own, mlx] : {std::pair{".feed_forward.w1.", ".feed_forward.gate_proj."},
                                   {".feed_forward.w3.", ".feed_forward.up_proj."},
                                   {".feed_forward.w2.", ".feed_forward.down_proj."}})
      if (name.find(own) != name.npos) return changed++, replace(header, name, tensor, own, mlx);
    header[name] = tensor;
  });
  EXPECT_GE(changed, 3);
}

TEST(MlxNames, GraniteWithoutExperts) {
  int changed = 0;
  expect_same("granite_h", [&](Json& header, const std::string& name, const Json& tensor) {
    const std::string in = ".shared_mlp.input_linear.", out = ".shared_mlp.output_linear.";
    if (name.find(in) == name.npos) return replace(header, name, tensor, out, ".mlp.down_proj.");
    changed++;
    Json gate = tensor, up = tensor;
    const int rows = tensor["shape"][0].get<int>() / 2;
    const auto begin = tensor["data_offsets"][0].get<int64_t>(),
               end = tensor["data_offsets"][1].get<int64_t>();
    gate["shape"][0] = up["shape"][0] = rows;
    gate["data_offsets"][1] = up["data_offsets"][0] = begin + (end - begin) / 2;
    replace(header, name, gate, in, ".mlp.gate_proj.");
    replace(header, name, up, in, ".mlp.up_proj.");
  });
  EXPECT_GE(changed, 1);
}

TEST(MlxNames, ConvolutionsOfKimiLinear) {
  int changed = 0;
  expect_same("kimi_linear", [&](Json& header, const std::string& name, const Json& tensor) {
    changed += name.find("_conv1d.") != name.npos;
    replace(header, name, tensor, "_conv1d.", "_conv.conv.");
  });
  EXPECT_GE(changed, 3);
}

// mlx-lm multiplies the config's factors into the weights.
TEST(MlxNames, FalconH1IsRefused) {
  const fs::path path = renamed("falcon_h1", [](Json& header, const std::string& name, const Json& tensor) {
    header[name] = tensor;
    if (name.ends_with("conv1d.weight")) std::swap(header[name]["shape"][1], header[name]["shape"][2]);
  });
  const auto checkpoint = Checkpoint::open(path.string()).value();
  const auto model = Model::load(*checkpoint, ops::cpu_device());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("MLX's layout"), std::string::npos) << model.error().message;
}

// The names under which Transformers saves the text models of models with towers, and under which older
// versions did.
TEST(TowerNames, TextModels) {
  struct Case {
    const char *text, *outer, *prefix;
  };
  for (const Case& each : {Case{"llama_biases", "llava", "language_model.model."},
                           {"llama_biases", "llava_next", "model.language_model."},
                           {"llama_biases", "idefics3", "model.text_model."},
                           {"llama_biases", "smolvlm", "model.text_model."},
                           {"qwen2_bias", "internvl", "model.language_model."},
                           {"qwen3_qk_norm", "internvl", "language_model.model."}})
    expect_same(
        each.text,
        [&](Json& header, const std::string& name, const Json& tensor) {
          const bool layers = name.starts_with("model.");
          header[layers ? each.prefix + name.substr(6) : name] = tensor;
        },
        each.outer);
}

// Published files of Pythia call the head otherwise, and have masks.
TEST(TowerNames, GptNeox) {
  int changed = 0;
  expect_same("gpt_neox", [&](Json& header, const std::string& name, const Json& tensor) {
    changed += name == "lm_head.weight";
    const Json none = {{"dtype", "BOOL"}, {"shape", {1, 0}}, {"data_offsets", {0, 0}}};
    header["gpt_neox.layers.0.attention.bias"] = none;
    header["gpt_neox.layers.1.attention.masked_bias"] = none;
    header[name == "lm_head.weight" ? "embed_out.weight" : name] = tensor;
  });
  EXPECT_EQ(changed, 1);
}

// Names that these have in common with no other family.
TEST(MlxNames, RoutersOfHyV3) {
  int changed = 0;
  expect_same("hy_v3", [&](Json& header, const std::string& name, const Json& tensor) {
    changed += name.find(".mlp.expert_bias") != name.npos;
    replace(header, name, tensor, ".mlp.expert_bias", ".mlp.router.expert_bias");
  });
  EXPECT_GE(changed, 1);
}

TEST(MlxNames, RoutersOfStep) {
  int changed = 0;
  expect_same("step3p7", [&](Json& header, const std::string& name, const Json& tensor) {
    for (const auto& [own, mlx] : {std::pair{".moe.gate.", ".mlp.gate.gate."},
                                   {".moe.router_bias", ".mlp.gate.router_bias"},
                                   {".share_expert.", ".mlp.share_expert."}})
      if (name.find(own) != name.npos) return changed++, replace(header, name, tensor, own, mlx);
    header[name] = tensor;
  });
  EXPECT_GE(changed, 3);
}

}  // namespace
}  // namespace anabranch
