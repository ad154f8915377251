// Models written in the official FP8 layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/float16.h"
#include "base/float8.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

using testing::SafetensorsWriter;
using testing::TempDir;

const std::string kData = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/";

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  float f32(size_t i) const {
    float value;
    std::memcpy(&value, &bytes[i * 4], 4);
    return value;
  }
  float bf16(size_t i) const {
    uint16_t bits;
    std::memcpy(&bits, &bytes[i * 2], 2);
    return bf16_to_float(bits);
  }
  float e4m3(size_t i) const { return e4m3_to_float(static_cast<uint8_t>(bytes[i])); }
};

// The tensors of all safetensors files of a directory, as they are.
std::map<std::string, RawTensor> raw_tensors(const std::string& directory) {
  std::map<std::string, RawTensor> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string file = read_file(entry.path(), 1 << 30).value();
    uint64_t size = 0;
    std::memcpy(&size, file.data(), 8);
    const Json header = parse_json(file.substr(8, size)).value();
    EXPECT_EQ(header["__metadata__"]["format"], "pt");
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const auto begin = tensor["data_offsets"][0].get<size_t>(),
                 end = tensor["data_offsets"][1].get<size_t>();
      out[name] = {tensor["dtype"], tensor["shape"], file.substr(8 + size + begin, end - begin)};
    }
  }
  return out;
}

ConvertOptions fp8_to(const std::string& output) {
  ConvertOptions options;
  options.output = output;
  options.format = ConvertFormat::fp8;
  return options;
}

std::vector<float> random_values(int64_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

constexpr int64_t kRows = 300, kCols = 200;  // 3 x 2 blocks, the last ones cut off

void write_model(const TempDir& dir, const std::string& config, std::vector<float> up) {
  SafetensorsWriter file;
  file.f32("model.layers.0.mlp.up_proj.weight", {kRows, kCols}, up);
  file.f32("model.layers.0.mlp.gate.weight", {4, kCols}, random_values(4 * kCols, 1, 2));
  file.f32("model.embed_tokens.weight", {10, kCols}, random_values(10 * kCols, 1, 3));
  file.f32("model.norm.weight", {kCols}, random_values(kCols, 1, 4));
  for (int e = 0; e < 3; e++)
    for (const char* name : {"gate_proj", "up_proj", "down_proj"})
      file.f32("model.layers.1.mlp.experts." + std::to_string(e) + "." + name + ".weight", {150, 150},
               random_values(150 * 150, 1, static_cast<unsigned>(e)));
  dir.write("model.safetensors", file.bytes());
  dir.write("config.json", config);
}

TEST(Fp8Writer, BlocksHaveScalesAndTheNearestCodes) {
  TempDir dir;
  auto up = random_values(kRows * kCols, 0.02f, 1);
  for (int64_t c = 0; c < kCols; c++) up[c] *= 100;  // rows 0 to 127 in the first blocks only
  for (int64_t r = 128; r < 256; r++)
    for (int64_t c = 128; c < kCols; c++) up[r * kCols + c] = 0;  // a block of zeros
  TempDir in;
  write_model(in, R"({"model_type": "qwen3_moe", "num_experts": 3, "vocab_size": 10})", up);
  const auto report = convert(in.path(), fp8_to(dir.file("out")));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->quantised, 4);  // up_proj, and three stacks of experts
  EXPECT_FALSE(report->error_ratio);
  auto tensors = raw_tensors(dir.file("out"));
  const RawTensor &codes = tensors.at("model.layers.0.mlp.up_proj.weight"),
                  &scales = tensors.at("model.layers.0.mlp.up_proj.weight_scale_inv");
  EXPECT_EQ(codes.dtype, "F8_E4M3");
  EXPECT_EQ(codes.shape, (std::vector<int64_t>{kRows, kCols}));
  EXPECT_EQ(scales.dtype, "F32");
  EXPECT_EQ(scales.shape, (std::vector<int64_t>{3, 2}));
  for (int64_t b = 0; b < 6; b++) {
    float most = 0;
    for (int64_t r = b / 2 * 128; r < std::min(kRows, b / 2 * 128 + 128); r++)
      for (int64_t c = b % 2 * 128; c < std::min(kCols, b % 2 * 128 + 128); c++)
        most = std::max(most, std::fabs(up[r * kCols + c]));
    const float scale = scales.f32(static_cast<size_t>(b));
    EXPECT_EQ(scale, most > 0 ? most / 448 : 1) << b;
    for (int64_t r = b / 2 * 128; r < std::min(kRows, b / 2 * 128 + 128); r++)
      for (int64_t c = b % 2 * 128; c < std::min(kCols, b % 2 * 128 + 128); c++) {
        const int64_t i = r * kCols + c;
        const float value = codes.e4m3(static_cast<size_t>(i)) * scale;
        // Half a step: 2^-4 of a normal number, 2^-10 below 2^-6.
        ASSERT_NEAR(value, up[i], std::max(std::fabs(up[i]) / 16, scale / 1024) * 1.0001f) << i;
      }
  }
  EXPECT_GT(report->relative_error, 1e-5);
  EXPECT_LT(report->relative_error, 1e-3);
}

