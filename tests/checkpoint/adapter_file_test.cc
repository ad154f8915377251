// LoRA adapters as PEFT and MLX write them.
#include "checkpoint/adapter_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/float16.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr const char* kPeft = "adapter_model.safetensors";
constexpr const char* kMlx = "adapters.safetensors";
constexpr const char* kConfig = "adapter_config.json";
const std::string kQ = "base_model.model.model.layers.0.self_attn.q_proj";
const std::string kUpProj = "base_model.model.model.layers.0.mlp.up_proj";

// [rank, in] and [out, rank] of a module with 3 inputs and 2 outputs.
const std::vector<float> kA = {1, 2, 3, 4, 5, 6};
const std::vector<float> kB = {1, -2, 0.5, 4};

SafetensorsWriter& add_pair(SafetensorsWriter& writer, const std::string& module,
                            const std::string& ending = ".weight") {
  writer.f32(module + ".lora_A" + ending, {2, 3}, kA);
  return writer.f32(module + ".lora_B" + ending, {2, 2}, kB);
}

std::string peft_tensors(const std::string& module = kQ, const std::string& ending = ".weight") {
  SafetensorsWriter writer;
  return add_pair(writer, module, ending).bytes();
}

// more: further settings, each after a comma.
std::string peft_config(const std::string& more = "", const std::string& r = "2") {
  return R"({"peft_type": "LORA", "lora_alpha": 4, "r": )" + r + more + "}";
}

Result<AdapterFile> read_peft(const std::string& config, const std::string& tensors) {
  TempDir dir;
  dir.write(kConfig, config);
  dir.write(kPeft, tensors);
  return read_adapter(dir.path());
}

Error error_of(const Result<AdapterFile>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error() : result.error();
}
std::string peft_error(const std::string& config, const std::string& tensors) {
  return error_of(read_peft(config, tensors)).message;
}

std::vector<float> values(const Tensor& x) {
  return {x.data<float>(), x.data<float>() + x.size()};
}
std::vector<float> times(std::vector<float> x, float factor) {
  for (float& value : x) value *= factor;
  return x;
}
std::vector<std::string> names(const AdapterFile& file) {
  std::vector<std::string> out;
  for (const auto& [name, matrices] : file.modules) out.push_back(name);
  return out;
}

TEST(AdapterFile, peft) {
  TempDir dir;
  dir.write(kConfig, peft_config(R"(, "base_model_name_or_path": "org/base", "bias": "none")"));
  dir.write(kPeft, peft_tensors());
  const auto file = read_adapter(dir.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->path, dir.path());
  EXPECT_EQ(file->base, "org/base");
  EXPECT_EQ(file->bytes, 40u);
  ASSERT_EQ(names(*file), std::vector<std::string>{"model.layers.0.self_attn.q_proj"});
  const LowRankMatrices& q = file->modules.begin()->second;
  EXPECT_EQ(q.down.shape(), (Shape{2, 3}));
  EXPECT_EQ(q.up.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(q.down), kA);
  EXPECT_EQ(values(q.up), times(kB, 2));  // alpha 4, rank 2
}

TEST(AdapterFile, names_are_folded) {
  struct Case {
    std::string in_file, module;
  };
  for (const auto& [in_file, module] :
       {Case{"model.layers.3.mlp.up_proj", "model.layers.3.mlp.up_proj"},
        Case{"base_model.model.layers.3.mlp.up_proj", "model.layers.3.mlp.up_proj"},
        Case{"base_model.model.model.language_model.layers.3.mlp.up_proj", "model.layers.3.mlp.up_proj"},
        Case{"base_model.model.language_model.model.layers.3.mlp.up_proj", "model.layers.3.mlp.up_proj"},
        Case{"base_model.model.lm_head", "lm_head"}})
    for (const char* ending : {".weight", ".default.weight"}) {
      const auto file = read_peft(peft_config(), peft_tensors(in_file, ending));
      ASSERT_TRUE(file.ok()) << file.error().message;
      EXPECT_EQ(names(*file), std::vector<std::string>{module}) << in_file;
    }
  SafetensorsWriter embedding;
  embedding.f32("base_model.model.model.embed_tokens.lora_embedding_A", {2, 3}, kA)
      .f32("base_model.model.model.embed_tokens.lora_embedding_B", {2, 2}, kB);
  const auto file = read_peft(peft_config(), embedding.bytes());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(names(*file), std::vector<std::string>{"model.embed_tokens"});
  EXPECT_EQ(values(file->modules.begin()->second.down), kA);

  EXPECT_HAS(peft_error(peft_config(), peft_tensors("base_model.model.model.visual.blocks.0.attn.qkv")),
             "a module for images or sound");
  SafetensorsWriter twice;
  add_pair(add_pair(twice, kQ), "base_model.model.model.language_model.layers.0.self_attn.q_proj");
  EXPECT_HAS(peft_error(peft_config(), twice.bytes()), "is the same matrix of module");
}

