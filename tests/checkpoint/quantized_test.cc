// Directories that other projects' tools wrote (tools/make_quantized_fixtures.py), value by value, and
// layouts written here, right and wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/base64.h"
#include "base/float16.h"
#include "base/float8.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::string kData = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/quantized/";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string fnv(std::vector<float> values) {
  for (float& v : values) v += 0.0f;  // no negative zeros
  uint64_t hash = 0xCBF29CE484222325;
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  for (size_t i = 0; i < values.size() * 4; i++) hash = (hash ^ bytes[i]) * 0x100000001B3;
  return fmt::format("{:016x}", hash);
}

std::vector<float> values_of(const WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.rows * source.cols));
  // Not all at once, and beginning anywhere.
  for (int64_t row = 0; row < source.rows;) {
    const int64_t count = std::min<int64_t>(source.rows - row, row == 0 ? 1 : 16);
    read_values(source, row, count, out.data() + row * source.cols);
    row += count;
  }
  return out;
}

struct Fixture {
  const char* name;
  const char* type;  // of k_proj, as `show` prints it
  WeightKind kind;
  int bits, group;
  bool symmetric = true;
};

const Fixture kFixtures[] = {
    {"fp8-block", "fp8/64x128", WeightKind::fp8, 8, 64},
    {"fp8-static", "fp8/tensor", WeightKind::fp8, 8, 128},
    {"ct-fp8-dynamic", "fp8/channel", WeightKind::fp8, 8, 128},
    {"ct-fp8-static", "fp8/tensor", WeightKind::fp8, 8, 128},
    {"ct-fp8-block", "fp8/tensor", WeightKind::fp8, 8, 128},
    {"ct-w4a16", "int-4/channel", WeightKind::affine, 4, 128},
    {"ct-w4a16-asym", "int-4/32", WeightKind::affine, 4, 32, false},
    {"ct-w3a16", "int-3/channel", WeightKind::affine, 3, 128},
    {"ct-w8a16", "int-8/channel", WeightKind::affine, 8, 128},
    {"ct-w8a8", "int-8/channel", WeightKind::affine, 8, 128},
    {"ct-nvfp4", "nvfp4", WeightKind::table, 4, 16},
    {"ct-mxfp4", "mxfp4", WeightKind::table, 4, 32},
    {"ct-mxfp8", "mxfp8", WeightKind::fp8, 8, 32},
    {"gptq-4", "gptq-4/channel", WeightKind::affine, 4, 128},
    {"gptq-4-asym", "gptq-4/32", WeightKind::affine, 4, 32, false},
    {"gptq-4-v2", "gptq-4/64", WeightKind::affine, 4, 64, false},
    {"gptq-4-desc-act", "gptq-4/32", WeightKind::f32, 0, 0},
    {"gptq-3-channel", "gptq-3/channel", WeightKind::affine, 3, 128},
    {"gptq-2", "gptq-2/64", WeightKind::affine, 2, 64, false},
    {"gptq-8", "gptq-8/channel", WeightKind::affine, 8, 128},
    {"awq", "awq-4/64", WeightKind::affine, 4, 64, false},
    {"auto-round", "gptq-4/32", WeightKind::affine, 4, 32},
    {"auto-round-asym", "gptq-4/32", WeightKind::affine, 4, 32, false},
    {"auto-round-awq", "awq-4/32", WeightKind::affine, 4, 32, false},
    {"modelopt-fp8", "fp8/tensor", WeightKind::fp8, 8, 128},
    {"modelopt-nvfp4", "nvfp4", WeightKind::table, 4, 16},
    {"modelopt-nvfp4-alone", "nvfp4", WeightKind::table, 4, 16},
    {"bnb-nf4", "bnb-nf4", WeightKind::bf16, 0, 0},
    {"bnb-nf4-nested", "bnb-nf4", WeightKind::bf16, 0, 0},
    {"bnb-fp4", "bnb-fp4", WeightKind::bf16, 0, 0},
    {"bnb-int8", "bnb-int8", WeightKind::affine, 8, 128},
    {"mlx-mxfp4", "mxfp4", WeightKind::table, 4, 32},
    {"mlx-mxfp8", "mxfp8", WeightKind::fp8, 8, 32},
    {"mlx-nvfp4", "nvfp4", WeightKind::table, 4, 16},
};

