#include "models/family_config.h"

#include <algorithm>

namespace anabranch {

void require_silu(ConfigReader& c) {
  if (const auto act = c.string_or("hidden_act", "silu"); act != "silu" && act != "swish")
    c.unsupported("hidden_act", act, "silu is");
}

int integer_of(ConfigReader& c, const char* key, int low, int high, int fallback, int none) {
  return c.is_null(key) ? none : c.integer_or(key, low, high, fallback);
}

const char* experts_key(const ConfigReader& c) {
  return c.has("num_local_experts") ? "num_local_experts" : "num_experts";
}

MoeSpec read_moe(ConfigReader& c, const char* intermediate_key) {
  MoeSpec spec;
  spec.experts = c.integer(experts_key(c), 1, ops::kMostExperts);
  spec.routing.top_k = c.integer("num_experts_per_tok", 1, ops::kMostExperts);
  spec.intermediate = c.integer(intermediate_key, 1, 1 << 20);
  if (spec.routing.top_k > spec.experts)
    c.invalid(fmt::format("num_experts_per_tok is above {}", experts_key(c)));
  return spec;
}

void read_biases(ConfigReader& c, bool qkv, bool out, AttentionSpec& attention) {
  attention.qkv_bias = c.boolean_or("attention_qkv_bias", qkv);
  attention.out_bias = c.boolean_or("attention_out_bias", out);
}

std::vector<int> sparse_layers(ConfigReader& c, int layers) {
  const int step = c.integer_or("decoder_sparse_step", 1, 1024, 1);
  const std::vector<int> dense = c.integers("mlp_only_layers");
  std::vector<int> out;
  for (int i = 0; i < layers; i++)
    if ((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end()) out.push_back(i);
  return out;
}

}  // namespace anabranch