TEST(AdapterFile, scale) {
  SafetensorsWriter two;
  const std::string tensors = add_pair(add_pair(two, kQ), kUpProj).bytes();
  struct Case {
    std::string more;
    float q, up;
  };
  const float root = 4 / std::sqrt(2.0f);
  for (const auto& [more, q, up] : {
           Case{"", 2, 2},
           Case{R"(, "use_rslora": false)", 2, 2},
           Case{R"(, "alpha_pattern": {"q_proj": 6})", 3, 2},
           Case{R"(, "alpha_pattern": {"layers.0.self_attn.q_proj": 6, "up_proj": 8, "mlp.up_proj": 2})", 3,
                4},
           Case{R"(, "alpha_pattern": {"model.layers.0.mlp.up_proj": -1})", 2, -0.5},
           Case{R"(, "alpha_pattern": {"_proj": 6, "proj": 6, "q_pro": 6, "x.q_proj": 6})", 2, 2},
           Case{R"(, "alpha_pattern": {"^layers.0.self_attn.q_proj": 6, "^q_proj": 6, "q_proj": 8})", 4, 2},
           Case{R"(, "alpha_pattern": {"^model.layers.0.self_attn.q_proj": 6, "q_proj": 8})", 3, 2},
           Case{R"(, "alpha_pattern": {"q_proj": 8, "^model.layers.0.self_attn.q_proj": 6})", 4, 2},
           Case{R"(, "alpha_pattern": {})", 2, 2},
           Case{R"(, "alpha_pattern": null)", 2, 2},
       }) {
    const auto file = read_peft(peft_config(more), tensors);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(values(file->modules.at("model.layers.0.self_attn.q_proj").up), times(kB, q)) << more;
    EXPECT_EQ(values(file->modules.at("model.layers.0.mlp.up_proj").up), times(kB, up)) << more;
  }
  const auto file = read_peft(peft_config(R"(, "use_rslora": true)"), tensors);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto up = values(file->modules.at("model.layers.0.mlp.up_proj").up);
  for (size_t i = 0; i < kB.size(); i++) EXPECT_NEAR(up[i], kB[i] * root, 2e-7f * std::abs(kB[i] * root));
}