class QuantizedFixture : public ::testing::TestWithParam<Fixture> {};

// The values of one matrix are those of expected.json.
void expect_values(const std::string& name, const std::vector<float>& values, const Json& expected) {
  if (expected.contains("fnv")) {
    EXPECT_EQ(fnv(values), expected["fnv"].get<std::string>()) << name;
  }
  if (!expected.contains("f32")) return;
  const auto bytes = from_base64(expected["f32"].get<std::string>());
  ASSERT_TRUE(bytes.ok() && bytes->size() == values.size() * 4) << name;
  for (size_t i = 0; i < values.size(); i++) {
    float want;
    std::memcpy(&want, bytes->data() + i * 4, 4);
    ASSERT_NEAR(values[i], want, std::abs(want) * expected["tolerance"].get<double>()) << name << " " << i;
  }
}

TEST_P(QuantizedFixture, HasTheValuesOfItsTool) {
  const Fixture& fixture = GetParam();
  const std::string path = kData + fixture.name;
  auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto expected = parse_json(text_of(path + "/expected.json"));
  ASSERT_TRUE(expected.ok());
  ASSERT_EQ(expected->size(), 7u);
  EXPECT_EQ((*checkpoint)->tensors().size(), 7u + 5u);  // and embedding, head and norms: nothing is left over
  for (const auto& [name, want] : expected->items()) {
    const auto shape = want["shape"].get<std::vector<int64_t>>();
    const auto source = (*checkpoint)->take_matrix(name, shape[0], shape[1]);
    ASSERT_TRUE(source.ok()) << source.error().message;
    expect_values(name, values_of(*source), want);
    if (!name.ends_with("k_proj.weight")) continue;
    EXPECT_EQ((*checkpoint)->find(name)->type, fixture.type);
    EXPECT_EQ(source->kind, fixture.kind);
    EXPECT_EQ(source->bits, fixture.bits);
    EXPECT_EQ(source->group, fixture.group);
    if (is_coded(source->kind)) {
      EXPECT_EQ(source->symmetric, fixture.symmetric);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedFixture, ::testing::ValuesIn(kFixtures), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(QuantizedFixtures, AllHaveARow) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kData)) count += entry.is_directory();
  EXPECT_EQ(count, std::size(kFixtures));
}

// ---- layouts written here

struct Model {
  SafetensorsWriter writer;
  std::string config = "{}", side;

  // What is open outlives its directory.
  Result<std::unique_ptr<Checkpoint>> open() const {
    const TempDir dir;
    dir.write("config.json", config);
    if (!side.empty()) dir.write("hf_quant_config.json", side);
    dir.write("model.safetensors", writer.bytes());
    return Checkpoint::open(dir.path());
  }
  std::string error() const {
    const auto result = open();
    return result.ok() ? "" : result.error().message;
  }
  // Of the matrix "m.weight", or of another.
  std::vector<float> values(int64_t rows, int64_t cols, const std::string& name = "m.weight") const {
    const auto checkpoint = open();
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    if (!checkpoint.ok()) return {};
    const auto source = (*checkpoint)->take_matrix(name, rows, cols);
    EXPECT_TRUE(source.ok()) << source.error().message;
    return source.ok() ? values_of(*source) : std::vector<float>();
  }
};

constexpr const char* kFp8 =
    R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";
constexpr const char* kGptq = R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}})";
constexpr const char* kTensors = R"({"quantization_config":{"quant_method":"compressed-tensors"}})";
const std::string kOne(1, 0x38);  // E4M3

std::string repeat(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; i++) out += text;
  return out;
}

