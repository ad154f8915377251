// GGUF metadata as config.json.
#include "checkpoint/gguf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "checkpoint/gguf_metadata_writer.h"

namespace anabranch {
namespace {

using namespace testing;

Writer llama() {
  Writer w("llama");
  w.set("feed_forward_length", 32).real("rope.freq_base", 500000);
  return w;
}

// As llama.cpp's converter makes them of rope_scaling.
std::vector<float> llama3_divisors(double factor, double original) {
  std::vector<float> out;
  for (int i = 0; i < 16; i++) {
    const double wavelength = 2 * std::numbers::pi * std::pow(500000, i / 16.0);
    if (wavelength < original / 4)
      out.push_back(1);
    else if (wavelength > original)
      out.push_back(static_cast<float>(factor));
    else {
      const double smooth = (original / wavelength - 1) / 3;
      out.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return out;
}

TEST(GgufRope, DivisorsOfLlama3AreItsParameters) {
  for (const double factor : {8.0, 32.0}) {
    const Json scaling =
        config_of(llama().vector("rope_freqs.weight", llama3_divisors(factor, 8192)))["rope_scaling"];
    EXPECT_EQ(scaling, Json({{"rope_type", "llama3"},
                             {"factor", factor},
                             {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 8192}}));
  }
}

TEST(GgufRope, OtherDivisorsAreATableForEveryLength) {
  const auto divisors = llama3_divisors(8, 512);
  const Json scaling = config_of(llama().vector("rope_freqs.weight", divisors))["rope_scaling"];
  EXPECT_EQ(scaling["rope_type"], "longrope");
  EXPECT_EQ(scaling["short_factor"].get<std::vector<float>>(), divisors);
  EXPECT_EQ(scaling["long_factor"], scaling["short_factor"]);
  EXPECT_EQ(scaling["attention_factor"], 1.0);
  EXPECT_FALSE(
      config_of(llama().vector("rope_freqs.weight", std::vector<float>(16, 1))).contains("rope_scaling"));
}

TEST(GgufRope, BadDivisorsAreErrors) {
  EXPECT_ERROR(llama().vector("rope_freqs.weight", std::vector<float>(9, 1)), "no vector of 16 numbers");
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY})
    EXPECT_ERROR(llama().vector("rope_freqs.weight", std::vector<float>(16, bad)), "not above zero");
  EXPECT_ERROR(llama().real("rope.scaling.factor", 4).vector("rope_freqs.weight", llama3_divisors(8, 8192)),
               "rope scaling beside tensor \"rope_freqs.weight\"");
}

TEST(GgufRope, YarnAndTemperature) {
  Writer w("mistral3");
  w.set("feed_forward_length", 32).real("rope.freq_base", 1e6).word("rope.scaling.type", "yarn");
  w.real("rope.scaling.factor", 16).set("rope.scaling.original_context_length", 256);
  w.real("rope.scaling.yarn_beta_fast", 24).real("rope.scaling.yarn_beta_slow", 2);
  EXPECT_EQ(config_of(w)["model_type"], "mistral");
  EXPECT_EQ(config_of(w)["rope_scaling"], Json({{"rope_type", "yarn"},
                                                {"factor", 16.0},
                                                {"original_max_position_embeddings", 256},
                                                {"beta_fast", 24.0},
                                                {"beta_slow", 2.0}}));
  w.real("rope.scaling.yarn_log_multiplier", 1).real("attention.temperature_scale", 0.5);
  const Json config = config_of(w);
  EXPECT_EQ(config["model_type"], "ministral3");
  EXPECT_FALSE(config.contains("rope_scaling"));
  EXPECT_EQ(config["rope_parameters"], Json({{"rope_type", "yarn"},
                                             {"factor", 16.0},
                                             {"original_max_position_embeddings", 256},
                                             {"beta_fast", 24.0},
                                             {"beta_slow", 2.0},
                                             {"mscale_all_dim", 1.0},
                                             {"mscale", 1.0},
                                             {"llama_4_scaling_beta", 0.5},
                                             {"rope_theta", 1e6}}));
  EXPECT_ERROR(w.real("rope.scaling.yarn_ext_factor", 0.5), "yarn_ext_factor 0.5 cannot be read");
}

// Ollama's names for the same, and what it writes where there is no scaling.
TEST(GgufRope, NamesOfOllama) {
  Writer w("mistral3");
  w.set("feed_forward_length", 32).real("rope.freq_base", 1e6).word("rope.scaling.type", "yarn");
  w.real("rope.scaling.factor", 16).set("rope.scaling.original_context_length", 256);
  w.real("rope.scaling.beta_fast", 24).real("rope.scaling.beta_slow", 2).real("rope.scaling_beta", 0.5);
  const Json expected = {{"rope_type", "yarn"}, {"factor", 16.0},   {"original_max_position_embeddings", 256},
                         {"beta_fast", 24.0},   {"beta_slow", 2.0}, {"llama_4_scaling_beta", 0.5},
                         {"rope_theta", 1e6}};
  EXPECT_EQ(config_of(w)["model_type"], "ministral3");
  EXPECT_EQ(config_of(w)["rope_parameters"], expected);
  w.real("rope.scaling.mscale_all_dim", 0.75);
  EXPECT_EQ(config_of(w)["rope_parameters"]["mscale_all_dim"], 0.75);
  EXPECT_EQ(config_of(w)["rope_parameters"]["mscale"], 1.0);
  w.real("rope.scaling.mscale", 0.5);
  EXPECT_EQ(config_of(w)["rope_parameters"]["mscale"], 0.5);
  EXPECT_ERROR(w.real("rope.scaling.extrapolation_factor", 0.5), "yarn_ext_factor 0.5 cannot be read");

  for (const char* type : {"", "default", "mrope"}) {
    Writer plain("mistral3");
    plain.set("feed_forward_length", 32).word("rope.scaling.type", type).real("rope.scaling.factor", 0);
    EXPECT_FALSE(config_of(plain.real("rope.scaling_beta", 0)).contains("rope_scaling")) << type;
    EXPECT_EQ(config_of(plain)["model_type"], "mistral");
  }
  EXPECT_FALSE(config_of(llama().real("rope.scaling.factor", 0)).contains("rope_scaling"));
  EXPECT_ERROR(llama().word("rope.scaling.type", "dynamic").real("rope.scaling.factor", 2),
               "rope scaling \"dynamic\" cannot be read");
  // Llama 3.1 of Ollama.
  EXPECT_EQ(
      config_of(llama()
                    .word("rope.scaling.type", "")
                    .real("rope.scaling.factor", 8)
                    .vector("rope_freqs.weight", llama3_divisors(8, 8192)))["rope_scaling"]["rope_type"],
      "llama3");
  EXPECT_ERROR(llama().word("rope.scaling.type", "").real("rope.scaling.factor", 8), "cannot be read");
}

TEST(GgufRope, AFactorWithoutATypeIsLinear) {
  EXPECT_EQ(config_of(llama().real("rope.scaling.factor", 4))["rope_scaling"],
            Json({{"rope_type", "linear"}, {"factor", 4.0}}));
  EXPECT_EQ(config_of(llama().real("rope.scale_linear", 2))["rope_scaling"]["factor"], 2.0);
  EXPECT_FALSE(config_of(llama().word("rope.scaling.type", "none").real("rope.scaling.factor", 4))
                   .contains("rope_scaling"));
}

TEST(GgufConfig, ListsOfEqualNumbers) {
  Writer w("llama");
  EXPECT_EQ(config_of(w.list("feed_forward_length", {32, 32}))["intermediate_size"], 32);
  EXPECT_ERROR(Writer("llama").list("feed_forward_length", {32, 64}), "differs from layer to layer");
  EXPECT_ERROR(Writer("llama").list("feed_forward_length", {}), "empty list");
}

// Qwen2 has biases on q, k and v and none on o; other files have them on all four, or on none.
TEST(GgufConfig, BiasesAreThoseOfTheFile) {
  Writer w("qwen2");
  w.set("feed_forward_length", 32);
  EXPECT_EQ(config_of(w)["attention_qkv_bias"], false);
  EXPECT_EQ(config_of(w)["attention_out_bias"], false);
  w.vector("blk.1.attn_q.bias", std::vector<float>(64));
  EXPECT_EQ(config_of(w)["attention_qkv_bias"], true);
  EXPECT_EQ(config_of(w)["attention_out_bias"], false);
  EXPECT_EQ(config_of(w)["attention_bias"], false);
  EXPECT_EQ(config_of(w.vector("blk.0.attn_output.bias", std::vector<float>(64)))["attention_out_bias"],
            true);
  EXPECT_EQ(config_of(w)["attention_bias"], true);
}

// Keys of other architectures that would change the arithmetic.
TEST(GgufConfig, NothingThatChangesTheArithmeticIsPassedOver) {
  struct Row {
    const char* key;
    float neutral, other;
  };
  for (const Row& row : {Row{"logit_scale", 1, 2}, Row{"residual_scale", 1, 2}, Row{"embedding_scale", 1, 2},
                         Row{"attention.clamp_kqv", 0, 8}, Row{"attention.max_alibi_bias", 0, 8},
                         Row{"attention.sliding_window", 0, 128}, Row{"attn_logit_softcapping", 0, 50},
                         Row{"final_logit_softcapping", 0, 30}, Row{"router_logit_softcapping", 0, 30},
                         Row{"expert_weights_scale", 1, 2.5f}, Row{"expert_group_count", 1, 4},
                         Row{"expert_gating_func", 1, 2}}) {
    EXPECT_EQ(error_of(llama().real(row.key, row.neutral)), "") << row.key;
    EXPECT_ERROR(llama().real(row.key, row.other), std::string("llama.") + row.key);
  }
  EXPECT_EQ(error_of(llama().flag("attention.causal", true)), "");
  EXPECT_ERROR(llama().flag("attention.causal", false), "\"llama.attention.causal\" is false");
  EXPECT_EQ(error_of(llama().real("attention.scale", 1 / std::sqrt(32.0f))), "");
  EXPECT_ERROR(llama().real("attention.scale", 0.5), "scaled by 0.5");
  for (const char* arch : {"gemma2", "gemma3"}) {
    Writer w(arch);
    w.set("feed_forward_length", 32).set("attention.sliding_window", 8).real("attention.scale", 0.25);
    EXPECT_EQ(config_of(w.real("final_logit_softcapping", 20))["query_pre_attn_scalar"], 16.0);
    EXPECT_EQ(config_of(w)["final_logit_softcapping"], 20.0);
  }
}

TEST(GgufConfig, TokensThatEndATurn) {
  Writer w = llama();
  w.u32("tokenizer.ggml.eos_token_id", 5).u32("tokenizer.ggml.eot_token_id", 5);
  EXPECT_EQ(config_of(w)["eos_token_id"], 5);
  w.u32("tokenizer.ggml.eom_token_id", 6).numbers("tokenizer.ggml.eos_token_ids", {5, 7});
  EXPECT_EQ(config_of(w)["eos_token_id"], Json({5, 6, 7}));
}

Writer moe(const std::string& arch) {
  Writer w(arch);
  w.set("feed_forward_length", 32).set("expert_count", 4).set("expert_used_count", 2);
  return w;
}
std::vector<float> zeros(size_t count) {
  return std::vector<float>(count);
}

TEST(GgufConfig, Experts) {
  EXPECT_EQ(config_of(moe("qwen3moe").set("expert_feed_forward_length", 8))["norm_topk_prob"], true);
  for (const char* key : {"expert_weights_norm", "norm_top_k_prob"}) {
    EXPECT_EQ(
        config_of(moe("qwen3moe").set("expert_feed_forward_length", 8).flag(key, false))["norm_topk_prob"],
        false);
    EXPECT_ERROR(moe("llama").flag(key, false), "experts that are not normalised");
  }
  EXPECT_ERROR(moe("qwen3moe"), "expert_feed_forward_length\" is missing");
  // What a key does not say, the matrices do.
  Writer w = moe("qwen3moe");
  w.tensor("blk.1.ffn_up_exps.weight", {64, 8, 4}, 0, std::string(8192, '\0'));
  w.vector("blk.1.ffn_gate_inp.weight", zeros(4));
  EXPECT_EQ(config_of(w)["moe_intermediate_size"], 8);
  EXPECT_EQ(config_of(w)["mlp_only_layers"], Json({0}));
  EXPECT_FALSE(config_of(w).contains("shared_expert_intermediate_size"));
  w.vector("blk.0.ffn_gate_inp.weight", zeros(4));
  w.tensor("blk.0.ffn_up_shexp.weight", {64, 16}, 0, std::string(4096, '\0'));
  EXPECT_EQ(config_of(w)["shared_expert_intermediate_size"], 16);
  EXPECT_FALSE(config_of(w).contains("mlp_only_layers"));
}

Writer hybrid(const std::string& arch) {
  Writer w(arch);
  w.set("feed_forward_length", 32).set("ssm.conv_kernel", 4).set("ssm.state_size", 8);
  w.set("ssm.group_count", 1).set("ssm.time_step_rank", 2).set("ssm.inner_size", 16);
  return w;
}

TEST(GgufConfig, RecurrentLayers) {
  const Json types = {"full_attention", "linear_attention"};
  EXPECT_EQ(config_of(hybrid("qwen3next").flags("attention.recurrent_layers", {0, 1}))["layer_types"], types);
  EXPECT_EQ(config_of(hybrid("qwen3next").set("full_attention_interval", 1))["layer_types"],
            Json({"full_attention", "full_attention"}));
  EXPECT_EQ(config_of(hybrid("qwen3next").vector("blk.1.ssm_out.weight", {0}))["layer_types"], types);
  EXPECT_ERROR(hybrid("qwen3next").flags("attention.recurrent_layers", {0, 1, 1}),
               "one entry for each layer");
  EXPECT_ERROR(hybrid("qwen3next").list("attention.recurrent_layers", {0, 1}), "true and false");
}

TEST(GgufConfig, KeyHeadsOfHybridsOfOllama) {
  const auto with = [](const std::vector<int32_t>& heads) {
    Writer w = hybrid("qwen35");
    w.list("attention.head_count_kv", heads);
    return w;
  };
  EXPECT_EQ(config_of(with({0, 2}))["num_key_value_heads"], 2);
  EXPECT_EQ(config_of(with({2, 0}))["layer_types"], Json({"full_attention", "linear_attention"}));
  EXPECT_EQ(config_of(with({2, 2}).set("full_attention_interval", 2))["layer_types"],
            Json({"linear_attention", "full_attention"}));
  EXPECT_ERROR(with({0, 0}), "no layer has key heads");
  EXPECT_ERROR(with({1, 2}), "1 and 2 key heads");
  EXPECT_ERROR(with({0, 2, 2}), "one entry for each layer");
  EXPECT_ERROR(Writer("llama").set("feed_forward_length", 32).list("attention.head_count_kv", {0, 2}),
               "differs from layer to layer");
}

// Three layers: Mamba2, attention, and Mamba2 or an MLP.
Writer mamba(const std::string& arch, const std::vector<int32_t>& widths) {
  Writer w(arch, 3);
  w.set("ssm.conv_kernel", 4).set("ssm.state_size", 8).set("ssm.group_count", 1);
  w.set("ssm.time_step_rank", 2).set("ssm.inner_size", 24).list("attention.head_count_kv", {0, 2, 0});
  if (!widths.empty()) w.list("feed_forward_length", widths);
  return w;
}

TEST(GgufMamba, Granite) {
  Writer w = mamba("granitehybrid", {32, 32, 32});
  w.real("attention.scale", 0.25).real("logit_scale", 8).flag("rope.scaling.finetuned", false);
  const Json c = config_of(w);
  EXPECT_EQ(c["layer_types"], Json({"mamba", "attention", "mamba"}));
  EXPECT_EQ(c["mamba_n_heads"], 2);
  EXPECT_EQ(c["mamba_d_head"], 12);
  EXPECT_EQ(c["mamba_conv_bias"], false);
  EXPECT_EQ(c["num_local_experts"], 0);
  EXPECT_EQ(c["shared_intermediate_size"], 32);
  EXPECT_EQ(c["attention_multiplier"], 0.25);
  EXPECT_EQ(c["embedding_multiplier"], 1.0);
  EXPECT_EQ(c["logits_scaling"], 8.0);
  EXPECT_EQ(c["position_embedding_type"], "nope");
  const Json turning = config_of(mamba("granitehybrid", {32, 32, 32}).vector("blk.2.ssm_conv1d.bias", {0}));
  EXPECT_EQ(turning["position_embedding_type"], "rope");
  EXPECT_EQ(turning["mamba_conv_bias"], true);
  EXPECT_ERROR(mamba("granitehybrid", {32, 32, 16}), "differs from layer to layer");
}

TEST(GgufMamba, Nemotron) {
  const Json c = config_of(mamba("nemotron_h", {0, 0, 48}));
  EXPECT_EQ(c["layers_block_type"], Json({"mamba", "attention", "mlp"}));
  EXPECT_EQ(c["intermediate_size"], 48);
  EXPECT_EQ(c["mamba_head_dim"], 12);
  EXPECT_FLOAT_EQ(c["layer_norm_epsilon"].get<float>(), 1e-6f);
  EXPECT_ERROR(mamba("nemotron_h", {0, 48}), "one entry for each layer");
  EXPECT_ERROR(mamba("nemotron_h", {0, 0, 0}), "feed_forward_length");
  EXPECT_ERROR(mamba("nemotron_h", {16, 0, 48}), "MLPs of 16 and 48 values");

  Writer w = mamba("nemotron_h_moe", {0, 0, 16});
  w.set("expert_count", 4).set("expert_used_count", 2).set("expert_feed_forward_length", 16);
  w.set("moe_latent_size", 8).set("expert_group_count", 2).set("expert_group_used_count", 1);
  const Json moe = config_of(w.real("expert_weights_scale", 2.5));
  EXPECT_EQ(moe["layers_block_type"], Json({"mamba", "attention", "moe"}));
  EXPECT_EQ(moe["n_routed_experts"], 4);
  EXPECT_EQ(moe["moe_latent_size"], 8);
  EXPECT_EQ(moe["n_group"], 2);
  EXPECT_EQ(moe["routed_scaling_factor"], 2.5);
}

TEST(GgufMamba, MissingSizesAreNamed) {
  for (const char* arch : {"granitehybrid", "nemotron_h"}) {
    const std::vector<const char*> sizes = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                                            "ssm.time_step_rank", "ssm.inner_size"};
    for (const char* left_out : sizes) {
      Writer w(arch);
      w.set("feed_forward_length", 32);
      for (const char* size : sizes)
        if (size != left_out) w.set(size, 4);
      EXPECT_ERROR(w, std::string(left_out) + "\" is missing");
    }
    EXPECT_ERROR(mamba(arch, {}), "feed_forward_length\" is missing");
    EXPECT_ERROR(Writer(arch).set("feed_forward_length", 0), "feed_forward_length");
  }
}

TEST(GgufConfig, Lfm2WithExperts) {
  Writer w("lfm2moe");
  w.set("feed_forward_length", 96).list("attention.head_count_kv", {0, 2}).set("shortconv.l_cache", 3);
  w.set("expert_count", 4).set("expert_used_count", 2).set("expert_gating_func", 2);
  w.set("expert_feed_forward_length", 16).set("leading_dense_block_count", 1);
  const Json c = config_of(w);
  EXPECT_EQ(c["model_type"], "lfm2_moe");
  EXPECT_EQ(c["layer_types"], Json({"conv", "full_attention"}));
  EXPECT_EQ(c["num_dense_layers"], 1);
  EXPECT_EQ(c["intermediate_size"], 96);
  EXPECT_EQ(c["moe_intermediate_size"], 16);
  EXPECT_EQ(c["use_expert_bias"], false);
  EXPECT_EQ(config_of(w.vector("blk.1.exp_probs_b.bias", {0, 0, 0, 0}))["use_expert_bias"], true);
  EXPECT_ERROR(w.real("expert_weights_scale", 2), "expert_weights_scale");
}

TEST(GgufConfig, LayersOfTheMtpModule) {
  const auto counts = [](const Writer& w) {
    const auto config = read(w);
    EXPECT_TRUE(config.ok()) << config.error().message;
    return std::pair(config->layers, config->config["mtp_num_hidden_layers"].get<int64_t>());
  };
  using Counts = std::pair<int64_t, int64_t>;
  EXPECT_EQ(counts(hybrid("qwen35")), Counts(2, 0));
  EXPECT_EQ(counts(hybrid("qwen35").set("nextn_predict_layers", 1)), Counts(1, 1));
  // Ollama's names, with and without the count, which is of those in block_count or beside them.
  const auto named = [] {
    Writer w = hybrid("qwen35");
    w.vector("mtp.norm.weight", zeros(4)).vector("mtp.layers.0.attn_norm.weight", zeros(4));
    return w;
  };
  EXPECT_EQ(counts(named()), Counts(2, 1));
  EXPECT_EQ(counts(named().vector("mtp.layers.1.attn_norm.weight", zeros(4))), Counts(2, 2));
  EXPECT_EQ(counts(named().set("nextn_predict_layers", 1)), Counts(1, 1));
  EXPECT_EQ(counts(named().set("nextn_predict_layers", 1).vector("blk.1.attn_norm.weight", zeros(4))),
            Counts(2, 1));
}

TEST(GgufConfig, HybridsKeepTheirRopeScaling) {
  Writer w = hybrid("qwen35");
  w.word("rope.scaling.type", "yarn").real("rope.scaling.factor", 4).set("rope.dimension_count", 8);
  EXPECT_EQ(config_of(w)["rope_parameters"], Json({{"rope_type", "yarn"},
                                                   {"factor", 4.0},
                                                   {"rope_theta", 10000.0},
                                                   {"partial_rotary_factor", 0.25}}));
}

// ---------------------------------------------------------------- Gemma

TEST(GgufGemma, Gemma2) {
  Writer w("gemma2", 4);
  w.set("feed_forward_length", 32);
  const Json config = config_of(w);
  EXPECT_EQ(config["layer_types"],
            Json({"sliding_attention", "full_attention", "sliding_attention", "full_attention"}));
  EXPECT_EQ(config["sliding_window"], 4096);
  EXPECT_EQ(config["attn_logit_softcapping"], 50.0);
  EXPECT_EQ(config["final_logit_softcapping"], 30.0);
  EXPECT_EQ(config["query_pre_attn_scalar"], 32);
  w.real("attn_logit_softcapping", 0).real("final_logit_softcapping", 0);
  EXPECT_TRUE(config_of(w)["attn_logit_softcapping"].is_null());
  EXPECT_TRUE(config_of(w)["final_logit_softcapping"].is_null());
  Writer largest("gemma2", 46);
  EXPECT_EQ(
      config_of(
          largest.set("feed_forward_length", 32).set("attention.head_count_kv", 1))["query_pre_attn_scalar"],
      64 / 2);
}

TEST(GgufGemma, Gemma3) {
  Writer w("gemma3", 7);
  w.set("feed_forward_length", 32);
  EXPECT_EQ(config_of(w)["layer_types"], Json(std::vector<std::string>(7, "full_attention")));
  w.set("attention.sliding_window", 512).real("rope.freq_base_swa", 5000).real("final_logit_softcapping", 20);
  const Json config = config_of(w);
  EXPECT_EQ(config["layer_types"][5], "full_attention");
  EXPECT_EQ(config["layer_types"][6], "sliding_attention");
  EXPECT_EQ(config["rope_local_base_freq"], 5000.0);
  EXPECT_EQ(config["final_logit_softcapping"], 20.0);
}

// Ollama's files of Gemma 3 lack the scaling of the rope from 4B on, and the 1B model's has a soft cap too
// many.
TEST(GgufGemma, Gemma3OfOllama) {
  const Json stretched = {{"rope_type", "linear"}, {"factor", 8.0}};
  const auto file = [](uint32_t layers, uint32_t context) {
    GgufWriter w;
    w.text("general.architecture", "gemma3").u32("gemma3.block_count", layers);
    w.u32("gemma3.context_length", context).u32("gemma3.embedding_length", 64);
    w.u32("gemma3.feed_forward_length", 32).u32("gemma3.attention.head_count", 2);
    w.u32("gemma3.attention.sliding_window", 16).f32("gemma3.final_logit_softcapping", 30);
    w.tensor("token_embd.weight", {64, 1}, 0, std::string(256, '\0'));
    return w;
  };
  const auto with_eps = [&](uint32_t layers, uint32_t context) {
    return file(layers, context).f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  };
  const Json config = config_of(file(6, 131072));
  EXPECT_EQ(config["rope_scaling"], stretched);
  EXPECT_EQ(config["rope_theta"], 1e6);
  EXPECT_EQ(config["rope_local_base_freq"], 10000.0);
  EXPECT_EQ(config["rms_norm_eps"], 1e-6);
  EXPECT_EQ(config["head_dim"], 256);
  EXPECT_FALSE(config_of(file(6, 32768)).contains("rope_scaling"));
  // Whatever marks a file as theirs.
  EXPECT_FALSE(config_of(with_eps(6, 131072)).contains("rope_scaling"));
  for (const char* key : {"gemma3.mm.tokens_per_image", "tokenizer.ggml.add_padding_token"})
    EXPECT_EQ(config_of(with_eps(6, 131072).u32(key, 1))["rope_scaling"], stretched) << key;
  for (const char* tensor : {"v.x", "mm.x"})
    EXPECT_EQ(config_of(with_eps(6, 131072).tensor(tensor, {1}, 0, "1234"))["rope_scaling"], stretched);
  // The sizes tell, too; what a file states counts.
  EXPECT_EQ(config_of(with_eps(34, 8192))["rope_scaling"], stretched);
  EXPECT_EQ(config_of(with_eps(34, 8192).f32("gemma3.rope.scaling.factor", 4))["rope_scaling"]["factor"],
            4.0);
  EXPECT_FALSE(config_of(file(34, 8192).f32("gemma3.rope.scaling.factor", 1)).contains("rope_scaling"));
  EXPECT_FALSE(config_of(file(26, 32768)).contains("final_logit_softcapping"));
  EXPECT_EQ(config_of(with_eps(26, 32768))["final_logit_softcapping"], 30.0);
  const Json local = config_of(
      with_eps(6, 8192).f32("gemma3.rope.local.freq_base", 5000).f32("gemma3.rope.global.freq_base", 70000));
  EXPECT_EQ(local["rope_local_base_freq"], 5000.0);
  EXPECT_EQ(local["rope_theta"], 70000.0);
}

Writer gemma4() {
  Writer w("gemma4", 3);
  w.flags("attention.sliding_window_pattern", {1, 0, 0}).set("attention.sliding_window", 512);
  w.set("attention.key_length_swa", 16);
  for (const char* v : {"blk.0.attn_v.weight", "blk.1.attn_v.weight"}) w.vector(v, {1});
  return w;
}
const std::vector<float> kQuarter = {1,     1,     1,     1,     1e30f, 1e30f, 1e30f, 1e30f,
                                     1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f};

TEST(GgufGemma, Gemma4) {
  const Json config = config_of(gemma4()
                                    .list("feed_forward_length", {32, 32, 64})
                                    .list("attention.head_count_kv", {2, 1, 1})
                                    .set("attention.shared_kv_layers", 1)
                                    .vector("rope_freqs.weight", kQuarter));
  EXPECT_EQ(config["head_dim"], 16);
  EXPECT_EQ(config["global_head_dim"], 32);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["num_global_key_value_heads"], 1);
  EXPECT_EQ(config["attention_k_eq_v"], false);
  EXPECT_EQ(config["num_kv_shared_layers"], 1);
  EXPECT_EQ(config["intermediate_size"], 32);
  EXPECT_EQ(config["use_double_wide_mlp"], true);
  EXPECT_EQ(config["rope_parameters"]["full_attention"]["partial_rotary_factor"], 0.25);
  EXPECT_EQ(config["rope_parameters"]["sliding_attention"]["rope_theta"], 10000.0);
  // Without a shared layer the last one lacks values.
  EXPECT_EQ(config_of(gemma4()
                          .set("feed_forward_length", 32)
                          .vector("rope_freqs.weight", kQuarter)
                          .set("attention.head_count_kv", 1))["attention_k_eq_v"],
            true);
}

TEST(GgufGemma, BadGemma4) {
  const auto good = [] { return gemma4().vector("rope_freqs.weight", kQuarter); };
  EXPECT_ERROR(gemma4().set("feed_forward_length", 32), "\"rope_freqs.weight\" is missing");
  EXPECT_ERROR(gemma4().set("feed_forward_length", 32).vector("rope_freqs.weight", llama3_divisors(8, 8192)),
               "the values of tensor \"rope_freqs.weight\"");
  EXPECT_ERROR(good().list("feed_forward_length", {32, 64}), "one entry for each layer");
  EXPECT_ERROR(good().list("feed_forward_length", {32, 64, 32}), "the widths of Gemma 4's layers");
  EXPECT_ERROR(good().set("feed_forward_length", 32).list("attention.head_count_kv", {1, 2, 1}),
               "others of its kind");
  EXPECT_ERROR(good().set("feed_forward_length", 32).set("attention.shared_kv_layers", 3), "all 3 layers");
  EXPECT_ERROR(Writer("gemma4").set("feed_forward_length", 32).set("attention.sliding_window", 8),
               "layers with windows is missing");
}

}  // namespace
}  // namespace anabranch