TEST(AdapterFile, rank_agrees_with_the_config) {
  EXPECT_HAS(peft_error(peft_config("", "3"), peft_tensors()),
             "has rank 2, but adapter_config.json states 3");
  EXPECT_TRUE(read_peft(peft_config(R"(, "rank_pattern": {"q_proj": 2})", "3"), peft_tensors()).ok());
  EXPECT_HAS(peft_error(peft_config(R"(, "rank_pattern": {"q_proj": 3})"), peft_tensors()), "states 3");
  EXPECT_TRUE(read_peft(peft_config(R"(, "rank_pattern": {"k_proj": 3})"), peft_tensors()).ok());
  for (const char* key : {"layers.[0-3].q_proj", "(q|k)_proj", "a*", "a^b", "^", ""}) {
    EXPECT_HAS(peft_error(peft_config(fmt::format(R"(, "alpha_pattern": {{"{}": 2}})", key)), peft_tensors()),
               "is a regular expression");
    const auto file =
        read_peft(peft_config(fmt::format(R"(, "rank_pattern": {{"{}": 2}})", key), "7"), peft_tensors());
    ASSERT_TRUE(file.ok()) << "the matrices tell the ranks: " << file.error().message;
    EXPECT_EQ(values(file->modules.at("model.layers.0.self_attn.q_proj").up), times(kB, 2))
        << "4 / 2, not 4 / 7";
  }
  EXPECT_HAS(
      peft_error(peft_config(R"(, "rank_pattern": {"^model.layers.0.self_attn.q_proj": 3})"), peft_tensors()),
      "states 3");
  EXPECT_HAS(peft_error(peft_config(R"(, "rank_pattern": {"q_proj": 0})"), peft_tensors()),
             "\"rank_pattern.q_proj\" is missing or not a rank");
  EXPECT_HAS(peft_error(peft_config(R"(, "alpha_pattern": {"q_proj": "4"})"), peft_tensors()),
             "\"alpha_pattern.q_proj\" is missing or not a number");
  EXPECT_HAS(peft_error(peft_config(R"(, "alpha_pattern": [4])"), peft_tensors()), "not an object");

  SafetensorsWriter uneven;
  uneven.f32(kQ + ".lora_A.weight", {2, 3}, kA).f32(kQ + ".lora_B.weight", {4, 1}, kB);
  TempDir dir;  // MLX's config need not state a rank
  SafetensorsWriter mlx;
  mlx.f32("model.layers.0.mlp.up_proj.lora_a", {3, 2}, kA)
      .f32("model.layers.0.mlp.up_proj.lora_b", {1, 4}, kB);
  dir.write(kConfig, R"({"lora_parameters": {"scale": 1}})");
  dir.write(kMlx, mlx.bytes());
  EXPECT_HAS(error_of(read_adapter(dir.path())).message, "its rank is 1, but 2 in");
  EXPECT_HAS(peft_error(peft_config(), uneven.bytes()), "has rank 1, but adapter_config.json states 2");
}

TEST(AdapterFile, settings_that_matrices_cannot_state) {
  struct Case {
    const char *setting, *on, *off;
  };
  for (const auto& [setting, on, off] : {
           Case{"use_dora", "true", "false"},
           Case{"fan_in_fan_out", "true", "false"},
           Case{"lora_bias", "true", "false"},
           Case{"modules_to_save", R"(["lm_head"])", "[]"},
           Case{"target_parameters", R"(["mlp.experts.gate_up_proj"])", "null"},
           Case{"trainable_token_indices", "[1]", "null"},
           Case{"layer_replication", "[[0, 1]]", "null"},
           Case{"alora_invocation_tokens", "[7]", "null"},
           Case{"use_qalora", "true", "false"},
           Case{"arrow_config", R"({"top_k": 2})", "null"},
           Case{"init_lora_weights", R"("pissa_niter_16")", R"("gaussian")"},
           Case{"kasa_config", R"({"beta": 1})", "null"},
           Case{"monteclora_config", R"({"num_samples": 1})", "null"},
           Case{"use_bdlora", R"({"nblocks": 2})", "null"},
           Case{"init_lora_weights", R"("olora")", "true"},
           Case{"init_lora_weights", R"("loftq")", "false"},
       }) {
    const auto with = [&](const char* value) {
      return read_peft(peft_config(fmt::format(R"(, "{}": {})", setting, value)), peft_tensors());
    };
    EXPECT_TRUE(with(off).ok()) << setting;
    const Error error = error_of(with(on));
    EXPECT_EQ(error.kind, ErrorKind::unsupported) << setting;
    EXPECT_HAS(error.message, fmt::format("\"{}\" is ", setting));
    EXPECT_HAS(error.message, "merge the adapter into its model");
  }
  for (const char* type : {"IA3", "LOHA", "ADALORA"})
    EXPECT_HAS(
        peft_error(fmt::format(R"({{"peft_type": "{}", "r": 2, "lora_alpha": 4}})", type), peft_tensors()),
        fmt::format("\"peft_type\" is \"{}\"", type));
}

