#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/float16.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dense.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/store.h"

namespace anabranch {
namespace {

using testing::gguf_string;
using testing::GgufWriter;
using testing::le;

const std::string kData = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/";

std::unique_ptr<Checkpoint> open_ok(const std::string& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

std::vector<float> values_of(Checkpoint& checkpoint, const std::string& name,
                             const std::vector<int64_t>& shape) {
  auto value = checkpoint.take(name, shape);
  EXPECT_TRUE(value.ok()) << value.error().message;
  return value.ok() ? std::vector<float>(value->data<float>(), value->data<float>() + value->size())
                    : std::vector<float>();
}

// ---------------------------------------------------------------- values

// gguf-py quantises some types, and only reads others.
std::string file_of(const std::string& type) {
  const bool table = type.starts_with("IQ") || type.starts_with("TQ") || type.ends_with("FP4");
  return kData + (table ? "table_quants.gguf" : "quants.gguf");
}

class GgufValues : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufValues, equal_those_of_gguf_py) {
  const std::string type = GetParam();
  auto c = open_ok(file_of(type));
  ASSERT_TRUE(c);
  const auto info = c->find(type + ".weight");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->type, type);
  auto source = c->take_matrix(type + ".weight", info->shape[0], info->shape[1]);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const auto expected = values_of(*c, type + ".expected", info->shape);
  // Row by row, from the last: reading must not depend on what was read before.
  std::vector<float> row(source->cols);
  float largest = 0, worst = 0;
  for (int64_t r = source->rows - 1; r >= 0; r--) {
    read_values(*source, r, 1, row.data());
    for (int64_t i = 0; i < source->cols; i++) {
      largest = std::max(largest, std::abs(expected[r * source->cols + i]));
      worst = std::max(worst, std::abs(expected[r * source->cols + i] - row[i]));
    }
  }
  EXPECT_GT(largest, 0.01f);
  // With biases, and in Q3_K and the like, the order of the last two operations differs.
  EXPECT_LE(worst, file_of(type) == kData + "table_quants.gguf" ? 0 : 1e-6f * largest);
}

TEST_P(GgufValues, codes_keep_their_promises) {
  const std::string type = GetParam();
  auto c = open_ok(file_of(type));
  const auto info = c->find(type + ".weight");
  auto source = *c->take_matrix(type + ".weight", info->shape[0], info->shape[1]);
  if (!is_coded(source.kind)) return;
  const int64_t groups = source.cols / source.group;
  std::vector<uint8_t> codes(source.rows * source.cols);
  std::vector<float> scales(source.rows * groups), biases(source.rows * groups, -99.0f);
  source.read_codes(0, source.rows, codes.data(), scales.data(), biases.data());
  for (uint8_t code : codes) ASSERT_LT(code, 1 << source.bits);
  for (float bias : biases) {
    if (source.symmetric)
      ASSERT_EQ(bias, -99.0f);  // untouched
    else
      ASSERT_NE(bias, -99.0f);
  }
}

// The integers and factors of a K-quant make the very scales that read_codes gives, for any rows in any
// order.
void expect_block_scales(const WeightSource& source) {
  const int64_t groups = source.cols / source.group, blocks = source.cols / kScaleBlock;
  const int64_t first = source.rows > 1 ? 1 : 0, rows = source.rows - first;
  std::vector<uint8_t> codes(rows * source.cols), mins(rows * groups);
  std::vector<float> scales(rows * groups), biases(rows * groups);
  std::vector<uint16_t> d(rows * blocks), dmin(rows * blocks);
  std::vector<int8_t> integers(rows * groups);
  source.read_codes(first, rows, codes.data(), scales.data(), biases.data());
  source.read_block_scales(first, rows, {d.data(), dmin.data(), integers.data(), mins.data()});
  for (int64_t i = 0; i < rows * groups; i++) {
    const auto block = i * source.group / kScaleBlock;
    ASSERT_EQ(scales[i], f16_to_float(d[block]) * static_cast<float>(integers[i]) * source.scale_factor) << i;
    if (source.symmetric) continue;
    ASSERT_EQ(biases[i], -(f16_to_float(dmin[block]) * static_cast<float>(mins[i]))) << i;
  }
}

TEST_P(GgufValues, block_scales_make_the_scales) {
  const std::string type = GetParam();
  auto c = open_ok(file_of(type));
  const auto info = c->find(type + ".weight");
  const auto source = *c->take_matrix(type + ".weight", info->shape[0], info->shape[1]);
  const bool blocks = type.ends_with("_K") || (type.starts_with("IQ") && type != "IQ4_NL");
  ASSERT_EQ(source.read_block_scales != nullptr, blocks);
  if (!source.read_block_scales) return;
  expect_block_scales(source);
  std::vector<int64_t> order;
  for (int64_t r = source.rows; r-- > 0;) order.push_back(r);
  expect_block_scales(select_rows(source, order));
}

INSTANTIATE_TEST_SUITE_P(All, GgufValues,
                         ::testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K",
                                           "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS",
                                           "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0",
                                           "TQ2_0", "MXFP4", "NVFP4"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GgufNvfp4, FactorsOfAMatrixAndOfExperts) {
  auto c = open_ok(kData + "table_quants.gguf");
  ASSERT_TRUE(c);
  const auto expected = values_of(*c, "NVFP4.expected", {3, 128});
  const auto matrix = c->take_matrix("model.layers.0.self_attn.v_proj.weight", 3, 128);
  const auto experts = c->take_matrices("model.layers.0.mlp.switch_mlp.up_proj.weight", 3, 1, 128);
  ASSERT_TRUE(matrix.ok() && experts.ok());
  std::vector<float> one(3 * 128), three(3 * 128);
  read_values(*matrix, 0, 3, one.data());
  read_values(*experts, 0, 3, three.data());
  for (int i = 0; i < 3 * 128; i++) {
    ASSERT_FLOAT_EQ(one[i], expected[i] * 3) << i;
    ASSERT_FLOAT_EQ(three[i], expected[i] * static_cast<float>(1 + i / 128 * 2)) << i;
  }
  for (const TensorInfo& info : c->tensors())
    EXPECT_EQ(info.name.find("scale"), std::string::npos) << info.name;
}

// ---------------------------------------------------------------- the same model twice

void expect_same_config(const Json& gguf, const Json& hf) {
  for (const auto& [key, value] : hf.items()) {
    if (key == "attention_bias") {  // GGUF files say it of q, k, v and of o; these have none on o
      EXPECT_EQ(gguf["attention_qkv_bias"], value);
      EXPECT_EQ(gguf["attention_out_bias"], false);
      continue;
    }
    ASSERT_TRUE(gguf.contains(key)) << key;
    if (value.is_number_float())
      EXPECT_FLOAT_EQ(gguf[key].get<float>(), value.get<float>()) << key;
    else if (value.is_object())
      expect_same_config(gguf[key], value);
    else
      EXPECT_EQ(gguf[key], value) << key;
  }
}

void expect_same_tensors(Checkpoint& gguf, Checkpoint& hf, float tolerance) {
  for (const TensorInfo& info : hf.tensors()) {
    const auto other = gguf.find(info.name);
    ASSERT_TRUE(other) << info.name;
    EXPECT_EQ(other->norms, NormConvention::plain);
    const auto expected = values_of(hf, info.name, info.shape);
    const auto got = values_of(gguf, info.name, other->shape);
    ASSERT_EQ(got.size(), expected.size()) << info.name;
    const bool shifted =
        info.norms == NormConvention::offset && info.name.find("norm") != std::string::npos &&
        info.name.find("linear_attn") == std::string::npos && gguf.config()["model_type"] != "llama";
    for (size_t i = 0; i < got.size(); i++)
      ASSERT_NEAR(got[i], expected[i] + (shifted ? 1.0f : 0.0f), tolerance) << info.name << " " << i;
  }
}

TEST(GgufModel, llama_equals_its_hugging_face_twin) {
  auto gguf = open_ok(kData + "llama.gguf");
  auto hf = open_ok(kData + "llama");
  ASSERT_TRUE(gguf && hf);
  EXPECT_EQ(gguf->name(), "llama");
  expect_same_config(gguf->config(), hf->config());
  EXPECT_EQ(gguf->gguf_texts().at("tokenizer.ggml.tokens").size(), 8u);
  EXPECT_EQ(gguf->side_file("tokenizer.json"), std::nullopt);
  expect_same_tensors(*gguf, *hf, 1e-4f);                 // lm_head is F16 here
  EXPECT_FALSE(gguf->config().contains("rope_scaling"));  // rope_freqs.weight has ones
  EXPECT_TRUE(gguf->finish().ok());
}

TEST(GgufModel, qwen35_equals_its_hugging_face_twin) {
  auto gguf = open_ok(kData + "qwen35.gguf");
  auto hf = open_ok(kData + "qwen35");
  ASSERT_TRUE(gguf && hf);
  expect_same_config(gguf->config(), hf->config()["text_config"]);
  EXPECT_EQ(gguf->tensors().size(), hf->tensors().size());
  expect_same_tensors(*gguf, *hf, 6e-4f);  // the Q8_0 matrix is rounded to bf16 in the other
  EXPECT_TRUE(gguf->finish().ok()) << gguf->finish().error().message;
}

TEST(GgufModel, names) {
  GgufConfig config{GgufArch::qwen35, 4};
  EXPECT_EQ(hf_name(config, "blk.3.attn_q.weight"), "model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(hf_name(config, "blk.4.nextn.eh_proj.weight"), "mtp.fc.weight");
  EXPECT_EQ(hf_name(config, "blk.4.ffn_up.weight"), "mtp.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(hf_name(config, "blk.5.nextn.eh_proj.weight"), "mtp.layers.1.nextn.eh_proj.weight");
  EXPECT_EQ(hf_name(config, "blk.4.unheard_of.weight"), "mtp.layers.0.unheard_of.weight");
  EXPECT_EQ(hf_name(config, "blk.0.ssm_a"), "model.layers.0.linear_attn.A_log");
  // Ollama's
  EXPECT_EQ(hf_name(config, "blk.0.ssm_dt"), "model.layers.0.linear_attn.dt_bias");
  EXPECT_EQ(hf_name(config, "mtp.layers.0.post_attention_norm.weight"),
            "mtp.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(hf_name(config, "mtp.layers.1.ffn_up_exps.weight"), "mtp.layers.1.mlp.switch_mlp.up_proj.weight");
  EXPECT_EQ(hf_name(config, "mtp.shared_head.norm.weight"), "mtp.norm.weight");
  for (const char* same :
       {"mtp.fc.weight", "mtp.layers.0.mlp.experts.3.up_proj.weight", "mtp.layers.0", "mtp."})
    EXPECT_EQ(hf_name(config, same), same);
  for (const char* unknown : {"blk.0.unheard_of.weight", "blk.x.attn_q.weight", "blk.", "blk.1", "blk.1.",
                              "blk.99999999999999999999.attn_q.weight", "x"})
    EXPECT_EQ(hf_name(config, unknown), unknown);
}

// What is behind the layers is for prediction: without it the model is whole.
TEST(GgufModel, LayersForPredictionMayBeUnreadable) {
  const auto opened = [](const std::string& name) {
    GgufWriter w = GgufWriter::llama(2);
    w.u32("llama.nextn_predict_layers", 1).tensor(name, {256}, 99, "");
    const std::string bytes = w.bytes();
    return read_gguf({FileBytes{"x.gguf", std::as_bytes(std::span(bytes)), nullptr}});
  };
  for (const char* name : {"blk.1.attn_q.weight", "blk.1.nextn.eh_proj.weight", "blk.1.unheard_of.weight"}) {
    auto parts = opened(name);
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    const auto store = make_store(std::move(*parts)).value();
    EXPECT_TRUE(store->check_types(std::vector<std::string>{"mtp."}).ok()) << name;
    const auto types = store->check_types({});
    ASSERT_FALSE(types.ok());
    EXPECT_NE(types.error().message.find("type number 99"), std::string::npos) << types.error().message;
  }
  for (const char* name : {"blk.0.attn_q.weight", "output_norm.weight"}) {
    const auto parts = opened(name);
    ASSERT_FALSE(parts.ok()) << name;
    EXPECT_NE(parts.error().message.find("type number 99"), std::string::npos) << parts.error().message;
  }
}

// A header alone says so, too, before anything needs the embedding's size.
TEST(GgufModel, AnEmbeddingOfAnUnknownTypeIsNamed) {
  GgufWriter w;
  w.text("general.architecture", "llama").tensor("token_embd.weight", {32, 1}, 99, "");
  const std::string bytes = w.bytes();
  const auto parts = read_gguf({FileBytes{"x.gguf", std::as_bytes(std::span(bytes)), nullptr}});
  ASSERT_FALSE(parts.ok());
  EXPECT_NE(parts.error().message.find("type number 99"), std::string::npos) << parts.error().message;
}

// ---------------------------------------------------------------- hostile files

struct Defect {
  const char* name;
  std::string bytes;
  const char* message;  // part of the expected one
};

std::string open_error(const std::string& bytes) {
  const auto parts = read_gguf({FileBytes{"x.gguf", std::as_bytes(std::span(bytes)), nullptr}});
  return parts.ok() ? "" : parts.error().message;
}

class GgufDefect : public ::testing::TestWithParam<Defect> {};

TEST_P(GgufDefect, is_named) {
  const std::string message = open_error(GetParam().bytes);
  EXPECT_NE(message.find("x.gguf"), std::string::npos) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

std::string with(void (*change)(GgufWriter&)) {
  GgufWriter writer = GgufWriter::llama();
  change(writer);
  return writer.bytes();
}

std::string header(uint64_t tensors, uint64_t keys) {
  return "GGUF" + le<uint32_t>(3) + le(tensors) + le(keys);
}

const uint64_t kHuge = ~uint64_t{0};
const std::string kRow(128, '\0');  // 32 floats

INSTANTIATE_TEST_SUITE_P(
    All, GgufDefect,
    ::testing::Values(
        Defect{"empty", "", "not a GGUF file"},
        Defect{"magic", with([](GgufWriter& w) { w.magic = "GGML"; }), "not a"},
        Defect{"short_header", "GGUF\3\0\0", "its header"},
        Defect{"version_1", with([](GgufWriter& w) { w.version = 1; }), "version 1"},
        Defect{"version_9", with([](GgufWriter& w) { w.version = 9; }), "version 9"},
        Defect{"big_endian", with([](GgufWriter& w) { w.version = 3u << 24; }), "big-endian"},
        Defect{"many_keys", header(0, kHuge), "keys are absurd"},
        Defect{"many_tensors", header(kHuge, 0), "tensors are absurd"},
        Defect{"keys_missing", header(0, 1), "a metadata key: truncated"},
        Defect{"key_length", header(0, 1) + le(kHuge), "a metadata key: a string of"},
        Defect{"no_value_type", header(0, 1) + gguf_string("k"), "\"k\": truncated"},
        Defect{"value_type", with([](GgufWriter& w) { w.key("k", 77, ""); }), "\"k\": value type 77"},
        Defect{"value_truncated", header(0, 1) + gguf_string("k") + le<uint32_t>(10) + "1234",
               "\"k\": truncated"},
        Defect{"string_long", header(0, 1) + gguf_string("k") + le<uint32_t>(8) + le<uint64_t>(1u << 30),
               "1073741824 bytes"},
        Defect{"string_truncated",
               header(0, 1) + gguf_string("k") + le<uint32_t>(8) + le<uint64_t>(9) + "abc", "truncated"},
        Defect{"array_huge", header(0, 1) + gguf_string("k") + le<uint32_t>(9) + le<uint32_t>(0) + le(kHuge),
               "elements"},
        Defect{"array_truncated",
               header(0, 1) + gguf_string("k") + le<uint32_t>(9) + le<uint32_t>(4) + le<uint64_t>(4),
               "truncated"},
        Defect{"array_deep", with([](GgufWriter& w) {
                 std::string nest;
                 for (int i = 0; i < 9; i++) nest += le<uint32_t>(9) + le<uint64_t>(1);
                 w.key("k", 9, nest);
               }),
               "nested"},
        Defect{"key_twice", with([](GgufWriter& w) { w.u32("k", 1).u32("k", 2); }), "\"k\" is there twice"},
        Defect{"alignment_0", with([](GgufWriter& w) { w.u32("general.alignment", 0); }), "alignment"},
        Defect{"alignment_text", with([](GgufWriter& w) { w.text("general.alignment", "x"); }), "alignment"},
        Defect{"split", with([](GgufWriter& w) { w.u32("split.count", 3); }), "part 1 of 3, but part 1 of 1"},
        Defect{"no_epsilon",
               GgufWriter()
                   .text("general.architecture", "llama")
                   .u32("llama.block_count", 1)
                   .u32("llama.context_length", 64)
                   .u32("llama.embedding_length", 32)
                   .u32("llama.feed_forward_length", 32)
                   .u32("llama.attention.head_count", 2)
                   .bytes(),
               "layer_norm_rms_epsilon\" is missing"},
        Defect{"rank_0", with([](GgufWriter& w) { w.tensor("t", {}, 0, ""); }), "tensor \"t\": 0 dimensions"},
        Defect{"rank_5", with([](GgufWriter& w) {
                 w.tensor("t", {1, 1, 1, 1, 1}, 0, "1234");
               }),
               "5 dimensions"},
        Defect{"dim_0", with([](GgufWriter& w) { w.tensor("t", {0}, 0, ""); }), "dimension 0"},
        Defect{"dim_huge", with([](GgufWriter& w) { w.tensor("t", {kHuge}, 0, ""); }), "is absurd"},
        Defect{"overflow", with([](GgufWriter& w) {
                 w.tensor("t", {1u << 30, 1u << 30, 1u << 30}, 0, "");
               }),
               "overflows"},
        Defect{"type_known", with([](GgufWriter& w) { w.tensor("t", {256}, 15, ""); }), "\"t\": type Q8_K"},
        Defect{"type_unknown", with([](GgufWriter& w) { w.tensor("t", {256}, 99, ""); }), "type number 99"},
        Defect{"ragged_block", with([](GgufWriter& w) { w.tensor("t", {33}, 8, kRow); }),
               "whole blocks of 32"},
        Defect{"offset_odd", with([](GgufWriter& w) { w.tensor("t", {32}, 0, kRow, 129); }),
               "multiple of the alignment"},
        Defect{"offset_beyond", with([](GgufWriter& w) { w.tensor("t", {32}, 0, kRow, 1 << 20); }),
               "truncated"},
        Defect{"offset_huge", with([](GgufWriter& w) { w.tensor("t", {32}, 0, kRow, INT64_MAX - 31); }),
               "truncated"},
        Defect{"data_short", with([](GgufWriter& w) { w.tensor("t", {32}, 0, "1234"); }), "\"t\": 128 bytes"},
        Defect{"overlap", with([](GgufWriter& w) { w.tensor("t", {32}, 0, kRow, 96); }),
               "overlaps \"token_embd.weight\""},
        Defect{"tensor_twice", with([](GgufWriter& w) { w.tensor("token_embd.weight", {32}, 0, kRow); }),
               "there twice"},
        Defect{"no_architecture", GgufWriter().bytes(), "general.architecture"},
        Defect{"adapter",
               GgufWriter().text("general.architecture", "llama").text("general.type", "adapter").bytes(),
               "is an adapter (LoRA)"},
        Defect{"architecture", GgufWriter().text("general.architecture", "grok").bytes(),
               "\"grok\" cannot be read"},
        Defect{"no_layers", GgufWriter().text("general.architecture", "llama").bytes(),
               "\"llama.block_count\" is missing"},
        Defect{"no_heads",
               GgufWriter()
                   .text("general.architecture", "llama")
                   .u32("llama.block_count", 1)
                   .u32("llama.embedding_length", 32)
                   .u32("llama.feed_forward_length", 32)
                   .u32("llama.attention.head_count", 0)
                   .bytes(),
               "head_count\" is not a sensible number"},
        Defect{"factors", with([](GgufWriter& w) {  // one for each two rows of one matrix
                 w.tensor("blk.0.attn_v.weight", {64, 4}, 40, std::string(4 * 36, '\0'))
                     .tensor("blk.0.attn_v.scale", {2}, 0, std::string(8, '\0'));
               }),
               "\"blk.0.attn_v.scale\": 2 factors of F32 for 4 rows"},
        Defect{"experts", with([](GgufWriter& w) { w.u32("llama.expert_count", 8); }), "expert_used_count"},
        Defect{"rope_scaling", with([](GgufWriter& w) { w.text("llama.rope.scaling.type", "longrope"); }),
               "longrope"},
        Defect{"query_rows", with([](GgufWriter& w) {
                 w.tensor("blk.0.attn_q.weight", {32, 1}, 0, kRow);
               }),
               "\"blk.0.attn_q.weight\": shape [1, 32] does not fit"}),
    [](const auto& info) { return info.param.name; });

TEST(Gguf, every_truncation_is_an_error) {
  const std::string whole = GgufWriter::llama().tensor("t", {32}, 8, std::string(34, '\1')).bytes();
  EXPECT_EQ(open_error(whole), "");
  for (size_t n = 0; n < whole.size(); n++) ASSERT_NE(open_error(whole.substr(0, n)), "") << n;
}

// Mamba2's decays are a matrix of one column, one for each head.
TEST(Gguf, granite_decays_must_fit) {
  const auto with = [](std::vector<uint64_t> shape, const std::vector<float>& decays) {
    GgufWriter w;
    w.text("general.architecture", "granitehybrid").u32("granitehybrid.block_count", 1);
    for (const char* key : {"context_length", "embedding_length", "feed_forward_length", "ssm.conv_kernel",
                            "ssm.state_size", "ssm.inner_size"})
      w.u32(std::string("granitehybrid.") + key, 32);
    w.u32("granitehybrid.attention.head_count", 2).u32("granitehybrid.ssm.group_count", 1);
    w.u32("granitehybrid.ssm.time_step_rank", 2);
    w.f32("granitehybrid.attention.layer_norm_rms_epsilon", 1e-6f);
    w.tensor("token_embd.weight", {32, 1}, 0, kRow);
    std::string bytes;
    for (const float decay : decays) bytes += le(decay);
    return open_error(w.tensor("blk.0.ssm_a", shape, 0, bytes).bytes());
  };
  EXPECT_EQ(with({1, 2}, {-1, -0.5f}), "");
  EXPECT_EQ(with({2}, {-1, -0.5f}), "");
  EXPECT_NE(with({1, 2}, {-1, 0.5f}).find("a decay of 0.5 is not below zero"), std::string::npos);
  EXPECT_NE(with({1, 3}, {-1, -2, -3}).find("\"blk.0.ssm_a\": shape"), std::string::npos);
}

TEST(Gguf, qwen35_decay_must_be_negative) {
  GgufWriter w;
  w.text("general.architecture", "qwen35").u32("qwen35.block_count", 1).u32("qwen35.context_length", 64);
  w.u32("qwen35.embedding_length", 32)
      .u32("qwen35.feed_forward_length", 32)
      .u32("qwen35.attention.head_count", 2)
      .f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
  w.u32("qwen35.ssm.conv_kernel", 4).u32("qwen35.ssm.state_size", 8).u32("qwen35.ssm.group_count", 1);
  w.u32("qwen35.ssm.time_step_rank", 2).u32("qwen35.ssm.inner_size", 16);
  w.tensor("token_embd.weight", {32, 1}, 0, kRow);
  EXPECT_EQ(open_error(w.bytes()), "");
  GgufWriter odd = w;
  EXPECT_NE(open_error(odd.tensor("blk.0.ssm_a", {2}, 0, le(-1.0f) + le(0.5f)).bytes()).find("below zero"),
            std::string::npos);
  GgufWriter wide = w;  // 16 columns promised, groups of 32
  EXPECT_NE(
      open_error(wide.tensor("blk.0.ssm_out.weight", {32, 1}, 8, std::string(34, '\1')).bytes()).find("fit"),
      std::string::npos);
}

}  // namespace
}  // namespace anabranch
