// Directories of safetensors as a whole: names, quantised triples, norms, side files, and what is wrong with
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/float16.h"
#include "checkpoint/affine.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dense.h"
#include "checkpoint/model_name.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

std::unique_ptr<Checkpoint> open_ok(const std::string& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

std::string open_error(const std::string& path) {
  auto checkpoint = Checkpoint::open(path);
  return checkpoint.ok() ? "" : checkpoint.error().message;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Directory, takes_each_tensor_once_and_reports_the_rest) {
  TempDir dir;
  dir.write("config.json", R"({"model_type":"llama"})");
  dir.write("tokenizer.json", "tok");
  dir.write("model.safetensors", SafetensorsWriter()
                                     .f32("model.norm.weight", {3}, {1, 2, 3})
                                     .f32("model.embed_tokens.weight", {2, 3}, {1, 2, 3, 4, 5, 6})
                                     .f32("extra.weight", {1}, {1})
                                     .add("ids", "I64", {1}, "12345678")
                                     .bytes());
  auto c = open_ok(dir.path());
  ASSERT_TRUE(c);
  EXPECT_EQ(c->config()["model_type"], "llama");
  EXPECT_EQ(c->tensors().size(), 4u);
  EXPECT_EQ(c->side_file("tokenizer.json"), "tok");
  EXPECT_EQ(c->side_file("nothing.json"), std::nullopt);
  EXPECT_TRUE(c->gguf_metadata().is_null());

  const auto wrong = c->take("model.norm.weight", {4});
  ASSERT_FALSE(wrong.ok());
  EXPECT_HAS(wrong.error().message, "[3]");
  EXPECT_HAS(wrong.error().message, "[4]");
  const auto norm = c->take("model.norm.weight", {3});
  ASSERT_TRUE(norm.ok());
  EXPECT_EQ(norm->data<float>()[2], 3);
  EXPECT_HAS(c->take("model.norm.weight", {3}).error().message, "taken twice");
  EXPECT_EQ(c->take("absent", {3}).error().kind, ErrorKind::not_found);
  EXPECT_EQ(c->take("ids", {1}).error().kind, ErrorKind::unsupported);
  const auto embed = c->take_matrix("model.embed_tokens.weight", 2, 3);
  ASSERT_TRUE(embed.ok());
  float row[3];
  embed->read_dense(1, 1, row);
  EXPECT_EQ(row[0], 4);

  EXPECT_HAS(c->finish().error().message, "2 tensors");
  EXPECT_HAS(c->finish().error().message, "extra.weight");
  EXPECT_EQ(c->ignore("extra."), 1);
  EXPECT_EQ(c->ignore("ids"), 1);
  EXPECT_TRUE(c->finish().ok());
}

TEST(Directory, sources_outlive_the_checkpoint) {
  TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors", SafetensorsWriter().f32("w", {1, 2}, {5, 6}).bytes());
  auto c = open_ok(dir.path() + "/");
  EXPECT_EQ(c->name(), std::filesystem::path(dir.path()).filename());
  auto source = c->take_matrix("w", 1, 2);
  c.reset();
  float row[2];
  source->read_dense(0, 1, row);
  EXPECT_EQ(row[1], 6);
}

TEST(Directory, shards_index_and_sidecar) {
  TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model-1.safetensors",
            SafetensorsWriter().f32("model.language_model.a.weight", {1}, {1}).bytes());
  dir.write("model-2.safetensors", SafetensorsWriter().f32("lm_head.weight", {1, 1}, {2}).bytes());
  dir.write("mtp.safetensors", SafetensorsWriter()
                                   .f32("pre_fc_norm_hidden.weight", {1}, {1})
                                   .f32("pre_fc_norm_embedding.weight", {1}, {1})
                                   .bytes());
  dir.write("consolidated.safetensors", SafetensorsWriter().f32("tok", {1}, {1}).bytes());
  const std::string index =
      R"({"metadata":{},"weight_map":{"model.language_model.a.weight":"model-1.safetensors",
      "lm_head.weight":"model-2.safetensors"}})";
  dir.write("model.safetensors.index.json", index);
  auto c = open_ok(dir.path());
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->has("model.a.weight"));
  EXPECT_TRUE(c->has("lm_head.weight"));
  EXPECT_TRUE(c->has("mtp.pre_fc_norm_hidden.weight"));
  EXPECT_FALSE(c->has("tok"));

  dir.write("model.safetensors.index.json", R"({"weight_map":{"b":"model-1.safetensors"}})");
  EXPECT_HAS(open_error(dir.path()), "lacks it");
  dir.write("model.safetensors.index.json", R"({"weight_map":{"b":"model-3.safetensors"}})");
  EXPECT_HAS(open_error(dir.path()), "model-3.safetensors, which is not there");
  dir.write("model.safetensors.index.json", index);
  dir.write("more.safetensors", SafetensorsWriter().f32("lm_head.weight", {1, 1}, {2}).bytes());
  EXPECT_HAS(open_error(dir.path()), "more.safetensors");
  EXPECT_HAS(open_error(dir.path()), "model-2.safetensors");
  dir.write("more.safetensors",
            SafetensorsWriter().f32("language_model.lm_head.weight", {1, 1}, {2}).bytes());
  EXPECT_HAS(open_error(dir.path()), "is both in");
}