TEST(Fp8, ColumnsThatNoGroupDividesAreDense) {
  Model model;
  model.config = kFp8;
  model.writer.add("m.weight", "F8_E4M3", {2, 130}, repeat(kOne, 260))
      .f32("m.weight_scale_inv", {1, 2}, {3, 5});
  const auto values = model.values(2, 130);
  ASSERT_EQ(values.size(), 260u);
  EXPECT_EQ(values[127], 3);
  EXPECT_EQ(values[128], 5);
  EXPECT_EQ(values[259], 5);
}

// Whether experts are stacked in the file or apart, with scales of any shape.
TEST(Fp8, Experts) {
  const auto check = [](Model& model) {
    model.config = kFp8;
    const auto checkpoint = model.open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto source =
        (*checkpoint)->take_matrices("model.layers.0.mlp.switch_mlp.down_proj.weight", 2, 2, 128);
    ASSERT_TRUE(source.ok()) << source.error().message;
    EXPECT_EQ(source->kind, WeightKind::fp8);
    const auto values = values_of(*source);
    EXPECT_EQ(values[255], 3);
    EXPECT_EQ(values[256], 5);
  };
  const std::string p = "model.layers.0.mlp.experts.";
  for (const auto& shape : {std::vector<int64_t>{2, 1, 1}, {2}, {2, 1}}) {
    Model fused;
    fused.writer.add(p + "down_proj", "F8_E4M3", {2, 2, 128}, repeat(kOne, 512))
        .f32(p + "down_proj_scale_inv", shape, {3, 5})
        .f32(p + "down_proj_activation_scale", {2}, {1, 1});
    check(fused);
  }
  Model apart;
  apart.writer.add(p + "0.down_proj.weight", "F8_E4M3", {2, 128}, repeat(kOne, 256))
      .f32(p + "0.down_proj.weight_scale_inv", {1, 1}, {3})
      .add(p + "1.down_proj.weight", "F8_E4M3", {2, 128}, repeat(kOne, 256))
      .f32(p + "1.down_proj.weight_scale_inv", {1, 1}, {5});
  check(apart);
}

TEST(Fp8, ErrorsNameTheTensor) {
  const auto error = [](const std::vector<int64_t>& shape, size_t scales) {
    Model model;
    model.config = kFp8;
    model.writer.add("m.weight", "F8_E4M3", {256, 256}, repeat(kOne, 65536))
        .f32("m.weight_scale_inv", shape, std::vector<float>(scales, 1));
    return model.error();
  };
  EXPECT_EQ(error({2, 2}, 4), "");
  EXPECT_EQ(error({256, 1}, 256), "");
  EXPECT_HAS(error({3, 3}, 9), "\"m.weight\": its shape [256, 256] and the scales' [3, 3]");
  EXPECT_HAS(error({2, 2, 2}, 8), "do not go together");
  EXPECT_HAS(error({0, 2}, 0), "do not go together");
  Model missing;
  missing.config = kFp8;
  missing.writer.add("m.weight", "F8_E4M3", {1, 128}, repeat(kOne, 128));
  EXPECT_HAS((*missing.open())->take_matrix("m.weight", 1, 128).error().message, "without scales");
  Model empty;
  empty.config = kFp8;
  empty.writer.add("m.weight", "F8_E4M3", {2, 0}, "").f32("m.weight_scale_inv", {1}, {1});
  EXPECT_HAS(empty.error(), "[2, 0]");
}

// qweight of `cols` inputs and 8 outputs; codes are the input's number modulo 16.
void add_gptq(Model& model, int cols, int groups) {
  std::vector<uint32_t> words(static_cast<size_t>(cols));
  for (int c = 0; c < cols; c++)
    for (int r = 0; r < 8; r++) words[c / 8 * 8 + r] |= uint32_t(c % 16) << (c % 8 * 4);
  model.writer.add("m.qweight", "I32", {cols / 8, 8}, raw_bytes(words))
      .add("m.qzeros", "I32", {groups, 1}, raw_bytes(std::vector<uint32_t>(groups, 0x77777777)));
  std::vector<uint16_t> scales;
  for (int g = 0; g < groups; g++)
    for (int r = 0; r < 8; r++) scales.push_back(float_to_f16(1.0f + g));
  model.writer.add("m.scales", "F16", {groups, 8}, raw_bytes(scales));
}