TEST(Fp8Writer, ExpertsAreMatricesOfTheirOwnAndTheRestStaysBf16) {
  TempDir dir, in;
  write_model(in, R"({"model_type": "qwen3_moe", "num_experts": 3, "tie_word_embeddings": true})",
              random_values(kRows * kCols, 1, 1));
  ASSERT_TRUE(convert(in.path(), fp8_to(dir.file("out"))).ok());
  auto tensors = raw_tensors(dir.file("out"));
  for (int e = 0; e < 3; e++) {
    const std::string name = "model.layers.1.mlp.experts." + std::to_string(e) + ".down_proj.weight";
    const auto source = random_values(150 * 150, 1, static_cast<unsigned>(e));
    const RawTensor &codes = tensors.at(name), &scales = tensors.at(name + "_scale_inv");
    EXPECT_EQ(scales.shape, (std::vector<int64_t>{2, 2}));
    for (const size_t i : {size_t{0}, size_t{149}, size_t{150 * 149}, size_t{150 * 150 - 1}}) {
      const size_t block = i / 150 / 128 * 2 + i % 150 / 128;
      EXPECT_NEAR(codes.e4m3(i) * scales.f32(block), source[i], std::fabs(source[i]) / 15)
          << name << " " << i;
    }
  }
  for (const char* name :
       {"model.layers.0.mlp.gate.weight", "model.embed_tokens.weight", "model.norm.weight"}) {
    EXPECT_EQ(tensors.at(name).dtype, "BF16") << name;
    EXPECT_FALSE(tensors.contains(name + std::string("_scale_inv"))) << name;
  }
  EXPECT_EQ(tensors.size(), 3u + 2 + 2 * 9);
  const Json config = parse_json(read_file(dir.file("out/config.json"), 1 << 20).value()).value();
  EXPECT_EQ(config["architectures"], Json::array({"Qwen3MoeForCausalLM"}));
  const Json expected = {{"quant_method", "fp8"},
                         {"fmt", "e4m3"},
                         {"activation_scheme", "dynamic"},
                         {"weight_block_size", {128, 128}},
                         {"modules_to_not_convert", {"lm_head", "model.layers.0.mlp.gate"}}};
  EXPECT_EQ(config["quantization_config"], expected);
}

// Hybrids: Hugging Face's names, convolutions, norms; small projections and the MTP head in bf16.
TEST(Fp8Writer, HybridsAreTheTextModelOfHuggingFace) {
  for (const char* name : {"qwen35", "qwen35.gguf"}) {
    SCOPED_TRACE(name);
    TempDir dir;
    const auto report = convert(kData + name, fp8_to(dir.file("out")));
    ASSERT_TRUE(report.ok()) << report.error().message;
    auto tensors = raw_tensors(dir.file("out"));
    const auto type = [&](const std::string& tensor) { return tensors.at(tensor).dtype; };
    EXPECT_EQ(type("model.layers.0.linear_attn.in_proj_qkv.weight"), "F8_E4M3");
    EXPECT_EQ(type("model.layers.1.self_attn.q_proj.weight"), "F8_E4M3");
    EXPECT_EQ(type("model.layers.0.linear_attn.in_proj_a.weight"), "BF16");
    EXPECT_EQ(type("model.layers.0.linear_attn.A_log"), "F32");
    EXPECT_EQ(type("mtp.fc.weight"), "BF16");
    EXPECT_EQ(type("mtp.layers.0.self_attn.q_proj.weight"), "BF16");
    EXPECT_EQ(tensors.at("model.layers.0.linear_attn.conv1d.weight").shape,
              (std::vector<int64_t>{256, 1, 4}));
    // Norms hold w, not 1 + w.
    auto source = Checkpoint::open(kData + name).value();
    const auto info = source->find("model.norm.weight").value();
    const auto norm = source->take("model.norm.weight", info.shape).value();
    const float shift = info.norms == NormConvention::plain ? 1 : 0;
    for (int64_t i = 0; i < norm.size(); i++)
      ASSERT_EQ(tensors.at("model.norm.weight").bf16(static_cast<size_t>(i)),
                bf16_to_float(float_to_bf16(norm.data<float>()[i] - shift)));
    const Json config = parse_json(read_file(dir.file("out/config.json"), 1 << 20).value()).value();
    EXPECT_EQ(config["model_type"], "qwen3_5_text");
    EXPECT_FALSE(config.contains("text_config"));
    const Json& dense = config["quantization_config"]["modules_to_not_convert"];
    for (const char* module : {"lm_head", "mtp.fc", "model.layers.0.linear_attn.in_proj_a"})
      EXPECT_NE(std::ranges::find(dense, Json(module)), dense.end()) << module;
    EXPECT_EQ(std::ranges::find(dense, Json("model.layers.1.self_attn.q_proj")), dense.end());
  }
}