// Rows of four heads of one pair each are stored as (x, y) pairs already; those of longer heads are not.
constexpr const char* kParams =
    R"({"dim": 4, "n_layers": 1, "hidden_dim": 2, "n_heads": 2, "n_kv_heads": 1, "head_dim": 4, "norm_eps": 1e-5,
        "vocab_size": 3)";

SafetensorsWriter consolidated() {
  std::vector<float> q(8 * 4), k(4 * 4);
  std::iota(q.begin(), q.end(), 0.f);
  std::iota(k.begin(), k.end(), 0.f);
  SafetensorsWriter writer;
  writer.f32("tok_embeddings.weight", {3, 4}, std::vector<float>(12))
      .f32("norm.weight", {4}, {1, 1, 1, 1})
      .f32("layers.0.attention.wq.weight", {8, 4}, q)
      .f32("layers.0.attention.wk.weight", {4, 4}, k)
      .f32("layers.0.feed_forward.w1.weight", {2, 4}, std::vector<float>(8))
      .f32("vision_encoder.ln_pre.weight", {1}, {1});
  return writer;
}

TEST(Directory, mistrals_own_layout) {
  TempDir dir;
  dir.write("consolidated.safetensors", consolidated().bytes());
  EXPECT_HAS(open_error(dir.path()), "params.json");
  dir.write("params.json", std::string(kParams) + "}");
  auto c = open_ok(dir.path());
  ASSERT_TRUE(c);
  EXPECT_EQ(c->config()["model_type"], "mistral");
  EXPECT_EQ(c->config()["num_key_value_heads"], 1);
  EXPECT_EQ(c->config()["rope_parameters"]["rope_theta"], 1000000.0);
  EXPECT_EQ(c->config()["max_position_embeddings"], 32768);
  EXPECT_TRUE(c->config()["sliding_window"].is_null());  // no key would mean 4,096
  EXPECT_EQ(c->left_out(), 1u);
  EXPECT_TRUE(c->has("model.embed_tokens.weight"));
  EXPECT_TRUE(c->has("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_FALSE(c->has("lm_head.weight"));
  const auto first_column = [&](const char* name, int64_t rows) {
    const auto source = c->take_matrix(name, rows, 4);
    std::vector<float> values(static_cast<size_t>(rows * 4)), out;
    source->read_dense(0, rows, values.data());
    for (int64_t r = 0; r < rows; r++) out.push_back(values[static_cast<size_t>(4 * r)] / 4);
    return out;
  };
  // Rows (head, i, p) of the file come as (head, p, i).
  EXPECT_EQ(first_column("model.layers.0.self_attn.q_proj.weight", 8),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(first_column("model.layers.0.self_attn.k_proj.weight", 4), (std::vector<float>{0, 2, 1, 3}));

  // Beside Hugging Face's files it is left aside.
  dir.write("model.safetensors", SafetensorsWriter().f32("lm_head.weight", {1, 1}, {2}).bytes());
  dir.write("config.json", "{}");
  c = open_ok(dir.path());
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->has("lm_head.weight"));
  EXPECT_FALSE(c->has("model.embed_tokens.weight"));
}

// Files by tools/make_consolidated_fixtures.py. tests/models runs them, too.
TEST(Directory, mistrals_own_layout_equals_hugging_faces) {
  const std::string data = ANABRANCH_SOURCE_DIR "/tests/models/data/";
  for (const char* name : {"ministral3", "ministral_windows", "mixtral"}) {
    auto hf = open_ok(data + name + "/model"), own = open_ok(data + name + "_consolidated/model");
    ASSERT_TRUE(hf && own) << name;
    const auto tensors = hf->tensors();
    ASSERT_EQ(own->tensors().size(), tensors.size()) << name;
    for (const TensorInfo& tensor : tensors) {
      const auto expected = hf->take(tensor.name, tensor.shape), got = own->take(tensor.name, tensor.shape);
      ASSERT_TRUE(got.ok()) << name << ": " << got.error().message;
      ASSERT_EQ(got->size(), expected->size());
      EXPECT_EQ(std::memcmp(got->data<float>(), expected->data<float>(), got->size() * sizeof(float)), 0)
          << name << ": " << tensor.name;
    }
    EXPECT_EQ(own->left_out(), 1u);
    for (const char* key : {"model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size",
                            "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
                            "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings", "layer_types",
                            "num_local_experts", "num_experts_per_tok"})
      EXPECT_EQ(own->config().value(key, Json()), hf->config().value(key, Json())) << name << ": " << key;
    EXPECT_EQ(own->config().value("sliding_window", Json()), hf->config().value("sliding_window", Json()));
  }
}

TEST(Directory, params_that_cannot_be_run_are_refused) {
  TempDir dir;
  dir.write("consolidated.safetensors", consolidated().bytes());
  const auto with = [&](const std::string& more) {
    dir.write("params.json", std::string(kParams) + more + "}");
    return open_error(dir.path());
  };
  EXPECT_HAS(with(R"(, "quantization": {"qformat_weight": "fp8_e4m3"})"), "quantised weights");
  EXPECT_HAS(with(R"(, "q_lora_rank": 4)"), "latent attention");
  EXPECT_HAS(with(R"(, "use_biases": true)"), "use_biases");
  EXPECT_HAS(with(R"(, "activation": "gelu")"), "activation");
  EXPECT_HAS(with(R"(, "causal": false)"), "causal");
  EXPECT_HAS(with(R"(, "model_type": "mamba")"), "mamba");
  EXPECT_HAS(with(R"(, "moe": {"num_experts": 4, "num_shared_experts": 1})"), "as Mixtral has them");
  EXPECT_HAS(with(R"(, "moe": {"num_experts": 4, "first_k_dense_replace": 1})"), "as Mixtral has them");
  EXPECT_HAS(with(R"(, "moe": 3)"), "moe");
  EXPECT_HAS(with(R"(, "yarn": 3)"), "yarn");
  EXPECT_HAS(with(R"(, "llama_4_scaling": {"beta": 0.1})"), "llama_4_scaling");
  EXPECT_HAS(with(R"(, "yarn": {"original_max_position_embeddings": 8},
                     "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 9})"),
             "with different");
  EXPECT_HAS(with(R"(, "sliding_window": [])"), "0 entries");
  EXPECT_HAS(with(R"(, "sliding_window": [4, null])"), "2 entries for 1 layers");
  EXPECT_HAS(with(R"(, "sliding_window": "4k")"), "not a whole number");
  EXPECT_HAS(with(R"(, "n_layers": 2, "sliding_window": [4, 8])"), "windows of 4 and of 8");
  EXPECT_HAS(with(R"(, "n_heads": 3)"), "8 rows for 3 heads");
  for (const char* heads : {"9223372036854775807", "-1", "16777217", "\"2\""})
    EXPECT_HAS(with(fmt::format(R"(, "n_kv_heads": {})", heads)), "\"n_kv_heads\" should be a number from 1");
  EXPECT_HAS(with(R"(, "n_layers": 0)"), "n_layers");
  for (const char* text : {"[]", "{", "{}"}) {
    dir.write("params.json", text);
    EXPECT_HAS(open_error(dir.path()), "params.json");
  }
  // These change nothing, or are read.
  for (const char* more :
       {R"(, "quantization": {}, "causal": true, "use_biases": false)", R"(, "sliding_window": "4")",
        R"(, "moe": {"num_experts": 4, "num_experts_per_tok": 2})",
        R"(, "yarn": {"factor": 2, "beta": 32, "alpha": 1, "original_max_position_embeddings": 8})"}) {
    dir.write("params.json", std::string(kParams) + more + "}");
    EXPECT_TRUE(open_ok(dir.path())) << more;
  }
}

TEST(Directory, adapters_are_refused) {
  TempDir dir;
  const std::string weights = SafetensorsWriter().f32("w", {1}, {1}).bytes();
  dir.write("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  dir.write("adapter_model.bin", "x");
  EXPECT_HAS(open_error(dir.path()), "adapter_model.bin is an adapter (LoRA) without a model");
  EXPECT_HAS(open_error(dir.path()), "merge it into org/base");
  dir.write("adapter_model.safetensors", weights);
  std::filesystem::remove(dir.file("adapter_model.bin"));
  EXPECT_HAS(open_error(dir.path()), "adapter_model.safetensors is an adapter (LoRA) without a model");
  dir.write("config.json", "{}");
  dir.write("model.safetensors", weights);
  EXPECT_HAS(open_error(dir.path()), "beside a model's weights");
  EXPECT_HAS(open_error(dir.path()), "move it to another directory");
  std::filesystem::remove(dir.file("adapter_model.safetensors"));
  EXPECT_TRUE(open_ok(dir.path()));
  dir.write("adapters.safetensors", weights);  // mlx-lm's
  EXPECT_HAS(open_error(dir.path()), "beside a model's weights");
}

TEST(Directory, what_is_missing_is_said) {
  TempDir dir;
  EXPECT_EQ(Checkpoint::open(dir.file("absent")).error().kind, ErrorKind::not_found);
  EXPECT_HAS(open_error(dir.path()), "no .safetensors");
  dir.write("model.safetensors", SafetensorsWriter().bytes());
  EXPECT_HAS(open_error(dir.path()), "config.json");
  dir.write("config.json", "[]");
  EXPECT_HAS(open_error(dir.path()), "config.json is not a JSON object");
  dir.write("config.json", "{,}");
  EXPECT_HAS(open_error(dir.path()), "config.json");
  dir.write("weights.bin", "x");
  EXPECT_EQ(Checkpoint::open(dir.file("weights.bin")).error().kind, ErrorKind::unsupported);
}

TEST(Names, both_worlds_fold) {
  EXPECT_EQ(fold_name("layers.0.x"), "model.layers.0.x");  // of models for embeddings
  EXPECT_EQ(fold_name("norm.weight"), "model.norm.weight");
  EXPECT_EQ(fold_name("model.text_model.layers.0.x"), "model.layers.0.x");
  EXPECT_EQ(fold_name("gpt_neox.embed_in.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(fold_name("gpt_neox.final_layer_norm.bias"), "model.norm.bias");
  // EXAONE 3, Sarvam and Flint as published.
  for (const auto& [published, common] :
       {std::pair{"wte.weight", "embed_tokens.weight"},
        {"ln_f.weight", "norm.weight"},
        {"h.3.attn.attention.q_proj.weight", "layers.3.self_attn.q_proj.weight"},
        {"h.3.attn.attention.out_proj.weight", "layers.3.self_attn.o_proj.weight"},
        {"h.3.ln_1.weight", "layers.3.input_layernorm.weight"},
        {"h.3.ln_2.weight", "layers.3.post_attention_layernorm.weight"},
        {"h.3.mlp.c_fc_0.weight", "layers.3.mlp.gate_proj.weight"},
        {"h.3.mlp.c_fc_1.weight", "layers.3.mlp.up_proj.weight"},
        {"h.3.mlp.c_proj.weight", "layers.3.mlp.down_proj.weight"}})
    EXPECT_EQ(fold_name(std::string("transformer.") + published), std::string("model.") + common);
  for (const auto& [published, common] :
       {std::pair{"attention.query_key_value.weight", "self_attn.query_key_value.weight"},
        {"attention.query_layernorm.weight", "self_attn.q_norm.weight"},
        {"attention.key_layernorm.weight", "self_attn.k_norm.weight"},
        {"self_attn.softmax_offset", "self_attn.sinks"}})
    EXPECT_EQ(fold_name(std::string("model.layers.3.") + published), std::string("model.layers.3.") + common);
  EXPECT_EQ(fold_name("embed_out.weight"), "lm_head.weight");
  for (const char* tower : {"model.connector.modality_projection.proj.weight", "model.image_newline",
                            "image_newline", "model.vision_model.embeddings.x",
                            "model.vision_encoder.ln_pre.weight", "model.vision_projection.norm.weight"})
    EXPECT_EQ(fold_name(tower), std::nullopt) << tower;
  EXPECT_EQ(fold_name("model.layers.0.x"), "model.layers.0.x");
  EXPECT_EQ(fold_name("language_model.model.layers.0.x"), "model.layers.0.x");
  EXPECT_EQ(fold_name("model.language_model.layers.0.x"), "model.layers.0.x");
  EXPECT_EQ(fold_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(fold_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(fold_name("mtp.fc.weight"), "mtp.fc.weight");
  EXPECT_EQ(fold_name("language_model.mtp.fc.weight"), "mtp.fc.weight");
  EXPECT_EQ(fold_name("model.mtp.fc.weight"), "mtp.fc.weight");
  EXPECT_EQ(fold_name("model.visual.patch.weight"), std::nullopt);
  EXPECT_EQ(fold_name("vision_tower.patch.weight"), std::nullopt);
  EXPECT_EQ(fold_name("mm_projector.proj.0.weight"), std::nullopt);  // Kimi K2.5
  EXPECT_EQ(fold_name("mm_projector.pre_norm.weight"), std::nullopt);
}

TEST(Names, of_vision_towers) {
  EXPECT_EQ(vision_name("model.visual.blocks.0.norm1.bias"), "blocks.0.norm1.bias");
  EXPECT_EQ(vision_name("visual.blocks.0.norm1.bias"), "blocks.0.norm1.bias");
  EXPECT_EQ(vision_name("vision_tower.blocks.0.norm1.bias"), "blocks.0.norm1.bias");
  EXPECT_EQ(vision_name("model.vision_tower.vision_model.post_layernorm.bias"), "post_layernorm.bias");
  EXPECT_EQ(vision_name("vision_tower.vision_model.post_layernorm.bias"), "post_layernorm.bias");
  EXPECT_EQ(vision_name("model.multi_modal_projector.x"), "multi_modal_projector.x");
  for (const char* other :
       {"model.layers.0.x", "lm_head.weight", "audio_tower.x", "model.language_model.layers.0.x"})
    EXPECT_EQ(vision_name(other), std::nullopt) << other;
}

TEST(Norms, decided_by_conv_shape_then_by_metadata) {
  const auto norms = [](std::vector<int64_t> conv, const char* format) {
    TempDir dir;
    dir.write("config.json", "{}");
    SafetensorsWriter writer;
    writer.f32("model.norm.weight", {1}, {1});
    if (!conv.empty()) writer.f32("model.layers.0.linear_attn.conv1d.weight", conv, std::vector<float>(8));
    dir.write("model.safetensors", writer.bytes(format));
    return open_ok(dir.path())->find("model.norm.weight")->norms;
  };
  EXPECT_EQ(norms({2, 1, 4}, "mlx"), NormConvention::offset);
  EXPECT_EQ(norms({2, 4, 1}, "pt"), NormConvention::plain);
  EXPECT_EQ(norms({}, "mlx"), NormConvention::plain);
  EXPECT_EQ(norms({}, "pt"), NormConvention::offset);
  EXPECT_EQ(norms({8, 1, 1}, "mlx"), NormConvention::plain);  // ambiguous
}

// A quantised module of `rows` x `cols`: codes (7 r + 3 c) mod 2^bits, scale 1 + g, bias -g.
void add_quantised(SafetensorsWriter& writer, const std::string& module, int bits, int group, int rows,
                   int cols) {
  std::vector<uint32_t> words(rows * cols * bits / 32);
  std::vector<uint16_t> scales, biases;
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < cols; c++) {
      const uint64_t code = (7 * r + 3 * c) % (1 << bits);
      for (int b = 0; b < bits; b++) {  // bit by bit, as the format is defined
        const int64_t at = int64_t{r} * cols * bits + c * bits + b;
        words[at / 32] |= ((code >> b) & 1) << (at % 32);
      }
    }
    for (int g = 0; g < cols / group; g++) {
      scales.push_back(float_to_bf16(1.0f + g));
      biases.push_back(float_to_bf16(-1.0f * g));
    }
  }
  writer.add(module + ".weight", "U32", {rows, cols * bits / 32}, raw_bytes(words));
  writer.add(module + ".scales", "BF16", {rows, cols / group}, raw_bytes(scales));
  writer.add(module + ".biases", "BF16", {rows, cols / group}, raw_bytes(biases));
}

class Quantised : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Quantised, codes_scales_and_biases_come_out) {
  const auto [bits, group] = GetParam();
  const int rows = 5, cols = 3 * group;
  TempDir dir;
  dir.write("config.json", "{\"quantization\":{\"group_size\":32,\"bits\":4,\"model.l\":{\"bits\":" +
                               std::to_string(bits) + ",\"group_size\":" + std::to_string(group) + "}}}");
  SafetensorsWriter writer;
  add_quantised(writer, "language_model.model.l", bits, group, rows, cols);
  dir.write("model.safetensors", writer.bytes("mlx"));
  auto c = open_ok(dir.path());
  ASSERT_TRUE(c);
  ASSERT_EQ(c->tensors().size(), 1u);
  EXPECT_EQ(c->tensors()[0].type, "affine-" + std::to_string(bits) + "/" + std::to_string(group));
  EXPECT_EQ(c->tensors()[0].shape, (std::vector<int64_t>{rows, cols}));
  EXPECT_EQ(c->tensors()[0].bytes, static_cast<uint64_t>(rows * (cols * bits / 8 + 3 * 4)));
  auto source = c->take_matrix("model.l.weight", rows, cols);
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(source->bits, bits);
  EXPECT_EQ(source->group, group);
  EXPECT_EQ(source->scale_type, ScaleType::bf16);
  std::vector<uint8_t> codes(2 * cols);
  std::vector<float> scales(6), biases(6);
  source->read_codes(3, 2, codes.data(), scales.data(), biases.data());
  for (int i = 0; i < 2 * cols; i++)
    ASSERT_EQ(codes[i], (7 * (3 + i / cols) + 3 * (i % cols)) % (1 << bits)) << i;
  EXPECT_EQ(scales[5], 3);
  EXPECT_EQ(biases[5], -2);
  // Packing is the inverse of unpacking.
  std::vector<std::byte> packed(2 * cols * bits / 8);
  pack_codes(bits, codes.data(), 2 * cols, packed.data());
  std::vector<uint8_t> again(2 * cols);
  unpack_codes(bits, packed.data(), 2 * cols, again.data());
  EXPECT_EQ(codes, again);
}

INSTANTIATE_TEST_SUITE_P(All, Quantised,
                         ::testing::Values(std::pair{2, 32}, std::pair{2, 64}, std::pair{3, 32},
                                           std::pair{3, 64}, std::pair{4, 32}, std::pair{4, 128},
                                           std::pair{5, 64}, std::pair{6, 32}, std::pair{6, 128},
                                           std::pair{8, 64}));

TEST(Quantisation, take_dequantises) {
  TempDir dir;
  dir.write("config.json", R"({"quantization":{"group_size":32,"bits":4,"mode":"affine"}})");
  SafetensorsWriter writer;
  add_quantised(writer, "m", 4, 32, 2, 64);
  dir.write("model.safetensors", writer.bytes("mlx"));
  const auto value = open_ok(dir.path())->take("m.weight", {2, 64});
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->data<float>()[64 + 40], ((7 + 3 * 40) % 16) * 2.0f - 1.0f);
}

TEST(Quantisation, what_does_not_agree_is_said) {
  const auto error_with = [](const std::string& config, int bits, int group, bool biases = true) {
    TempDir dir;
    dir.write("config.json", config);
    SafetensorsWriter writer;
    if (biases)
      add_quantised(writer, "m", bits, group, 2, 128);
    else
      writer.add("m.weight", "U32", {1, 4}, std::string(16, 'x')).add("m.scales", "U8", {1, 1}, "x");
    dir.write("model.safetensors", writer.bytes("mlx"));
    return open_error(dir.path());
  };
  const std::string plain = R"({"quantization":{"group_size":64,"bits":4}})";
  EXPECT_EQ(error_with(plain, 4, 64), "");
  EXPECT_HAS(error_with(plain, 8, 64), "\"m.weight\"");
  EXPECT_HAS(error_with(plain, 8, 64), "not of the 4 bits in groups of 64");
  EXPECT_HAS(error_with(plain, 4, 32), "not of the 4 bits");
  EXPECT_HAS(error_with(plain, 4, 64, false), "no biases");
  EXPECT_HAS(error_with("{}", 4, 64), "no \"quantization\"");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":4,"m":false}})", 4, 64),
             "says that it is not");
  EXPECT_EQ(error_with(R"({"quantization":{"group_size":64,"bits":3,"m":{"bits":4}}})", 4, 64), "");
  // Null is MLX's default: 4 bits, groups of 64.
  for (const char* module : {R"({"group_size":null})", R"({"group_size":null,"bits":null,"mode":null})"})
    EXPECT_EQ(
        error_with(std::string(R"({"quantization":{"group_size":32,"bits":4,"m":)") + module + "}}", 4, 64),
        "");
  EXPECT_EQ(error_with(R"({"quantization":{"group_size":null,"bits":4}})", 4, 64), "");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":4,"m":{"group_size":"64"}}})", 4, 64),
             "\"group_size\" is \"64\", which is not a sensible number");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":7}})", 4, 64), "7 bits");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":48,"bits":4}})", 4, 64), "group_size 48");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":"4"}})", 4, 64), "\"bits\"");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":4,"mode":"mxfp4"}})", 4, 64), "mxfp4");
  EXPECT_HAS(error_with(R"({"quantization":{"group_size":64,"bits":4,"m":5}})", 4, 64), "\"m\"");
  EXPECT_HAS(error_with(R"({"quantization":3})", 4, 64), "not an object");
  EXPECT_HAS(error_with(R"({"quantization_config":{"quant_method":"gptq","bits":4}})", 4, 64), "gptq");
}

TEST(ModelName, IsTheLastPartOrTheRepository) {
  EXPECT_EQ(model_name_of("/models/hybrid-146m/"), "hybrid-146m");
  EXPECT_EQ(model_name_of("a/./b/../Model-Q4_0.gguf"), "Model-Q4_0");
  EXPECT_EQ(model_name_of("model.safetensors"), "model.safetensors");
  const std::string store = "/home/x/.cache/huggingface/hub/models--org--name/snapshots/0123";
  EXPECT_EQ(model_name_of(store), "org/name");
  EXPECT_EQ(model_name_of(store + "/"), "org/name");
  EXPECT_EQ(model_name_of(store + "/Model-Q4_0.gguf"), "Model-Q4_0");
  EXPECT_EQ(model_name_of("/x/models--org--name/other/0123"), "0123");
}

}  // namespace
}  // namespace anabranch