TEST(Gptq, LongGroupsAreRepeated) {
  Model model;
  model.config = R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":1024}})";
  add_gptq(model, 2048, 2);
  const auto values = model.values(8, 2048);
  ASSERT_EQ(values.size(), 8u * 2048);
  EXPECT_EQ(values[1023], (1023 % 16 - 8) * 1.0f);
  EXPECT_EQ(values[1024 + 3], (3 - 8) * 2.0f);
}

// AutoGPTQ writes a bias of zeros for each quantised module that has none.
TEST(Gptq, BiasesOfZerosNeedNotBeTaken) {
  const auto left = [](float last, const std::string& module) {
    Model model;
    model.config = kGptq;
    add_gptq(model, 64, 2);
    model.writer.f32(module + ".bias", {8}, {0, 0, -0.0f, 0, 0, 0, 0, last});
    const auto checkpoint = model.open();
    EXPECT_TRUE(checkpoint.ok() && (*checkpoint)->take_matrix("m.weight", 8, 64).ok());
    const auto ended = (*checkpoint)->finish();
    return ended.ok() ? "" : ended.error().message;
  };
  EXPECT_EQ(left(0, "m"), "");
  EXPECT_HAS(left(1e-30f, "m"), "m.bias");
  EXPECT_HAS(left(0, "other"), "other.bias");  // of no quantised module
}

TEST(Gptq, VersionsInCapitals) {
  const auto first = [](const std::string& version) {
    Model model;
    model.config =
        R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":")" +
        version + "\"}}";
    add_gptq(model, 64, 2);
    return model.values(8, 64).at(0);
  };
  EXPECT_EQ(first("gptq"), -8.0f);
  EXPECT_EQ(first("gptq_v2"), -7.0f);
  EXPECT_EQ(first("GPTQ_V2"), -7.0f);
}

TEST(Gptq, GroupsOfInputs) {
  const auto with_index = [](const std::vector<int32_t>& index) {
    Model model;
    model.config = kGptq;
    add_gptq(model, 64, 2);
    model.writer.add("m.g_idx", "I32", {static_cast<int64_t>(index.size())}, raw_bytes(index));
    return model;
  };
  std::vector<int32_t> index(64);
  for (int i = 0; i < 64; i++) index[i] = i % 2;
  const auto values = with_index(index).values(8, 64);
  EXPECT_EQ(values[10], 2.0f);
  EXPECT_EQ(values[11], 6.0f);
  EXPECT_HAS(with_index(std::vector<int32_t>(64, 2)).error(), "input 0 is in group 2, but there are 2");
  EXPECT_HAS(with_index(std::vector<int32_t>(64, -5)).error(), "group -5");
  EXPECT_HAS(with_index(std::vector<int32_t>(63)).error(), "a group for each of 64 inputs");
  EXPECT_EQ(with_index(std::vector<int32_t>(64, -1)).values(8, 64)[40], 0.0f);  // never set
}

TEST(Gptq, ErrorsNameTheTensor) {
  Model groups;
  groups.config = kGptq;
  add_gptq(groups, 64, 5);
  EXPECT_HAS(groups.error(), "\"m.qweight\": 5 groups do not divide 64 inputs");
  Model zeros;
  zeros.config = kGptq;
  zeros.writer.add("m.qweight", "I32", {8, 8}, std::string(256, 'x'))
      .add("m.scales", "F16", {2, 8}, std::string(32, 'x'));
  EXPECT_HAS(zeros.error(), "\"m.qzeros\", which belongs to it, is missing");
  zeros.writer.add("m.qzeros", "I32", {3, 1}, std::string(12, 'x'));
  EXPECT_HAS(zeros.error(), "do not go together");
}