TEST(AdapterFile, configs_that_make_no_sense) {
  for (const char* r : {"0", "-1", "1025", "2.5", "\"2\"", "null", "true"})
    EXPECT_HAS(peft_error(peft_config("", r), peft_tensors()),
               "\"r\" is missing or not a rank from 1 to 1024");
  for (const char* alpha : {"null", "\"4\"", "[4]"})
    EXPECT_HAS(peft_error(fmt::format(R"({{"peft_type": "LORA", "r": 2, "lora_alpha": {}}})", alpha),
                          peft_tensors()),
               "\"lora_alpha\" is missing or not a number");
  EXPECT_HAS(peft_error(peft_config(R"(, "use_rslora": 1)"), peft_tensors()), "not true or false");
  for (const char* text : {"", "[]", "{", "<html>"}) EXPECT_HAS(peft_error(text, peft_tensors()), kConfig);
  TempDir dir;
  dir.write(kPeft, peft_tensors());
  const Error error = error_of(read_adapter(dir.path()));
  EXPECT_EQ(error.kind, ErrorKind::not_found);
  EXPECT_HAS(error.message, kConfig);
}

TEST(AdapterFile, tensors_that_are_no_halves) {
  struct Case {
    std::string name, what;
  };
  for (const auto& [name, what] :
       {Case{kQ + ".lora_magnitude_vector", "a magnitude of DoRA"}, Case{kQ + ".base_layer.bias", "a bias"},
        Case{kQ + ".lora_B.bias", "a bias"}, Case{"base_model.model.lm_head.weight", "a whole weight"},
        Case{kQ + ".lora_A", "not a matrix of LoRA"}, Case{kQ + ".lora_A.other.weight", "a whole weight"},
        Case{".lora_A.weight", "a whole weight"},
        Case{kQ + ".trainable_tokens_delta", "rows of an embedding"},
        Case{kQ + ".hada_w1_a", "not a matrix of LoRA"}}) {
    SafetensorsWriter writer;
    add_pair(writer, kQ).f32(name, {1}, {1}).f32(name + ".more", {1}, {1});
    const Error error = error_of(read_peft(peft_config(), writer.bytes()));
    EXPECT_EQ(error.kind, ErrorKind::unsupported);
    EXPECT_HAS(error.message, "\"" + name + "\" is " + what);
    EXPECT_HAS(error.message, "(2 of the file's tensors");
  }
  for (const char* half : {".lora_A.weight", ".lora_B.weight"}) {
    SafetensorsWriter writer;
    add_pair(writer, kUpProj).f32(kQ + half, {2, 2}, kB);
    const std::string error = peft_error(peft_config(), writer.bytes());
    EXPECT_HAS(error, std::string("lacks the other matrix, lora_") + (half[6] == 'A' ? "B" : "A"));
    EXPECT_HAS(error, "\"" + kQ + half + "\"");
  }
  EXPECT_HAS(peft_error(peft_config(), SafetensorsWriter().bytes()), "changes no module");
}

TEST(AdapterFile, types_and_values) {
  const auto with = [](const std::string& type, const std::string& a, const std::string& b) {
    SafetensorsWriter writer;
    writer.add(kQ + ".lora_A.weight", type, {2, 3}, a).add(kQ + ".lora_B.weight", type, {2, 2}, b);
    return read_peft(peft_config(), writer.bytes());
  };
  const auto narrow = [](const std::vector<float>& x, uint16_t (*to)(float)) {
    std::vector<uint16_t> out;
    for (const float value : x) out.push_back(to(value));
    return raw_bytes(out);
  };
  for (const auto& file : {with("F16", narrow(kA, float_to_f16), narrow(kB, float_to_f16)),
                           with("BF16", narrow(kA, float_to_bf16), narrow(kB, float_to_bf16))}) {
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(values(file->modules.begin()->second.down), kA);
    EXPECT_EQ(values(file->modules.begin()->second.up), times(kB, 2));
  }
  const Error whole = error_of(with("I32", raw_bytes(kA), raw_bytes(kB)));
  EXPECT_EQ(whole.kind, ErrorKind::unsupported);
  EXPECT_HAS(whole.message, "type I32 cannot be read");
  EXPECT_HAS(
      error_of(with("F64", raw_bytes(std::vector<double>(6)), raw_bytes(std::vector<double>(4)))).message,
      "type F64");

  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const bool in_down : {true, false}) {
      auto a = kA, b = kB;
      (in_down ? a : b).back() = bad;
      const std::string error = error_of(with("F32", raw_bytes(a), raw_bytes(b))).message;
      EXPECT_HAS(error, in_down ? ".lora_A.weight\"" : ".lora_B.weight\"");
      EXPECT_HAS(error, "is not finite");
    }
  auto large = kB;
  large[0] = 3e38f;  // times 2
  EXPECT_HAS(error_of(with("F32", raw_bytes(kA), raw_bytes(large))).message,
             "times the scale 2, is not finite");
}