TEST(Fp8Writer, RulesKeepMatricesInBf16) {
  TempDir dir;
  ConvertOptions options = fp8_to(dir.file("out"));
  options.rules = {{"*.q_proj", parse_target("bf16").value()}, {"mtp.fc", parse_target("fp8").value()}};
  EXPECT_EQ(recipe_json(options)["default"], Json({{"dtype", "fp8"}}));
  ASSERT_TRUE(convert(kData + "qwen35", options).ok());
  auto tensors = raw_tensors(dir.file("out"));
  EXPECT_EQ(tensors.at("model.layers.1.self_attn.q_proj.weight").dtype, "BF16");
  EXPECT_EQ(tensors.at("model.layers.1.self_attn.k_proj.weight").dtype, "F8_E4M3");
  EXPECT_EQ(tensors.at("mtp.fc.weight").dtype, "F8_E4M3");
}

TEST(Fp8Writer, WhatCannotBeWrittenIsRefused) {
  TempDir dir, in;
  const auto error = [&](const std::string& source, const ConvertOptions& options) {
    const auto report = convert(source, options);
    EXPECT_FALSE(std::filesystem::exists(options.output));
    return report.ok() ? "" : report.error().message;
  };
  ConvertOptions options = fp8_to(dir.file("out"));
  options.rules = {{"*.q_proj", parse_target("4/64").value()}};
  EXPECT_HAS(error(kData + "qwen35", options), "\"fp8\" or \"bf16\"");
  options.rules = {{"*.q_proj", parse_target("keep").value()}};
  EXPECT_HAS(error(kData + "qwen35", options), "\"fp8\" or \"bf16\"");
  options.rules.clear();
  options.fallback = parse_target("4/64").value();
  EXPECT_HAS(error(kData + "qwen35", options), "\"fp8\" or \"bf16\"");
  options = fp8_to(dir.file("out"));
  options.format = ConvertFormat::mlx;
  options.fallback = parse_target("fp8").value();
  EXPECT_HAS(error(kData + "qwen35", options), "--format fp8");
  options = fp8_to(dir.file("out"));
  write_model(in, R"({"model_type": "mixtral"})", random_values(kRows * kCols, 1, 1));
  EXPECT_HAS(error(in.path(), options), "models of type \"mixtral\"");
  write_model(in, R"({"text_config": 3})", random_values(kRows * kCols, 1, 1));
  EXPECT_HAS(error(in.path(), options), "\"text_config\" is not an object");
  TempDir empty;
  empty.write("config.json", R"({"model_type": "llama"})");
  empty.write("model.safetensors",
              SafetensorsWriter().f32("model.layers.0.mlp.up_proj.weight", {4, 0}, {}).bytes());
  EXPECT_HAS(error(empty.path(), options), "up_proj.weight\" has no elements");
  auto bad = random_values(kRows * kCols, 1, 1);
  bad[kRows * kCols - 1] = NAN;
  write_model(in, R"({"model_type": "qwen3_moe"})", bad);
  EXPECT_HAS(error(in.path(), options), "up_proj.weight\" has values that are not finite");
  write_model(in, R"({"model_type": "qwen3_moe"})", random_values(kRows * kCols, 1, 1));
  options.rules = {{"*.switch_mlp.*", parse_target("bf16").value()}};
  EXPECT_HAS(error(in.path(), options), "can only be written as FP8");
}

}  // namespace
}  // namespace anabranch