TEST(CompressedInt, ErrorsNameTheTensor) {
  const auto error = [](std::vector<int64_t> shape, std::vector<int64_t> scales) {
    Model model;
    model.config = kTensors;
    int64_t count = 1;
    for (int64_t n : scales) count *= n;
    model.writer.add("m.weight_packed", "I32", {2, 8}, std::string(64, 'x'))
        .add("m.weight_shape", "I64", {static_cast<int64_t>(shape.size())}, raw_bytes(shape))
        .f32("m.weight_scale", scales, std::vector<float>(static_cast<size_t>(count), 1));
    return model.error();
  };
  EXPECT_EQ(error({2, 64}, {2, 2}), "");
  EXPECT_EQ(error({2, 64}, {1}), "");
  EXPECT_EQ(error({2, 62}, {2, 1}), "");
  EXPECT_HAS(error({3, 64}, {3, 2}), "does not fit what \"m.weight_shape\" says");
  EXPECT_HAS(error({2, 1 << 30}, {2, 2}), "of no width");
  EXPECT_HAS(error({2, -64}, {2, 2}), "does not fit");
  EXPECT_HAS(error({2, 64}, {3, 2}), "scales [3, 2]");
  EXPECT_HAS(error({2, 64}, {2, 5}), "5 groups do not divide 64 inputs");
  EXPECT_HAS(error({2, 64}, {2, 65}), "do not go together");
}

// Ten codes of 3 bits to a word, zero points of five rows alike.
TEST(CompressedInt, WordsOfOlderFilesHoldWholeCodes) {
  Model model;
  model.config =
      R"({"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":3}}}}})";
  std::vector<uint32_t> words(5 * 13), zeros(1);
  for (int row = 0; row < 5; row++) {
    zeros[0] |= static_cast<uint32_t>(row + 1) << (3 * row);
    for (int c = 0; c < 128; c++)
      words[static_cast<size_t>(row * 13 + c / 10)] |= static_cast<uint32_t>((row + c) % 8) << (c % 10 * 3);
  }
  model.writer.add("m.weight_packed", "I32", {5, 13}, raw_bytes(words))
      .f32("m.weight_scale", {5, 1}, {1, 2, 3, 4, 5})
      .add("m.weight_zero_point", "I32", {1, 1}, raw_bytes(zeros))
      .add("m.weight_shape", "I64", {2}, raw_bytes(std::vector<int64_t>{5, 128}));
  const auto values = model.values(5, 128);
  ASSERT_EQ(values.size(), 5u * 128);
  for (int i = 0; i < 5 * 128; i++) {
    const int row = i / 128, c = i % 128;
    ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<float>(((row + c) % 8 - (row + 1)) * (row + 1)))
        << i;
  }
}

TEST(CompressedInt, ZeroPointsOfOlderFilesAreBytes) {
  Model model;
  model.config = kTensors;
  model.writer.add("m.weight", "I8", {2, 32}, repeat(std::string(1, 5), 64))
      .f32("m.weight_scale", {2, 1}, {1, 2})
      .add("m.weight_zero_point", "I8", {2, 1}, std::string("\x02\xFF", 2));
  const auto values = model.values(2, 32);
  EXPECT_EQ(values[0], 3.0f);
  EXPECT_EQ(values[63], 12.0f);
}

TEST(Float4, ExpertsWithFactorsOfTheirOwn) {
  Model model;
  model.config = R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})";
  for (int e = 0; e < 2; e++) {
    const std::string p = "model.layers.0.mlp.experts." + std::to_string(e) + ".up_proj.";
    model.writer
        .add(p + "weight", "U8", {1, 8}, repeat(std::string(1, 0x2A), 8))  // -1, 1
        .add(p + "weight_scale", "F8_E4M3", {1, 1}, kOne)
        .f32(p + "weight_scale_2", {}, {3.0f + 2 * static_cast<float>(e)})
        .f32(p + "input_scale", {}, {1});
  }
  const auto checkpoint = model.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto source = (*checkpoint)->take_matrices("model.layers.0.mlp.switch_mlp.up_proj.weight", 2, 1, 16);
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(source->kind, WeightKind::table);
  const auto values = values_of(*source);
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[17], 5);
  EXPECT_TRUE((*checkpoint)->finish().ok());
}

