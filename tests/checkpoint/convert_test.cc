#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/float16.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dense.h"
#include "checkpoint/quantize.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

const std::string kData = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/";

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

ConvertOptions to(const std::string& output, const char* target) {
  ConvertOptions options;
  options.output = output;
  options.fallback = parse_target(target).value();
  return options;
}

std::string error_of(const std::string& source, const ConvertOptions& options) {
  const auto report = convert(source, options);
  return report.ok() ? "" : report.error().message;
}

struct Tensor {
  TensorInfo info;
  std::vector<float> values;
};

std::map<std::string, Tensor> read_all(const std::string& path) {
  std::map<std::string, Tensor> out;
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return out;
  for (const TensorInfo& info : (*checkpoint)->tensors()) {
    const auto value = (*checkpoint)->take(info.name, info.shape);
    EXPECT_TRUE(value.ok()) << value.error().message;
    out[info.name] = {info, {value->data<float>(), value->data<float>() + value->size()}};
  }
  return out;
}

// What the source's values are in the converted file's convention, before rounding.
float shift_of(const Tensor& source, const Tensor& result) {
  const std::string& name = source.info.name;
  const bool shifted =
      name.find("norm") != std::string::npos && name.find("linear_attn") == std::string::npos;
  return shifted && source.info.norms != result.info.norms ? 1.0f : 0.0f;
}

std::map<std::string, std::string> files_of(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (const auto& file : fs::directory_iterator(directory))
    out[file.path().filename()] = read_file(file.path(), 1 << 30).value();
  return out;
}

TEST(Convert, dense_round_trip_keeps_every_value) {
  for (const char* name : {"qwen35", "qwen35.gguf", "llama"}) {
    TempDir dir;
    const auto report = convert(kData + name, to(dir.file("out"), "bf16"));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->quantised, 0);
    const auto before = read_all(kData + name), after = read_all(dir.file("out"));
    ASSERT_EQ(before.size(), after.size());
    EXPECT_EQ(report->tensors, static_cast<int>(after.size()));
    for (const auto& [key, source] : before) {
      const Tensor& result = after.at(key);
      EXPECT_EQ(result.info.norms, NormConvention::plain);
      const float shift = std::string(name) == "llama" ? 0 : shift_of(source, result);
      const bool f32 = key.ends_with("A_log");
      EXPECT_EQ(result.info.type, f32 ? "F32" : "BF16");
      for (size_t i = 0; i < source.values.size(); i++) {
        const float value = source.values[i] + shift;
        ASSERT_EQ(result.values[i], f32 ? value : bf16_to_float(float_to_bf16(value))) << key;
      }
    }
  }
}

