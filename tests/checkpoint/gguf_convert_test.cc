// Models written as GGUF files: what the file says, and that its weights are the source's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/float16.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_encode.h"
#include "checkpoint/gguf_mix.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/write_format.h"

namespace anabranch {
namespace {

using testing::SafetensorsWriter;
using testing::TempDir;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string fixture(const std::string& name) {
  return ANABRANCH_SOURCE_DIR "/tests/models/data/" + name +
         (name.ends_with("_gguf") ? "/model.gguf" : "/model");
}

ConvertOptions gguf_to(const std::string& output, ConvertFormat format) {
  ConvertOptions options;
  options.output = output;
  options.format = format;
  return options;
}

std::vector<float> random_values(size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& v : out) {
    v = 0;
    for (int i = 0; i < 6; i++) v += static_cast<float>(random() >> 8) / (1 << 24) - 0.5f;  // nearly normal
    v *= scale * (random() % 50 == 0 ? 4 : 1);
  }
  return out;
}

struct Encoded {
  std::vector<float> values;
  double error = 0;  // squared, weighted, relative to the weighted squares
};

Encoded encode(const char* type_name, const std::vector<float>& w, const std::vector<float>& h) {
  const GgufType& type = *find_gguf_type(std::string_view(type_name));
  std::vector<std::byte> bytes(w.size() / type.block * type.bytes);
  for (size_t i = 0; i * type.block < w.size(); i++)
    find_gguf_encoder(type_name)->encode(&w[i * type.block], &h[i * type.block],
                                         reinterpret_cast<uint8_t*>(&bytes[i * type.bytes]));
  Encoded out{std::vector<float>(w.size()), 0};
  read_values(gguf_source(type, bytes.data(), 1, static_cast<int64_t>(w.size()), nullptr), 0, 1,
              out.values.data());
  double energy = 0;
  for (size_t i = 0; i < w.size(); i++) {
    const double e = double{w[i]} - out.values[i];
    out.error += h[i] * e * e;
    energy += double{h[i]} * w[i] * w[i];
  }
  out.error /= energy;
  return out;
}

// At most what ggml_quantize_chunk of llama.cpp (October 2026) reaches on the same values, with an importance
// matrix of ones, which makes it search longest.
TEST(GgufEncode, ErrorsAreBelowLlamaCpps) {
  struct Case {
    const char* type;
    double most;
  };
  const std::vector<float> w = random_values(256 * 400, 0.02f, 1), ones(w.size(), 1.0f);
  for (const auto& [type, most] :
       {Case{"Q4_K", 6.633e-3}, Case{"Q5_K", 1.683e-3}, Case{"Q6_K", 4.546e-4}, Case{"IQ4_XS", 8.345e-3},
        Case{"IQ4_NL", 8.097e-3}, Case{"Q5_0", 2.965e-3}, Case{"Q5_1", 1.496e-3}, Case{"Q8_0", 4.952e-5}}) {
    const double error = encode(type, w, ones).error;
    EXPECT_LE(error, most) << type;
    EXPECT_GT(error, most / 2) << type << ": too good to be true";
  }
}

TEST(GgufEncode, ImportantColumnsAreMoreExact) {
  const std::vector<float> w = random_values(256 * 100, 0.02f, 2);
  std::vector<float> h(w.size()), ones(w.size(), 1.0f);
  for (size_t i = 0; i < h.size(); i++) h[i] = i % 8 == 0 ? 10 : 0.1f;
  for (const char* type : {"Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ4_NL", "Q5_0", "Q5_1"}) {
    const Encoded weighted = encode(type, w, h), plain = encode(type, w, ones);
    double plain_error = 0, energy = 0;
    for (size_t i = 0; i < w.size(); i++) {
      plain_error += h[i] * std::pow(double{w[i]} - plain.values[i], 2);
      energy += double{h[i]} * w[i] * w[i];
    }
    EXPECT_LT(weighted.error, 0.9 * plain_error / energy) << type;
  }
}

TEST(GgufEncode, ZerosEqualValuesAndExtremes) {
  for (const char* type : {"Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ4_NL", "Q5_0", "Q5_1", "Q8_0"}) {
    const std::vector<float> ones(256, 1.0f);
    for (const float v : {0.0f, 1.0f, -1.0f, 0.05f}) {
      const Encoded out = encode(type, std::vector<float>(256, v), ones);
      for (const float value : out.values) ASSERT_NEAR(value, v, std::fabs(v) * 0.01f) << type;
    }
    // An outlier leaves the other groups alone.
    std::vector<float> w = random_values(256, 0.02f, 3);
    w[5] = 3;
    ASSERT_NEAR(encode(type, w, ones).values[5], 3, 0.1) << type;
    // Beyond f16: not finite, which the writer refuses.
    for (float& v : w) v *= 1e30f;
    const Encoded out = encode(type, w, ones);
    EXPECT_TRUE(std::ranges::any_of(out.values, [](float v) { return !std::isfinite(v); })) << type;
  }
}

TEST(GgufMix, TypesAreLlamaCpps) {
  const auto type_of = [](const char* mix, GgufMatrix m) {
    for (const GgufMix& known : gguf_mixes())
      if (known.name == mix) return std::string(choose_gguf_type(known, m).name);
    return std::string("no such mix");
  };
  GgufMatrix m{"blk.0.ffn_down.weight", 1024, 0, 32};
  EXPECT_EQ(type_of("q4_k_m", m), "Q6_K");  // the first eighth
  m.layer = 4;
  EXPECT_EQ(type_of("q4_k_m", m), "Q4_K");
  m.layer = 6;
  EXPECT_EQ(type_of("q4_k_m", m), "Q6_K");  // every third
  m.layer = 28;
  EXPECT_EQ(type_of("q4_k_m", m), "Q6_K");  // the last eighth
  m.name = "blk.28.attn_v.weight";
  EXPECT_EQ(type_of("q4_k_m", m), "Q6_K");
  m.name = "blk.28.attn_k.weight";
  EXPECT_EQ(type_of("q4_k_m", m), "Q4_K");
  m.cols = 576;  // not whole blocks of 256
  EXPECT_EQ(type_of("q4_k_m", m), "Q5_0");
  EXPECT_EQ(type_of("iq4_xs", m), "IQ4_NL");
  m.cols = 40;
  EXPECT_EQ(type_of("q4_k_m", m), "F16");
  m = {"token_embd.weight", 1024, -1, 32};
  EXPECT_EQ(type_of("q4_k_m", m), "Q4_K");
  m.head = true;
  EXPECT_EQ(type_of("q4_k_m", m), "Q6_K");
  EXPECT_EQ(type_of("q8_0", m), "Q8_0");
  EXPECT_EQ(type_of("f16", m), "F16");
  m.cols = 576;
  EXPECT_EQ(type_of("iq4_xs", m), "Q8_0");
  m = {"blk.1.ffn_down.weight", 1024, 1, 32};
  EXPECT_EQ(type_of("iq4_xs", m), "Q5_K");
  m.calibrated = true;
  EXPECT_EQ(type_of("iq4_xs", m), "IQ4_XS");
  m.predicts = true;
  EXPECT_EQ(type_of("iq4_xs", m), "Q8_0");
}

TEST(GgufNames, GoBothWays) {
  GgufConfig config;
  config.layers = 4;
  for (const GgufArch arch : {GgufArch::llama, GgufArch::qwen2, GgufArch::qwen35, GgufArch::gemma3}) {
    config.arch = arch;
    for (const char* name :
         {"token_embd.weight", "output_norm.weight", "output.weight", "blk.3.attn_q.weight",
          "blk.3.attn_q.bias", "blk.0.ffn_down.weight", "blk.0.attn_norm.weight"})
      EXPECT_EQ(gguf_name(arch, 4, hf_name(config, name)), name);
  }
  config.arch = GgufArch::gemma3;
  for (const char* name :
       {"blk.0.post_attention_norm.weight", "blk.0.ffn_norm.weight", "blk.0.post_ffw_norm.weight"})
    EXPECT_EQ(gguf_name(config.arch, 4, hf_name(config, name)), name);
  config.arch = GgufArch::qwen35;
  for (const char* name :
       {"blk.0.ssm_a", "blk.0.ssm_dt.bias", "blk.0.ssm_conv1d.weight", "blk.4.nextn.eh_proj.weight",
        "blk.4.nextn.shared_head_norm.weight", "blk.4.ffn_up.weight", "blk.0.attn_qkv.weight"})
    EXPECT_EQ(gguf_name(config.arch, 4, hf_name(config, name)), name);
  EXPECT_EQ(gguf_name(GgufArch::llama, 4, "model.layers.0.self_attn.rotary_emb.inv_freq"), "");
  EXPECT_EQ(gguf_name(GgufArch::llama, 4, "mtp.fc.weight"), "");
}

std::vector<float> values_of(Checkpoint& checkpoint, const TensorInfo& info) {
  if (info.shape.size() == 2) {
    const auto source = checkpoint.take_matrix(info.name, info.shape[0], info.shape[1]).value();
    std::vector<float> out(static_cast<size_t>(source.rows * source.cols));
    read_values(source, 0, source.rows, out.data());
    return out;
  }
  const auto array = checkpoint.take(info.name, info.shape).value();
  return {array.data<float>(), array.data<float>() + array.size()};
}

// Rows, heads, decays and norms come back as they were: the reader undoes what the writer did.
TEST(GgufWriter, WeightsOfEveryFamilyComeBack) {
  for (const char* name : {"llama_tied", "llama_biases", "llama3_rope_untied", "mistral_f16", "qwen2_bias",
                           "qwen3_qk_norm", "gemma3", "gemma3_nested_untied", "qwen35_flat_tied",
                           "qwen35_mlx", "qwen35_nested_untied_grouped", "qwen35_gguf", "llama3_rope_gguf"}) {
    SCOPED_TRACE(name);
    const TempDir directory;
    const auto options = gguf_to(directory.file("out.gguf"), ConvertFormat::f16);
    const auto report = convert(fixture(name), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto source = Checkpoint::open(fixture(name)).value(),
               written = Checkpoint::open(options.output).value();
    const auto tensors = source->tensors();
    EXPECT_EQ(written->tensors().size(), tensors.size());
    for (const TensorInfo& info : tensors) {
      const auto other = written->find(info.name);
      ASSERT_TRUE(other) << info.name;
      const std::vector<float> was = values_of(*source, info), is = values_of(*written, *other);
      ASSERT_EQ(was.size(), is.size()) << info.name;
      const bool norm =
          other->norms != info.norms && info.name.find("norm") != std::string::npos &&
          info.name.find("linear_attn") == std::string::npos &&
          (std::string_view(name).starts_with("qwen35") || std::string_view(name).starts_with("gemma"));
      for (size_t i = 0; i < was.size(); i++)
        ASSERT_NEAR(is[i], was[i] + (norm ? 1 : 0), 1e-6 + std::fabs(was[i]) * 1e-3) << info.name << " " << i;
    }
  }
}

// What the blocks hold is what the encoder made of the weights.
TEST(GgufWriter, QuantisedWeightsAreNear) {
  struct Case {
    const char* name;
    ConvertFormat format;
    double most;
  };
  for (const auto& [name, format, most] :
       {Case{"llama_tied", ConvertFormat::q4_k_m, 2e-3}, Case{"qwen3_qk_norm", ConvertFormat::iq4_xs, 7e-3},
        Case{"qwen35_nested_untied_grouped", ConvertFormat::q8_0, 1e-4}}) {
    const TempDir directory;
    const auto options = gguf_to(directory.file("out.gguf"), format);
    const auto report = convert(fixture(name), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->quantised, 10) << name;
    EXPECT_EQ(report->bytes, std::filesystem::file_size(options.output)) << name;
    EXPECT_LT(report->relative_error, most) << name;
    EXPECT_GT(report->relative_error, most / 10) << name;
  }
}

TEST(GgufWriter, MetadataSayWhatItIs) {
  const TempDir directory;
  auto options = gguf_to(directory.file("out.gguf"), ConvertFormat::q4_k_m);
  options.gguf_keys.text("tokenizer.ggml.model", "gpt2")
      .text("general.name", "Its Name")
      .text("general.architecture", "not this one");
  options.calibration_text = "text.txt";
  options.calibrate = [] {
    return Result<Importance>(
        Importance{{"model.layers.0.mlp.up_proj.weight", {std::vector<float>(64, 2.0f)}}});
  };
  const auto report = convert(fixture("llama3_rope_untied"), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const std::string bytes = read_file(options.output, 1 << 24).value();
  const auto file = parse_gguf(std::as_bytes(std::span(bytes)), "out").value();
  const Json& m = file.metadata;
  EXPECT_EQ(m["general.architecture"], "llama");
  EXPECT_EQ(m["general.file_type"], 15);
  EXPECT_EQ(m["general.quantization_version"], 2);
  EXPECT_EQ(m["general.name"], "Its Name");
  EXPECT_EQ(m["tokenizer.ggml.model"], "gpt2");
  EXPECT_EQ(m["llama.rope.freq_base"], 50000.0);
  EXPECT_EQ(m["llama.attention.head_count_kv"], 2);
  EXPECT_EQ(m["llama.vocab_size"], 263);
  EXPECT_EQ(m["quantize.imatrix.dataset"], "text.txt");
  EXPECT_EQ(m["quantize.imatrix.entries_count"], 1);
  EXPECT_TRUE(std::ranges::any_of(file.tensors, [](const auto& t) { return t.name == "rope_freqs.weight"; }));
}

TEST(GgufWriter, WhatCannotBeWrittenIsSaid) {
  const TempDir directory;
  const auto message = [&](const std::string& source, ConvertFormat format = ConvertFormat::q8_0) {
    const auto report = convert(source, gguf_to(directory.file("out.gguf"), format));
    return report.ok() ? std::string("written") : report.error().message;
  };
  EXPECT_HAS(message(fixture("mixtral")),
             "not written for models of type \"mixtral\", only for llama, mistral");
  EXPECT_HAS(message(fixture("llama_longrope")), "longrope whose factors depend on the length");
  EXPECT_HAS(message(fixture("qwen35_wide_values_f32")), "recurrent keys of 32 with values of 64");
  const TempDir turned;
  std::filesystem::copy(fixture("llama_tied"), turned.path(), std::filesystem::copy_options::recursive);
  Json config = parse_json(read_file(turned.file("config.json"), 1 << 20).value()).value();
  config["partial_rotary_factor"] = 1e25;
  turned.write("config.json", config.dump());
  EXPECT_HAS(message(turned.path()), "a partial_rotary_factor above 1 cannot be written");
  EXPECT_FALSE(std::filesystem::exists(directory.file("out.gguf")));
  EXPECT_EQ(message(fixture("llama_tied")), "written");
  EXPECT_HAS(message(fixture("llama_tied")), "exists already");
  auto again = gguf_to(directory.file("out.gguf"), ConvertFormat::f16);
  again.force = true;
  EXPECT_TRUE(convert(fixture("llama_tied"), again).ok());
  const auto itself = convert(again.output, again);
  ASSERT_FALSE(itself.ok());
  EXPECT_HAS(itself.error().message, "is the source itself");
  std::ofstream(directory.file("notes.txt")) << "not a model";
  again.output = directory.file("notes.txt");
  const auto other = convert(fixture("llama_tied"), again);
  ASSERT_FALSE(other.ok());
  EXPECT_HAS(other.error().message, "not a GGUF file");
  EXPECT_EQ(read_file(again.output, 100).value(), "not a model");
}

TEST(GgufWriter, SameInputSameBytes) {
  const TempDir directory;
  std::string bytes[2];
  for (int i = 0; i < 2; i++) {
    const auto options = gguf_to(directory.file(i == 0 ? "a.gguf" : "b.gguf"), ConvertFormat::iq4_xs);
    ASSERT_TRUE(convert(fixture("qwen35_flat_tied"), options).ok());
    bytes[i] = read_file(options.output, 1 << 24).value();
  }
  EXPECT_TRUE(bytes[0] == bytes[1]);
}

TEST(WriteFormat, EveryRowIsFoundByItsName) {
  for (const WriteFormat& format : write_formats()) {
    EXPECT_EQ(find_write_format(format.name), &format);
    EXPECT_EQ(&write_format(format.format), &format);
  }
  EXPECT_EQ(find_write_format("q9"), nullptr);
}

}  // namespace
}  // namespace anabranch