TEST(Float4, InputsScaledFirstAreRefused) {
  Model model;
  model.config = R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})";
  model.writer.add("m.weight", "U8", {1, 8}, std::string(8, 'x'))
      .add("m.weight_scale", "F8_E4M3", {1, 1}, kOne)
      .f32("m.weight_scale_2", {}, {1})
      .f32("m.pre_quant_scale", {16}, std::vector<float>(16, 1));
  EXPECT_HAS(model.error(), "pre_quant_scale");
}

TEST(BitsAndBytes, ErrorsNameTheTensor) {
  const auto error = [](const std::string& state, size_t codes, int64_t blocks) {
    Model model;
    model.config = R"({"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true}})";
    model.writer.add("m.weight", "U8", {static_cast<int64_t>(codes), 1}, std::string(codes, 'x'))
        .f32("m.weight.absmax", {blocks}, std::vector<float>(static_cast<size_t>(blocks), 1))
        .f32("m.weight.quant_map", {16}, std::vector<float>(16, 1));
    if (!state.empty())
      model.writer.add("m.weight.quant_state.bitsandbytes__nf4", "U8", {static_cast<int64_t>(state.size())},
                       state);
    return model.error();
  };
  const auto state = [](const std::string& shape, const std::string& block = "64") {
    return R"({"quant_type":"nf4","dtype":"bfloat16","blocksize":)" + block + R"(,"shape":)" + shape + "}";
  };
  EXPECT_EQ(error(state("[2,64]"), 64, 2), "");
  EXPECT_HAS(error("", 64, 2), "quant_state is missing");
  EXPECT_HAS(error("{", 64, 2), "no JSON object");
  EXPECT_HAS(error(state("[2,65]"), 64, 2), "do not hold 4-bit codes of [2, 65]");
  EXPECT_HAS(error(state("[2147483647,2147483647]"), 64, 2), "do not hold");
  EXPECT_HAS(error(state("[2,64]", "0"), 64, 2), "block size");
  EXPECT_HAS(error(state("[-2,-64]"), 64, 2), "no matrix");
  EXPECT_HAS(error(state("[2,64]"), 64, 3), "2 numbers of F32 were expected");
}

TEST(QuantizationConfig, PlainWeightsBesideALeftOverOneAreRead) {
  Model model;
  model.config = R"({"quantization_config":{"quant_method":"hqq","nbits":4}})";
  model.writer.f32("m.weight", {1, 2}, {1, 2});
  EXPECT_EQ(model.values(1, 2)[1], 2);
  model.writer.add("m.W_q", "U8", {2}, "xx");
  EXPECT_HAS(model.error(), "method hqq cannot be read; use");
  Model fp8;
  fp8.config = kFp8;
  fp8.writer.f32("m.weight", {1, 2}, {1, 2});
  EXPECT_EQ(fp8.values(1, 2)[1], 2);
}

TEST(QuantizationConfig, ModelOptsOwnFile) {
  Model model;
  model.writer.add("m.weight", "F8_E4M3", {1, 32}, repeat(kOne, 32)).f32("m.weight_scale", {}, {2});
  model.side = R"({"quantization":{"quant_algo":"FP8"}})";
  EXPECT_EQ(model.values(1, 32)[0], 2);
  model.side = R"({"quantization":{"quant_algo":"W4A8_AWQ"}})";
  EXPECT_HAS(model.error(), "W4A8_AWQ");
  model.side = "[]";
  EXPECT_HAS(model.error(), "hf_quant_config.json has no \"quantization\"");
}

