// Qwen3.5 / 3.6 (dense and MoE) and Qwen3-Next: three Gated DeltaNet layers to one layer of gated attention.
// Reference: Transformers' modeling_qwen3_5.py, modeling_qwen3_5_moe.py, modeling_qwen3_next.py. Every
// RMSNorm but the gated one applies (1 + w).
#include <algorithm>

#include "models/family_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

// Reads the settings of the MTP head. Only heads with one layer and the main model's embedding are supported:
// there are no published heads of another kind.
void read_mtp(ConfigReader& c, ModelSpec& spec) {
  spec.mtp_layers = c.integer_or("mtp_num_hidden_layers", 0, 64, 0);
  if (spec.mtp_layers > 1)
    spec.mtp_unsupported = fmt::format(
        "it has {} layers (mtp_num_hidden_layers), only heads of one are supported", spec.mtp_layers);
  if (c.boolean_or("mtp_use_dedicated_embeddings", false))
    spec.mtp_unsupported =
        "it has an embedding of its own (mtp_use_dedicated_embeddings), which is not supported";
}

// SwiGLU or, in models with experts, a mixture with a shared expert. In Qwen3-Next not every layer has to be
// a mixture, and the weights may not add up to 1. Transformers does not read those keys for the other models.
void read_feed_forward(ConfigReader& c, ModelSpec& spec, bool next) {
  const bool moe = c.has(experts_key(c)) && c.integer(experts_key(c), 0, 1 << 16) > 0;
  const int dense =
      moe ? c.integer_or("intermediate_size", 1, 1 << 20, 0) : c.integer("intermediate_size", 1, 1 << 20);
  for (LayerSpec& layer : spec.layers) layer.mlp = MlpSpec{dense};
  if (!moe) return;
  MoeKeys keys{.shared_gate = true};
  if (next) keys.normalise = "norm_topk_prob", keys.layers = MoeKeys::Layers::stepped;
  MoeSpec experts = read_moe(c, keys);
  experts.shared_intermediate = c.integer("shared_expert_intermediate_size", 1, 1 << 20);
  const auto sparse = sparse_layers(c, keys, static_cast<int>(spec.layers.size()));
  for (const int i : sparse) spec.layers[static_cast<size_t>(i)].mlp = experts;
  if (dense == 0 && sparse.size() < spec.layers.size())
    c.invalid("\"intermediate_size\" is missing, and some layers are not mixtures of experts");
}

}  // namespace

Result<ModelSpec> read_qwen3_5_config(const Json& json, const std::string& file) {
  const bool nested = json.contains("text_config") && json["text_config"].is_object();
  ConfigReader c(nested ? json["text_config"] : json, nested ? file + " (text_config)" : file);
  ModelSpec spec;
  const std::string type = c.string_or("model_type", "");
  const bool next = type == "qwen3_next";
  spec.family = next ? type : "qwen3_5";
  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, 32768);
  spec.norms.offset = true;
  spec.norms.eps = static_cast<float>(c.number_or("rms_norm_eps", 0, 1, 1e-6));
  ConfigReader outer(json, file);
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", outer.boolean_or("tie_word_embeddings", false));

  AttentionSpec attention;
  attention.heads = c.integer("num_attention_heads", 1, 4096);
  attention.kv_heads = c.integer("num_key_value_heads", 1, 4096);
  attention.head_dim = c.integer_or("head_dim", 2, 1024, 256);
  attention.qk_norm = true;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  attention.output_gate = c.boolean_or("attn_output_gate", true);
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");

  ops::RecurrenceShape delta;
  delta.key_heads = c.integer("linear_num_key_heads", 1, 4096);
  delta.value_heads = c.integer("linear_num_value_heads", 1, 4096);
  delta.key_dim = c.integer("linear_key_head_dim", 1, 1024);
  delta.value_dim = c.integer("linear_value_head_dim", 1, 1024);
  delta.conv_kernel = c.integer_or("linear_conv_kernel_dim", 2, 16, 4);
  if (delta.value_heads % delta.key_heads != 0)
    c.invalid("linear_num_value_heads must be a multiple of linear_num_key_heads");

  require_silu(c);
  const auto gate = c.string_or("output_gate_type", "silu");
  delta.sigmoid_gate = gate == "sigmoid";
  if (gate != "silu" && gate != "swish" && gate != "sigmoid")
    c.unsupported("output_gate_type", gate, "silu, swish and sigmoid are");

  read_mtp(c, spec);
  const int layers = c.integer("num_hidden_layers", 1, 1024);
  const int interval = c.integer_or("full_attention_interval", 1, 1024, 4);
  const auto types = c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  for (int i = 0; i < layers; i++) {
    const bool full =
        static_cast<int>(types.size()) == layers ? types[i] == "full_attention" : (i + 1) % interval == 0;
    if (static_cast<int>(types.size()) == layers && !full && types[i] != "linear_attention")
      c.unsupported("layer_types", types[i], "linear_attention and full_attention are");
    spec.layers.push_back({full ? MixerSpec(attention) : MixerSpec(delta), MlpSpec(), spec.norms});
  }
  read_feed_forward(c, spec, next);

  double rotary = c.number_or("partial_rotary_factor", 0, 1, 0.25);
  const Json parameters = rope_parameters_of(c, "full_attention");
  ConfigReader rope(parameters, file + " (rope_parameters)");
  rotary = rope.number_or("partial_rotary_factor", 0, 1, rotary);
  const int rotated = static_cast<int>(attention.head_dim * rotary);
  const RopeConfig turned = read_rope(c, parameters, rotated, 10000);
  if (turned.rope.query_beta != 0 && rotated < attention.head_dim)
    c.unsupported("llama_4_scaling_beta", fmt::format("{}", turned.rope.query_beta),
                  "none is where only a part of each head turns");
  spec.ropes = {turned.rope};
  add_interleaved_axes(rope, {11, 11, 10}, spec.ropes[0]);
  spec.context_length = std::max(spec.context_length, turned.context_length);
  TRY_VOID(rope.check());
  TRY_VOID(c.check());
  return spec;
}

}  // namespace anabranch