TEST(Convert, mlx_names_shapes_and_config) {
  TempDir dir;
  ConvertOptions options = to(dir.file("out"), "4/32");
  options.rules = {{"*.self_attn.?_proj", parse_target("6/32").value()},
                   {"lm_head", parse_target("bf16").value()}};
  EXPECT_HAS(error_of(kData + "qwen35", options), "\"lm_head\" decides about no matrix");  // tied
  EXPECT_FALSE(fs::exists(dir.file("out")));
  options.rules.pop_back();
  const auto report = convert(kData + "qwen35", options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  auto c = Checkpoint::open(dir.file("out")).value();
  EXPECT_EQ(c->find("model.embed_tokens.weight")->type, "affine-4/32");
  EXPECT_EQ(c->find("model.layers.1.self_attn.q_proj.weight")->type, "affine-6/32");
  EXPECT_EQ(c->find("model.layers.0.mlp.down_proj.weight")->type, "BF16");  // 48 columns
  EXPECT_EQ(c->find("mtp.layers.0.self_attn.q_proj.weight")->type, "affine-6/32");
  EXPECT_EQ(c->find("mtp.fc.weight")->type, "BF16");
  EXPECT_EQ(c->find("model.layers.0.linear_attn.conv1d.weight")->shape, (std::vector<int64_t>{256, 4, 1}));
  EXPECT_EQ(report->warnings.size(), 3u);  // two down_proj (mtp's is dense anyway), no tokenizer
  const Json& q = c->config()["quantization"];
  EXPECT_EQ(q["bits"], 4);
  EXPECT_EQ(q["language_model.model.layers.1.self_attn.q_proj"]["bits"], 6);
  EXPECT_EQ(q["mtp.layers.0.self_attn.o_proj"]["group_size"], 32);
  EXPECT_EQ(q, c->config()["quantization_config"]);
  EXPECT_TRUE(fs::exists(dir.file("out/mtp.safetensors")));
}

TEST(Convert, quantised_values_stay_within_the_step) {
  for (const char* target : {"2/32", "3/32", "4/32", "5/32", "6/32", "8/32"}) {
    TempDir dir;
    const auto report = convert(kData + "qwen35", to(dir.file("out"), target));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_LE(report->error_ratio, 1.0);
    EXPECT_GT(report->relative_error, 0);
    const float top = static_cast<float>((1 << (target[0] - '0')) - 1);
    const auto before = read_all(kData + "qwen35"), after = read_all(dir.file("out"));
    int checked = 0;
    for (const auto& [key, result] : after) {
      if (!result.info.type.starts_with("affine")) continue;
      checked++;
      const auto& source = before.at(key).values;
      for (size_t at = 0; at < source.size(); at += 32) {
        const auto [low, high] = std::minmax_element(source.begin() + at, source.begin() + at + 32);
        const float step = (*high - *low) / top;
        for (size_t i = at; i < at + 32; i++)  // clipped ends may lie a little farther off
          ASSERT_NEAR(result.values[i], source[i], 1.5f * step) << target << " " << key;
      }
    }
    EXPECT_EQ(checked, report->quantised);
  }
}

TEST(Convert, kept_codes_are_the_same_and_so_are_all_bytes) {
  TempDir dir;
  ASSERT_TRUE(convert(kData + "qwen35", to(dir.file("a"), "3/32")).ok());
  const auto report = convert(dir.file("a"), to(dir.file("b"), "keep"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->error_ratio, 1.0);
  ASSERT_TRUE(convert(kData + "qwen35", to(dir.file("c"), "3/32")).ok());
  EXPECT_EQ(files_of(dir.file("a")), files_of(dir.file("b")));
  EXPECT_EQ(files_of(dir.file("a")), files_of(dir.file("c")));
}

TEST(Convert, gguf_types_can_be_kept) {
  TempDir dir;
  ConvertOptions options = to(dir.file("out"), "bf16");
  options.rules = {{"*.out_proj", parse_target("keep").value()}};
  ASSERT_TRUE(convert(kData + "qwen35.gguf", options).ok());
  const auto before = read_all(kData + "qwen35.gguf"), after = read_all(dir.file("out"));
  const std::string name = "model.layers.0.linear_attn.out_proj.weight";
  EXPECT_EQ(after.at(name).info.type, "affine-8/32");
  EXPECT_EQ(after.at(name).values, before.at(name).values);
}

TEST(Convert, shards_stay_below_the_limit) {
  TempDir dir;
  ConvertOptions options = to(dir.file("out"), "bf16");
  options.max_shard_bytes = 40'000;
  const auto report = convert(kData + "qwen35", options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  int files = 0;
  uint64_t bytes = 0;
  for (const auto& [name, content] : files_of(dir.file("out"))) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_LE(content.size(), options.max_shard_bytes) << name;
    bytes += content.size();
    files++;
  }
  EXPECT_GT(files, 2);
  EXPECT_EQ(files, report->files);
  EXPECT_EQ(bytes, report->bytes);
  EXPECT_EQ(read_all(dir.file("out")).size(), static_cast<size_t>(report->tensors));
}

TEST(Convert, output_is_replaced_only_when_told) {
  TempDir dir;
  ConvertOptions options = to(dir.file("out"), "bf16");
  ASSERT_EQ(error_of(kData + "llama", options), "");
  EXPECT_HAS(error_of(kData + "llama", options), "exists already");
  options.force = true;
  dir.write("out/stale.txt", "x");
  ASSERT_EQ(error_of(kData + "llama", options), "");
  EXPECT_FALSE(fs::exists(dir.file("out/stale.txt")));
  fs::create_directory(dir.file("home"));
  dir.write("home/letter.txt", "dear");
  options.output = dir.file("home");
  EXPECT_HAS(error_of(kData + "llama", options), "not a model directory");
  options.output = dir.file("out");
  EXPECT_HAS(error_of(dir.file("out"), options), "the source itself");
  EXPECT_HAS(error_of(dir.file("out/model.safetensors"), options), "the source itself");
  fs::create_directory(dir.file("out/notes"));  // not ours to remove
  EXPECT_HAS(error_of(kData + "llama", options), "not a model directory");
  fs::remove(dir.file("out/notes"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 2);  // nothing half-made is left
}

TEST(Convert, tokenizer_is_copied_and_its_absence_told) {
  TempDir dir;
  fs::copy(kData + "llama", dir.file("in"));
  auto report = convert(dir.file("in"), to(dir.file("out1"), "bf16"));
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_HAS(report->warnings[0], "tokenizer.json");
  dir.write("in/tokenizer.json", "{}");
  dir.write("in/chat_template.jinja", "hi");
  report = convert(dir.file("in"), to(dir.file("out2"), "bf16"));
  EXPECT_TRUE(report->warnings.empty());
  EXPECT_EQ(files_of(dir.file("out2")).at("chat_template.jinja"), "hi");
  fs::remove(dir.file("in/tokenizer.json"));
  dir.write("in/tekken.json", "{}");  // Mistral's vocabulary
  report = convert(dir.file("in"), to(dir.file("out3"), "bf16"));
  EXPECT_TRUE(report->warnings.empty());
  EXPECT_TRUE(files_of(dir.file("out3")).contains("tekken.json"));
}

TEST(Convert, what_cannot_be_done_is_said) {
  TempDir dir;
  const ConvertOptions options = to(dir.file("out"), "4/32");
  dir.write("config.json", R"({"model_type":"t5gemma"})");
  dir.write("model.safetensors", SafetensorsWriter().f32("model.norm.weight", {1}, {1}).bytes());
  EXPECT_HAS(error_of(dir.path(), options), "\"t5gemma\"");
  dir.write("config.json", R"({"model_type":"llama"})");
  dir.write("model.safetensors", SafetensorsWriter().f32("strange", {1}, {1}).bytes());
  EXPECT_HAS(error_of(dir.path(), options), "\"strange\" has no place");
  std::vector<float> values(32);
  values[7] = NAN;
  dir.write("model.safetensors", SafetensorsWriter().f32("model.a.weight", {1, 32}, values).bytes());
  EXPECT_HAS(error_of(dir.path(), options), "not finite");
  values[7] = 1e9f;
  dir.write("model.safetensors", SafetensorsWriter().f32("model.a.weight", {1, 32}, values).bytes());
  EXPECT_HAS(error_of(dir.path(), to(dir.file("out"), "f16")), "cannot hold");
  ConvertOptions half = options;
  half.dense = TargetKind::f16;
  values[7] = 1e9f;
  dir.write("model.safetensors", SafetensorsWriter().f32("model.a.weight", {1, 32}, values).bytes());
  EXPECT_NE(error_of(dir.path(), half), "");
  values[7] = 0;
  dir.write(
      "model.safetensors",
      SafetensorsWriter().f32("model.a.weight", {1, 32}, values).f32("model.a.scales", {1}, {1}).bytes());
  EXPECT_HAS(error_of(dir.path(), options), "both be written as \"model.a.scales\"");
  dir.write("model.safetensors", SafetensorsWriter().f32("model.a.weight", {1, 32}, values).bytes());
  dir.write("config.json", R"({"model_type":"qwen3_5","text_config":5})");
  EXPECT_HAS(error_of(dir.path(), options), "\"text_config\" is not an object");
  dir.write("config.json", R"({"model_type":"llama"})");
  ConvertOptions ruled = options;
  ruled.rules = {{"model.a", parse_target("4/64").value()}};
  EXPECT_HAS(error_of(dir.path(), ruled), "32 columns");
  EXPECT_FALSE(fs::exists(dir.file("out")));
}

// Larger than the block of rows that is converted at a time.
TEST(Convert, large_matrices_and_experts_are_whole) {
  constexpr int64_t kRows = 2500, kCols = 512, kExperts = 2;
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(kRows * kCols);
  for (float& v : values) v = uniform(random);
  TempDir dir;
  dir.write("config.json", R"({"model_type":"qwen3_moe"})");
  SafetensorsWriter file;
  file.f32("model.a.weight", {kRows, kCols}, values);
  file.f32("model.layers.0.mlp.switch_mlp.up_proj.weight", {kExperts, kRows / kExperts, kCols}, values);
  dir.write("model.safetensors", file.bytes());
  for (const char* target : {"bf16", "8/64"}) {
    ConvertOptions options = to(dir.file("out"), target);
    options.output = dir.file(target[0] == 'b' ? "dense" : "quantised");
    ASSERT_EQ(error_of(dir.path(), options), "");
    for (const auto& [key, result] : read_all(options.output))
      for (size_t i = 0; i < values.size(); i++)
        ASSERT_NEAR(result.values[i], values[i], 0.01f)
            << key << " " << i;  // half a step of 2 / 255, and the rounding of the bias
  }
}

// Expert 0 is calibrated, expert 1 is not, and neither is a matrix of another width.
TEST(Convert, importance_is_by_expert) {
  constexpr int64_t kRows = 64, kCols = 64, kExperts = 2;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(kExperts * kRows * kCols);
  for (float& v : values) v = normal(random);
  TempDir dir;
  dir.write("config.json", R"({"model_type":"qwen3_moe"})");
  const std::string name = "model.layers.0.mlp.switch_mlp.up_proj.weight";
  dir.write("model.safetensors", SafetensorsWriter()
                                     .f32(name, {kExperts, kRows, kCols}, values)
                                     .f32("model.a.weight", {kExperts * kRows, kCols}, values)
                                     .bytes());
  ConvertOptions plain = to(dir.file("plain"), "3/64"), calibrated = to(dir.file("calibrated"), "3/64");
  std::vector<float> means(kCols, 0.1f);
  for (int i = 0; i < 4; i++) means[i] = 10;
  int calls = 0;
  calibrated.calibrate = [&]() -> Result<Importance> {
    if (calls++ == 0) return make_error(ErrorKind::invalid, "no text");
    return Importance{{name, {means, {}}}, {"model.a.weight", {{1, 2, 3}}}};
  };
  EXPECT_HAS(error_of(dir.path(), calibrated), "no text");
  EXPECT_FALSE(fs::exists(calibrated.output));
  ConvertOptions wrong = calibrated;
  wrong.output = dir.path();
  EXPECT_HAS(error_of(dir.path(), wrong), "holds the source");
  EXPECT_EQ(calls, 1);  // other errors come first
  ASSERT_EQ(error_of(dir.path(), plain), "");
  const auto report = convert(dir.path(), calibrated);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->quantised, 2);
  EXPECT_EQ(report->calibrated, 1);
  const auto without = read_all(plain.output), with = read_all(calibrated.output);
  EXPECT_EQ(with.at("model.a.weight").values, without.at("model.a.weight").values);
  const auto &a = without.at(name).values, &b = with.at(name).values;
  EXPECT_TRUE(std::equal(a.begin() + kRows * kCols, a.end(), b.begin() + kRows * kCols));
  double before = 0, after = 0;
  for (int64_t r = 0; r < kRows; r++)
    for (int64_t c = 0; c < 4; c++) {
      const size_t at = static_cast<size_t>(r * kCols + c);
      before += std::pow(a[at] - values[at], 2);
      after += std::pow(b[at] - values[at], 2);
    }
  EXPECT_LT(after, 0.5 * before);
}

TEST(Convert, empty_matrices_stay_dense) {
  TempDir dir;
  dir.write("config.json", R"({"model_type":"llama"})");
  dir.write("model.safetensors", SafetensorsWriter().f32("model.a.weight", {4, 0}, {}).bytes());
  EXPECT_EQ(error_of(dir.path(), to(dir.file("out"), "4/32")), "");
}

TEST(Recipe, targets_rules_and_globs) {
  EXPECT_EQ(parse_target("6")->format, (AffineFormat{6, 64}));
  EXPECT_EQ(parse_target("2/128")->format, (AffineFormat{2, 128}));
  EXPECT_EQ(parse_target("keep")->kind, TargetKind::keep);
  for (const char* bad : {"", "7", "4/", "4/48", "/64", "4/64x", "fp9", "-4", "4/16", "99999999999999999999"})
    EXPECT_FALSE(parse_target(bad).ok()) << bad;

  ConvertOptions options;
  const auto good = parse_recipe(R"({"default":{"bits":5},"rules":[{"match":"mtp.*","dtype":"bf16"},
      {"match":"*.down_proj","bits":6,"group":32}]})",
                                 "r.json", options);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(options.fallback->format, (AffineFormat{5, 64}));
  ASSERT_EQ(options.rules.size(), 2u);
  EXPECT_EQ(options.rules[1].target.format, (AffineFormat{6, 32}));
  ConvertOptions again;
  ASSERT_TRUE(parse_recipe(recipe_json(options).dump(), "again.json", again).ok());
  EXPECT_EQ(recipe_json(again), recipe_json(options));
  EXPECT_EQ(again.rules[0].target.kind, TargetKind::bf16);
  for (const char* bad :
       {"", "[]", "{}", R"({"rules":{}})", R"({"rules":[1]})", R"({"rules":[{"match":"a"}]})",
        R"({"rules":[{"bits":4}]})", R"({"rules":[{"match":"a","bits":4,"dtype":"bf16"}]})",
        R"({"rules":[{"match":"a","bits":"4"}]})", R"({"rules":[{"match":"a","dtype":"f8"}]})",
        R"({"rules":[{"match":"a","bits":4,"grup":32}]})", R"({"rules":[{"match":1,"bits":4}]})",
        R"({"rules":[],"default":4})"}) {
    ConvertOptions ignored;
    const auto result = parse_recipe(bad, "r.json", ignored);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_HAS(result.error().message, "r.json");
  }

  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("model.*.q_proj", "model.layers.1.self_attn.q_proj"));
  EXPECT_TRUE(glob_matches("*a*b", "xxabab"));
  EXPECT_TRUE(glob_matches("layers.?.x", "layers.3.x"));
  EXPECT_FALSE(glob_matches("layers.?.x", "layers.13.x"));
  EXPECT_FALSE(glob_matches("*a*b", "xxaba"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a", "ab"));
}

TEST(Quantize, beats_min_max_on_every_group) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.01f, 0.05f);
  for (int bits : {2, 3, 4, 5, 6, 8})
    for (int group : {32, 64, 128}) {
      QuantizeStats total;
      for (int trial = 0; trial < 200; trial++) {
        std::vector<float> w(group);
        for (float& v : w) v = normal(random);
        std::vector<uint8_t> codes(group);
        uint16_t scale, bias;
        QuantizeStats stats;
        quantize_row(w.data(), nullptr, group, {bits, group}, false, codes.data(), &scale, &bias, stats);
        EXPECT_LE(stats.error, 1.00001 * stats.minmax_error);  // sums in another order
        double error = 0;
        for (int i = 0; i < group; i++) {
          ASSERT_LT(codes[i], 1 << bits);
          const double e = w[i] - (codes[i] * bf16_to_float(scale) + bf16_to_float(bias));
          error += e * e;
        }
        EXPECT_NEAR(error, stats.error, 1e-4 * error);  // the reported error is the true one
        total.error += stats.error;
        total.minmax_error += stats.minmax_error;
      }
      EXPECT_LT(total.error, (bits <= 4 ? 0.9 : 0.97) * total.minmax_error) << bits << "/" << group;
    }
}