TEST(QuantizationConfig, SaysWhichAreRead) {
  const auto error = [](const std::string& quantization) {
    const auto config = parse_json(R"({"quantization_config":)" + quantization + "}");
    const auto result = parse_quantization(*config, "config.json");
    return result.ok() ? std::string() : result.error().message;
  };
  for (
      const char* good : {
          R"({"quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":null})",
          R"({"quant_method":"fbgemm_fp8"})",
          R"({"quant_method":"gptq","bits":3,"group_size":-1,"checkpoint_format":"gptq_v2"})",
          R"({"quant_method":"awq","bits":4,"version":"GEMM"})",
          R"({"quant_method":"auto-round","bits":4,"data_type":"int","packing_format":"auto_round:auto_awq"})",
          R"({"quant_method":"compressed-tensors","format":"pack-quantized","transform_config":{}})",
          R"({"quant_method":"bitsandbytes","bnb_4bit_quant_type":"nf4"})",
          R"({"load_in_8bit":true})",
          R"({"quant_algo":"NVFP4"})",
      })
    EXPECT_EQ(error(good), "") << good;
  for (const auto& [bad, part] : {
           std::pair{R"({"quant_method":"exl2"})", "method exl2"},
           {R"({"quant_method":"torchao"})", "method torchao"},
           {R"({"quant_method":"bitnet"})", "method bitnet"},
           {R"({"quant_method":7})", "method 7"},
           {R"({"quant_method":"fp8","weight_block_size":[0,128]})", "weight_block_size"},
           {R"({"quant_method":"fp8","weight_block_size":[128]})", "pair"},
           {R"({"quant_method":"fp8","fmt":"e5m2"})", "e5m2"},
           {R"({"quant_method":"gptq","bits":5})", "5 bits"},
           {R"({"quant_method":"gptq","bits":4,"group_size":123456789})", "group_size"},
           {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})", "marlin"},
           {R"({"quant_method":"awq","bits":4,"version":"gemv"})", "gemv"},
           {R"({"quant_method":"awq","bits":8})", "8 bits"},
           {R"({"quant_method":"auto-round","bits":4,"packing_format":"auto_round:nv_fp"})", "nv_fp"},
           {R"({"quant_method":"compressed-tensors","format":"marlin-24"})", "marlin-24"},
           {R"({"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":7}}}})",
            "7 bits"},
           {R"({"quant_method":"compressed-tensors","transform_config":{"config_groups":{"u":{}}}})",
            "rotated"},
           {R"({"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}})",
            "sparse"},
           {R"({"quant_method":"modelopt","quant_algo":"NVFP4_AWQ"})", "NVFP4_AWQ"},
       }) {
    EXPECT_HAS(error(bad), part);
    EXPECT_HAS(error(bad), "config.json");
  }
}

// Whoever knows this before a download does not begin it.
TEST(QuantizationConfig, UnreadableWidthsAreUnsupported) {
  for (const char* quantization :
       {R"({"bits":"four","group_size":64})", R"({"bits":7,"group_size":64})",
        R"({"bits":4,"group_size":[]})", R"({"bits":4,"group_size":48})",
        R"({"mode":"mxfp4","bits":8,"group_size":32})", R"({"quant_method":"gptq","bits":"four"})",
        R"({"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":"4"}}}})"}) {
    const auto config = parse_json(fmt::format(R"({{"quantization_config":{}}})", quantization));
    const auto result = parse_quantization(*config, "config.json");
    ASSERT_FALSE(result.ok()) << quantization;
    EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().message;
  }
}

TEST(QuantizationConfig, MlxModesOfModules) {
  const auto config = parse_json(
      R"({"quantization":{"mode":"mxfp4","bits":4,"group_size":32,"a":{"bits":8,"group_size":64},
          "b":{"mode":"nvfp4","bits":null,"group_size":null},"c":{"mode":"affine","group_size":null}}})");
  const auto result = parse_quantization(*config, "config.json");
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto& overrides = (*result)->overrides;
  EXPECT_EQ((*result)->defaults, (MlxFormat{{4, 32}, MlxMode::mxfp4}));
  EXPECT_EQ(overrides.at("a"), (MlxFormat{{8, 64}, MlxMode::affine}));
  EXPECT_EQ(overrides.at("b"), (MlxFormat{{4, 16}, MlxMode::nvfp4}));
  EXPECT_EQ(overrides.at("c"), (MlxFormat{{4, 64}, MlxMode::affine}));
}

}  // namespace
}  // namespace anabranch