TEST(AdapterFile, shapes_have_limits) {
  const auto of_rank = [](int64_t rank) {
    SafetensorsWriter writer;
    writer.f32(kQ + ".lora_A.weight", {rank, 1}, std::vector<float>(rank, 1.0f));
    writer.f32(kQ + ".lora_B.weight", {1, rank}, std::vector<float>(rank, 1.0f));
    return read_peft(
        peft_config(fmt::format(R"(, "rank_pattern": {{"q_proj": {}}})", std::min<int64_t>(rank, 1024))),
        writer.bytes());
  };
  EXPECT_TRUE(of_rank(1024).ok());
  EXPECT_HAS(error_of(of_rank(1025)).message, "has rank 1025; ranks are 1 to 1024");
  const auto with = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    SafetensorsWriter writer;
    const auto add = [&](const char* name, const std::vector<int64_t>& shape) {
      size_t count = 1;
      for (const int64_t n : shape) count *= static_cast<size_t>(n);
      writer.f32(kQ + name, shape, std::vector<float>(count, 1.0f));
    };
    add(".lora_A.weight", a);
    add(".lora_B.weight", b);
    return error_of(read_peft(peft_config(), writer.bytes())).message;
  };
  EXPECT_HAS(with({0, 3}, {2, 0}), "has rank 0");
  EXPECT_HAS(with({2, 0}, {2, 2}), "shape [2, 0]");
  EXPECT_HAS(with({2, 3}, {0, 2}), "shape [0, 2]");
  EXPECT_HAS(with({4, 2, 3}, {2, 2}), "shape [4, 2, 3] is not that of a matrix");
  EXPECT_HAS(with({2}, {2, 2}), "shape [2] is not that of a matrix");
}

TEST(AdapterFile, tensors_have_a_limit) {
  const auto of_tensors = [](size_t count) {
    SafetensorsWriter writer;  // no values: the shapes are checked after the limit
    for (size_t i = 0; i < count; i++)
      writer.add(fmt::format("layers.{}.q.lora_{}.weight", i / 2, i % 2 ? "B" : "A"), "F32", {0, 0}, "");
    return peft_error(peft_config(), writer.bytes());
  };
  EXPECT_HAS(of_tensors(kMaxAdapterTensors), "shape [0, 0]");
  EXPECT_HAS(of_tensors(kMaxAdapterTensors + 1), "has 100001 tensors; at most 100000 are read");
}

TEST(AdapterFile, digest_is_of_names_and_values) {
  const auto digest = [](const std::string& config, const std::string& tensors) {
    const auto file = read_peft(config, tensors);
    EXPECT_TRUE(file.ok());
    return file.ok() ? file->digest : "";
  };
  const std::string one = digest(peft_config(), peft_tensors());
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), one.npos);
  EXPECT_EQ(digest(peft_config(R"(, "lora_dropout": 0.5)"), peft_tensors(kQ, ".default.weight")), one);
  EXPECT_NE(digest(peft_config(), peft_tensors(kUpProj)), one);
  EXPECT_NE(digest(peft_config(R"(, "alpha_pattern": {"q_proj": 5})"), peft_tensors()), one);
  auto other = kA;
  other.back() += 1;
  SafetensorsWriter changed;
  changed.f32(kQ + ".lora_A.weight", {2, 3}, other).f32(kQ + ".lora_B.weight", {2, 2}, kB);
  EXPECT_NE(digest(peft_config(), changed.bytes()), one);
  SafetensorsWriter turned;  // the same bytes under other shapes
  turned.f32(kQ + ".lora_A.weight", {2, 2}, kB).f32(kQ + ".lora_B.weight", {3, 2}, kA);
  SafetensorsWriter straight;
  straight.f32(kQ + ".lora_A.weight", {1, 4}, kB).f32(kQ + ".lora_B.weight", {6, 1}, kA);
  EXPECT_NE(digest(peft_config(R"(, "alpha_pattern": {"q_proj": 2})"), turned.bytes()),
            digest(peft_config(R"(, "alpha_pattern": {"q_proj": 1})", "1"), straight.bytes()));
}