TEST(Quantize, importance_lowers_the_weighted_error) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  for (int bits : {2, 3, 4, 6}) {
    double plain = 0, weighted = 0;
    for (int trial = 0; trial < 100; trial++) {
      std::vector<float> w(64), h(64);
      for (int i = 0; i < 64; i++) {
        w[i] = normal(random);
        h[i] = std::exp(2 * normal(random));
      }
      const auto error = [&](const float* importance) {
        std::vector<uint8_t> codes(64);
        uint16_t scale, bias;
        QuantizeStats stats;
        quantize_row(w.data(), importance, 64, {bits, 64}, false, codes.data(), &scale, &bias, stats);
        double sum = 0;
        for (int i = 0; i < 64; i++) {
          const double e = w[i] - (codes[i] * bf16_to_float(scale) + bf16_to_float(bias));
          sum += h[i] * e * e;
        }
        if (importance) {
          EXPECT_NEAR(sum, stats.error, 1e-4 * sum);
        }
        return sum;
      };
      plain += error(nullptr);
      weighted += error(h.data());
    }
    EXPECT_LT(weighted, 0.9 * plain) << bits;
  }
}

TEST(Quantize, odd_groups) {
  const auto error = [](float fill, float first) {
    std::vector<float> w(32, fill);
    w[0] = first;
    std::vector<uint8_t> codes(32);
    uint16_t scale, bias;
    QuantizeStats stats;
    quantize_row(w.data(), nullptr, 32, {4, 32}, false, codes.data(), &scale, &bias, stats);
    EXPECT_TRUE(stats.finite);
    EXPECT_TRUE(std::isfinite(bf16_to_float(scale)) && std::isfinite(bf16_to_float(bias)));
    return stats.error / (stats.energy > 0 ? stats.energy : 1);
  };
  EXPECT_EQ(error(0, 0), 0);
  EXPECT_EQ(error(1, 1), 0);
  EXPECT_LT(error(0, 1), 1e-4);  // 15 times a scale of 8 bits
  EXPECT_LT(error(1e-30f, 2e-30f), 1e-2);
  EXPECT_LT(error(1e-6f, -3e15f), 1e-3);
}

}  // namespace
}  // namespace anabranch
