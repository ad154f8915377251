// Latent attention in GGUF metadata: llama.cpp's deepseek2, which are DeepSeek V2 and V3, Kimi K2,
// GLM-4.7-Flash and Youtu.
#include "checkpoint/gguf_config.h"

namespace anabranch {

namespace {

bool in_any_layer(const GgufMetadata& m, const GgufConfig& out, const char* part) {
  for (int64_t i = 0; i < out.layers; i++)
    if (m.tensor(fmt::format("blk.{}.{}", i, part))) return true;
  return false;
}

}  // namespace

// Newer files state the sizes as attention sees them (one key head), and those of the heads beside these.
Result<void> add_gguf_latent(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  TRY(const int64_t rank, m.integer("attention.kv_lora_rank", 1));
  TRY(const int64_t query_rank, m.integer("attention.q_lora_rank", 0, 0));
  TRY(const int64_t turned, m.integer("rope.dimension_count", 1));
  const bool newer = m.find("attention.key_length_mla") != nullptr;
  TRY(const int64_t keys, m.integer(newer ? "attention.key_length_mla" : "attention.key_length", 1));
  TRY(const int64_t values, m.integer(newer ? "attention.value_length_mla" : "attention.value_length", 1));
  if (keys <= turned)
    return make_error(ErrorKind::invalid, "{}: {} rotary dimensions in keys of {}", m.path(), turned, keys);
  c["kv_lora_rank"] = rank;
  c["q_lora_rank"] = query_rank > 0 ? Json(query_rank) : Json();
  c["qk_rope_head_dim"] = c["head_dim"] = turned;
  c["qk_nope_head_dim"] = keys - turned;
  c["v_head_dim"] = values;
  c["num_key_value_heads"] = out.heads;
  c["attention_bias"] = in_any_layer(m, out, "attn_kv_a_mqa.bias");
  return {};
}

Result<void> finish_gguf_latent(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  if (c.contains("rope_scaling") && c["rope_scaling"].contains("mscale_all_dim")) {
    // 0.1 is in the number, and llama.cpp scales nothing but the scores.
    Json& scaling = c["rope_scaling"];
    scaling["mscale"] = scaling["mscale_all_dim"] = scaling["mscale_all_dim"].get<double>() / 0.1;
  }
  c["first_k_dense_replace"] = out.layers;
  if (out.experts == 0) return {};
  const bool biased = in_any_layer(m, out, "exp_probs_b.bias");
  TRY(const int64_t gating, m.integer("expert_gating_func", 0, biased ? 2 : 1));
  TRY(c["norm_topk_prob"], m.flag("expert_weights_norm", false));
  if (gating > 2 || (gating == 2) != biased || (gating != 2 && c["norm_topk_prob"] == true))
    return make_error(ErrorKind::unsupported, "{}: a router of kind {} cannot be run{}{}", m.path(), gating,
                      biased ? " with a bias" : " without a bias",
                      c["norm_topk_prob"] == true ? " and with weights that add up to 1" : "");
  if (gating != 2) {
    c["model_type"] = "deepseek_v2";
    c["architectures"] = Json::array({"DeepseekV2ForCausalLM"});
  }
  c["n_routed_experts"] = out.experts;
  TRY(c["num_experts_per_tok"], m.integer("expert_used_count", 1));
  TRY(c["moe_intermediate_size"], m.integer("expert_feed_forward_length", 1));
  TRY(c["n_shared_experts"], m.integer("expert_shared_count", 0, 0));
  TRY(c["routed_scaling_factor"], m.real("expert_weights_scale", 1));
  TRY(c["n_group"], m.integer("expert_group_count", 1, 1));
  TRY(c["topk_group"], m.integer("expert_group_used_count", 1, 1));
  TRY(c["first_k_dense_replace"], m.integer("leading_dense_block_count", 0, 0));
  if (gating != 2 && c["n_group"] != 1) c["topk_method"] = "group_limited_greedy";
  return {};
}

}  // namespace anabranch
