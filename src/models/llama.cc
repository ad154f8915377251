// Llama, Mistral, Qwen2(.5) and Qwen3: one decoder, four sets of data. Attention and SwiGLU with pre-norms.
// Reference: Transformers' modeling_llama.py, modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py.
#include "models/family.h"

namespace anabranch {
namespace {

// Mixtral's layers are all mixtures; Qwen3-MoE says which are not.
void read_experts(ConfigReader& c, ModelSpec& spec) {
  if (spec.family == "mixtral") {
    const MoeSpec experts = read_moe(c, "num_local_experts", "intermediate_size");
    for (LayerSpec& layer : spec.layers) layer.mlp = experts;
  } else if (spec.family == "qwen3_moe") {
    MoeSpec experts = read_moe(c, "num_experts", "moe_intermediate_size");
    experts.routing.normalise = c.boolean_or("norm_topk_prob", false);
    for (const int i : sparse_layers(c, static_cast<int>(spec.layers.size())))
      spec.layers[static_cast<size_t>(i)].mlp = experts;
  }
}

Result<ModelSpec> read_config(const Json& json, const std::string& file) {
  ConfigReader c(json, file);
  ModelSpec spec;
  spec.family = c.string_or("model_type", "");
  const bool qwen2 = spec.family == "qwen2", qwen3 = spec.family == "qwen3" || spec.family == "qwen3_moe";

  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  const MlpSpec mlp{c.integer("intermediate_size", 1, 1 << 20)};
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, 2048);
  spec.norms.eps = static_cast<float>(c.number_or("rms_norm_eps", 0, 1, 1e-6));
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", false);

  AttentionSpec attention;
  attention.heads = c.integer("num_attention_heads", 1, 4096);
  attention.kv_heads = c.integer_or("num_key_value_heads", 1, 4096, attention.heads);
  attention.head_dim = c.integer_or("head_dim", 1, 1024, spec.hidden / attention.heads);
  // Qwen2 has biases on q, k, v without saying so; the others say so, and then o has one too.
  attention.out_bias = c.boolean_or("attention_bias", false);
  attention.qkv_bias = qwen2 || attention.out_bias;
  attention.qk_norm = qwen3;
  const bool sliding = qwen2 || qwen3 ? c.boolean_or("use_sliding_window", false) : c.has("sliding_window");
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (attention.head_dim < 1) c.invalid("hidden_size is smaller than num_attention_heads");

  if (const auto act = c.string_or("hidden_act", "silu"); act != "silu")
    c.unsupported("hidden_act", act, "silu is");
  if (c.boolean_or("mlp_bias", false)) c.unsupported("mlp_bias", "true", "false is");

  const int layers = c.integer("num_hidden_layers", 1, 1024);
  const int full_until = c.integer_or("max_window_layers", 0, 1024, 0);
  const auto types = c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  for (const auto& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      c.unsupported("layer_types", type, "full_attention and sliding_attention are");
  if (const double part = c.number_or("partial_rotary_factor", 0, 1, 1); part != 1)
    c.unsupported("partial_rotary_factor", fmt::format("{}", part), "1 is, in this family");
  for (int i = 0; i < layers; i++) {
    AttentionSpec layer = attention;
    bool windowed = sliding && !(qwen2 || qwen3 ? i < full_until : false);
    if (static_cast<int>(types.size()) > i) windowed = types[i] == "sliding_attention";
    if (windowed) layer.window = c.integer("sliding_window", 1, 1 << 27);
    spec.layers.push_back({layer, mlp, spec.norms});
  }
  read_experts(c, spec);
  spec.ropes = {read_rope(c, attention.head_dim, 10000)};
  TRY_VOID(c.check());
  return spec;
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  const int hidden = builder.spec.hidden;
  TRY(auto norm1, take_norm(builder, p + "input_layernorm", hidden, layer.norms));
  TRY(auto attention, take_attention(builder, p + "self_attn.", layer));
  TRY(auto norm2, take_norm(builder, p + "post_attention_layernorm", hidden, layer.norms));
  TRY(auto mlp, take_feed_forward(builder, p + "mlp.", layer.mlp));
  return nn::DecoderLayer{norm1, std::move(attention), norm2, std::move(mlp)};
}

}  // namespace

const Family& llama_family() {
  static const Family family{read_config, build_layer};
  return family;
}

}  // namespace anabranch
