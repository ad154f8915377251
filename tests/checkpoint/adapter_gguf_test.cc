// LoRA adapters as llama.cpp writes them.
#include <gtest/gtest.h>

#include "checkpoint/adapter_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_writer.h"
#include "temp_dir.h"

namespace anabranch {
namespace {

using testing::GgufWriter;
using testing::TempDir;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// [rank, in] and [out, rank] of a module with 3 inputs and 2 outputs.
const std::vector<float> kA = {1, 2, 3, 4, 5, 6};
const std::vector<float> kB = {1, -2, 0.5, 4};

std::string floats(const std::vector<float>& x) {
  return std::string(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
}
std::vector<float> values(const Tensor& x) {
  return {x.data<float>(), x.data<float>() + x.size()};
}
Error error_of(const Result<AdapterFile>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error() : result.error();
}

GgufWriter gguf_adapter(const std::string& arch, std::optional<float> alpha = std::nullopt) {
  GgufWriter w;
  w.text("general.architecture", arch).text("general.type", "adapter").text("adapter.type", "lora");
  if (alpha) w.f32("adapter.lora.alpha", *alpha);
  return w;
}

Result<AdapterFile> read_gguf_of(const GgufWriter& writer, const Json& config = Json()) {
  TempDir dir;
  dir.write("adapter.gguf", writer.bytes());
  return read_adapter(dir.file("adapter.gguf"), config);
}

TEST(AdapterGguf, matrices) {
  const auto with = [](std::optional<float> alpha) {
    GgufWriter w = gguf_adapter("qwen3", alpha);
    w.text("general.base_model.0.name", "Base");
    w.tensor("blk.0.attn_q.weight.lora_a", {3, 2}, 0, floats(kA));
    w.tensor("blk.0.attn_q.weight.lora_b", {2, 2}, 0, floats(kB));
    return w;
  };
  const auto file = read_gguf_of(with(4));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->base, "Base");
  ASSERT_EQ(file->modules.size(), 1u);
  EXPECT_EQ(file->modules.begin()->first, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(values(file->modules.begin()->second.down), kA);
  EXPECT_EQ(values(file->modules.begin()->second.up), (std::vector<float>{2, -4, 1, 8}));  // alpha 4, rank 2
  for (const auto alpha : {std::optional<float>(), std::optional(0.0f)}) {
    const auto plain = read_gguf_of(with(alpha));
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    EXPECT_EQ(values(plain->modules.begin()->second.up), kB);
  }
  // The embedding's A is stored the other way round.
  GgufWriter embedding = gguf_adapter("qwen3", 2.0f);
  embedding.tensor("token_embd.weight.lora_a", {2, 3}, 0, floats({1, 4, 2, 5, 3, 6}));
  embedding.tensor("token_embd.weight.lora_b", {2, 2}, 0, floats(kB));
  const auto tokens = read_gguf_of(embedding);
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  EXPECT_EQ(values(tokens->modules.at("model.embed_tokens").down), kA);
  EXPECT_EQ(values(tokens->modules.at("model.embed_tokens").up), kB);
}

// Their rows have another order, which shapes do not show.
TEST(AdapterGguf, adapters_of_other_families) {
  GgufWriter w = gguf_adapter("qwen3");
  w.tensor("blk.0.attn_q.weight.lora_a", {3, 2}, 0, floats(kA));
  w.tensor("blk.0.attn_q.weight.lora_b", {2, 2}, 0, floats(kB));
  EXPECT_TRUE(read_gguf_of(w, {{"model_type", "qwen3_moe"}}).ok());
  for (const char* other : {"llama", "mistral", "gemma3"})
    EXPECT_HAS(error_of(read_gguf_of(w, {{"model_type", other}})).message, "adapter of qwen3 models");
}

TEST(AdapterGguf, files_that_are_no_adapters) {
  const auto error = [](const GgufWriter& writer) { return error_of(read_gguf_of(writer)).message; };
  EXPECT_HAS(error(GgufWriter::llama()), "is not an adapter");
  GgufWriter control;
  control.text("general.architecture", "qwen3").text("general.type", "adapter").text("adapter.type", "ia3");
  EXPECT_HAS(error(control), "\"adapter.type\" is \"ia3\"");
  EXPECT_HAS(error(gguf_adapter("qwen3").numbers("adapter.alora.invocation_tokens", {1})),
             "after certain tokens");
  EXPECT_HAS(error(gguf_adapter("grok")), "\"grok\" cannot be read");
  EXPECT_HAS(error(gguf_adapter("qwen3").text("adapter.lora.alpha", "4")),
             "\"adapter.lora.alpha\" is not a number");
  EXPECT_HAS(error(gguf_adapter("qwen3")), "changes no module");
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_norm.weight", "blk.0.new_part.weight.lora_a",
                           "blk.0.attn_q.bias.lora_a", "lora_a", ".lora_a"})
    EXPECT_HAS(error(gguf_adapter("qwen3").tensor(name, {1}, 0, floats({1}))),
               fmt::format("tensor \"{}\" is ", name));
  GgufWriter coded = gguf_adapter("qwen3");
  coded.tensor("blk.0.attn_q.weight.lora_a", {32, 1}, 8, std::string(34, '\1'));
  coded.tensor("blk.0.attn_q.weight.lora_b", {1, 1}, 0, floats({1}));
  EXPECT_HAS(error(coded), "type Q8_0 cannot be read");
}

// Numbers that tell all rows and columns apart.
std::vector<float> numbered(int64_t rows, int64_t cols) {
  std::vector<float> out;
  for (int64_t i = 0; i < rows * cols; i++) out.push_back(static_cast<float>(i + 1));
  return out;
}
std::vector<float> identity(int64_t size) {
  std::vector<float> out(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; i++) out[static_cast<size_t>(i * size + i)] = 1;
  return out;
}
std::vector<float> product(const LowRankMatrices& m) {
  const int out = m.up.shape(0), rank = m.up.shape(1), in = m.down.shape(1);
  std::vector<float> result(static_cast<size_t>(out) * in);
  for (int o = 0; o < out; o++)
    for (int k = 0; k < rank; k++)
      for (int i = 0; i < in; i++)
        result[static_cast<size_t>(o) * in + i] +=
            m.up.data<float>()[o * rank + k] * m.down.data<float>()[k * in + i];
  return result;
}

struct GgufMatrix {
  std::string name, module;
  int64_t rows, cols;
};

// An adapter that adds a model's whole matrix adds it in the order in which the model's reader has it.
void expect_orders_of_model(GgufWriter model, const std::string& arch,
                            const std::vector<GgufMatrix>& matrices) {
  GgufWriter rows = gguf_adapter(arch), columns = gguf_adapter(arch);
  for (const auto& [name, module, out, in] : matrices) {
    const auto o = static_cast<uint64_t>(out), i = static_cast<uint64_t>(in);
    const std::string values = floats(numbered(out, in));
    model.tensor(name, {i, o}, 0, values);
    rows.tensor(name + ".lora_a", {i, i}, 0, floats(identity(in)))
        .tensor(name + ".lora_b", {i, o}, 0, values);
    columns.tensor(name + ".lora_a", {i, o}, 0, values)
        .tensor(name + ".lora_b", {o, o}, 0, floats(identity(out)));
  }
  TempDir dir;
  dir.write("model.gguf", model.bytes());
  const auto base = Checkpoint::open(dir.file("model.gguf"));
  ASSERT_TRUE(base.ok()) << base.error().message;
  for (const GgufWriter& writer : {rows, columns}) {
    const auto file = read_gguf_of(writer, (*base)->config());
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_EQ(file->modules.size(), matrices.size());
    for (const auto& [name, module, out, in] : matrices) {
      (*base)->reopen(module);
      const auto weight = (*base)->take(module + ".weight", {out, in});
      ASSERT_TRUE(weight.ok()) << weight.error().message;
      EXPECT_EQ(product(file->modules.at(module)), values(*weight)) << name;
      if (name != matrices[0].name) continue;
      EXPECT_NE(values(*weight), numbered(out, in)) << "the order is the same";
    }
  }
}

TEST(AdapterGguf, rotary_order_is_undone) {
  GgufWriter model = GgufWriter::llama();  // 2 heads of 16
  model.u32("llama.attention.head_count_kv", 1);
  const std::string layer = "model.layers.0.";
  expect_orders_of_model(model, "llama",
                         {{"blk.0.attn_q.weight", layer + "self_attn.q_proj", 32, 3},
                          {"blk.0.attn_k.weight", layer + "self_attn.k_proj", 16, 3},
                          {"blk.0.attn_v.weight", layer + "self_attn.v_proj", 16, 3},
                          {"blk.0.ffn_down.weight", layer + "mlp.down_proj", 3, 5}});
}

TEST(AdapterGguf, value_head_order_is_undone) {
  GgufWriter w;  // 2 key heads of 3, 4 value heads of 2
  w.text("general.architecture", "qwen35").u32("qwen35.block_count", 1).u32("qwen35.context_length", 64);
  w.u32("qwen35.embedding_length", 5).u32("qwen35.feed_forward_length", 32);
  w.u32("qwen35.attention.head_count", 2).u32("qwen35.attention.key_length", 4);
  w.f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f).u32("qwen35.ssm.conv_kernel", 4);
  w.u32("qwen35.ssm.state_size", 3).u32("qwen35.ssm.group_count", 2);
  w.u32("qwen35.ssm.time_step_rank", 4).u32("qwen35.ssm.inner_size", 8);
  w.tensor("token_embd.weight", {5, 1}, 0, floats({0, 0, 0, 0, 0}));
  const std::string layer = "model.layers.0.linear_attn.";
  expect_orders_of_model(w, "qwen35",
                         {{"blk.0.attn_qkv.weight", layer + "in_proj_qkv", 20, 5},
                          {"blk.0.attn_gate.weight", layer + "in_proj_z", 8, 5},
                          {"blk.0.ssm_alpha.weight", layer + "in_proj_a", 4, 5},
                          {"blk.0.ssm_beta.weight", layer + "in_proj_b", 4, 5},
                          {"blk.0.ssm_out.weight", layer + "out_proj", 5, 8},
                          {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj", 16, 5}});
}

TEST(AdapterGguf, rotary_order_of_hybrids_is_undone) {
  for (const char* arch : {"granitehybrid", "nemotron_h", "nemotron_h_moe"}) {
    GgufWriter w = gguf_adapter(arch);
    w.tensor("blk.0.attn_k.weight.lora_a", {1, 1}, 0, floats({1}));
    w.tensor("blk.0.attn_k.weight.lora_b", {1, 4}, 0, floats({1, 2, 3, 4}));
    const auto file = read_gguf_of(w, {{"num_attention_heads", 2}, {"num_key_value_heads", 1}});
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(values(file->modules.begin()->second.up), (std::vector<float>{1, 3, 2, 4})) << arch;
  }
}

TEST(AdapterGguf, order_needs_the_base_models_heads) {
  GgufWriter llama = gguf_adapter("llama");
  llama.tensor("blk.0.attn_k.weight.lora_a", {1, 1}, 0, floats({1}));
  llama.tensor("blk.0.attn_k.weight.lora_b", {1, 4}, 0, floats({1, 2, 3, 4}));
  const auto ups = [&](const char* config) {
    const auto file = read_gguf_of(llama, *parse_json(config));
    EXPECT_TRUE(file.ok()) << file.error().message;
    return file.ok() ? values(file->modules.begin()->second.up) : std::vector<float>();
  };
  const std::vector<float> one_head = {1, 3, 2, 4};
  EXPECT_EQ(ups(R"({"num_attention_heads": 1})"), one_head);
  EXPECT_EQ(ups(R"({"num_attention_heads": 2, "num_key_value_heads": 1})"), one_head);
  EXPECT_EQ(ups(R"({"num_attention_heads": 2, "num_key_value_heads": null})"),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(ups(R"({"text_config": {"num_attention_heads": 1}, "num_attention_heads": 2})"), one_head);
  const auto error = [&](const GgufWriter& writer, const Json& config) {
    return error_of(read_gguf_of(writer, config)).message;
  };
  EXPECT_HAS(error(llama, Json()), "\"num_attention_heads\", which the base model's config lacks");
  for (const char* heads : {"0", "-1", "1048577", "\"1\"", "1.5"})
    EXPECT_HAS(error(llama, *parse_json(fmt::format(R"({{"num_attention_heads": {}}})", heads))),
               "\"num_attention_heads\"");
  EXPECT_HAS(error(llama, *parse_json(R"({"num_attention_heads": 3})")), "shape [4, 1] does not fit");
  const char* hybrid = R"({{"linear_num_key_heads": 2, "linear_num_value_heads": {},
                          "linear_key_head_dim": 2, "linear_value_head_dim": 2}})";
  GgufWriter gate = gguf_adapter("qwen35");
  gate.tensor("blk.0.attn_gate.weight.lora_a", {1, 1}, 0, floats({1}));
  gate.tensor("blk.0.attn_gate.weight.lora_b", {1, 8}, 0, floats({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(read_gguf_of(gate, *parse_json(fmt::format(fmt::runtime(hybrid), 4))).ok());
  EXPECT_HAS(error(gate, *parse_json(fmt::format(fmt::runtime(hybrid), 3))), "3 value heads for 2 key heads");
  EXPECT_HAS(error(gate, *parse_json(fmt::format(fmt::runtime(hybrid), 6))), "shape [8, 1] does not fit");
  EXPECT_HAS(error(gate, Json()), "\"linear_num_key_heads\"");
}

}  // namespace
}  // namespace anabranch