TEST(AdapterFile, mlx) {
  TempDir dir;
  SafetensorsWriter writer;  // the same matrices as kA and kB, transposed
  writer.f32("language_model.model.layers.0.self_attn.q_proj.lora_a", {3, 2}, {1, 4, 2, 5, 3, 6});
  writer.f32("language_model.model.layers.0.self_attn.q_proj.lora_b", {2, 2}, {1, 0.5, -2, 4});
  dir.write(kMlx, writer.bytes("mlx"));
  const auto with = [&](const std::string& config) {
    dir.write(kConfig, config);
    return read_adapter(dir.path());
  };
  const auto file = with(
      R"({"fine_tune_type": "lora", "model": "org/base-4bit", "lora_parameters": {"rank": 2, "scale": 2.0}})");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->base, "org/base-4bit");
  ASSERT_EQ(names(*file), std::vector<std::string>{"model.layers.0.self_attn.q_proj"});
  EXPECT_EQ(values(file->modules.begin()->second.down), kA);
  EXPECT_EQ(values(file->modules.begin()->second.up), times(kB, 2));
  EXPECT_EQ(file->digest, read_peft(peft_config(), peft_tensors())->digest);

  EXPECT_TRUE(with(R"({"lora_parameters": {"scale": 2.0}})").ok());
  EXPECT_HAS(error_of(with(R"({"lora_parameters": {"rank": 3, "scale": 2.0}})")).message, "states 3");
  EXPECT_HAS(error_of(with(R"({"lora_parameters": {"rank": 2}})")).message, "\"lora_parameters.scale\"");
  EXPECT_HAS(error_of(with("{}")).message, "\"lora_parameters.scale\"");
  for (const char* kind : {"dora", "full"})
    EXPECT_HAS(
        error_of(with(fmt::format(R"({{"fine_tune_type": "{}", "lora_parameters": {{"scale": 2}}}})", kind)))
            .message,
        fmt::format("\"fine_tune_type\" is \"{}\"", kind));
  SafetensorsWriter experts;
  experts.f32("model.layers.0.mlp.switch_mlp.up_proj.lora_a", {3, 2}, kA);
  experts.f32("model.layers.0.mlp.switch_mlp.up_proj.lora_b", {2, 2, 1}, kB);
  dir.write(kMlx, experts.bytes("mlx"));
  EXPECT_HAS(error_of(with(R"({"lora_parameters": {"scale": 2.0, "rank": 1}})")).message,
             "shape [2, 2, 1] is not that of a matrix");
  writer.f32("language_model.model.layers.0.self_attn.q_proj.m", {1}, {1});
  dir.write(kMlx, writer.bytes("mlx"));
  EXPECT_HAS(error_of(with(R"({"lora_parameters": {"scale": 2.0}})")).message, "a magnitude of DoRA");
}

TEST(AdapterFile, paths) {
  TempDir dir;
  EXPECT_EQ(error_of(read_adapter(dir.file("absent"))).kind, ErrorKind::not_found);
  EXPECT_HAS(error_of(read_adapter(dir.path())).message, "holds no adapter");
  dir.write("adapter_model.bin", "x");
  EXPECT_HAS(error_of(read_adapter(dir.path())).message, "adapter_model.bin, a pickle");
  dir.write(kConfig, peft_config());
  dir.write(kPeft, peft_tensors());
  EXPECT_TRUE(read_adapter(dir.path()).ok());
  EXPECT_HAS(error_of(read_adapter(dir.file(kPeft))).message, "give the directory");
  const std::string whole = peft_tensors();
  dir.write(kPeft, whole.substr(0, whole.size() - 1));
  EXPECT_HAS(error_of(read_adapter(dir.path())).message, "truncated");
  dir.write(kPeft, whole);
  dir.write(kMlx, whole);
  EXPECT_HAS(error_of(read_adapter(dir.path())).message, "holds two adapters");
}

}  // namespace
}  // namespace anabranch
