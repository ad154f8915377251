// Gemma 2, 3 and 4 (text) and VaultGemma. Norms before and after each half of a layer, a GeGLU MLP, scaled
// embeddings, and layers with a sliding window between layers with full attention. References: Transformers'
// modeling_gemma2.py, modeling_gemma3.py and modeling_gemma4.py.
//
//   Gemma 2: scores and logits are soft-capped.
//   Gemma 3: norms of queries and keys; windowed layers have a rope of their own.
//   Gemma 4: values are normalised; full layers have larger heads, perhaps without v_proj, and rotate a part
//            of each; the last layers may read the keys and values of earlier ones; per-layer embeddings; a
//            mixture of experts beside the MLP; norms multiply by w, not by 1 + w.
#include <algorithm>
#include <cmath>

#include "models/family_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

enum class Generation { gemma2 = 2, gemma3, gemma4 };

struct GemmaReader {
  const Json& json;  // of the text model
  ConfigReader c;
  Generation generation;
  bool vault = false;  // VaultGemma: Gemma 2 without the norms after both halves
  ModelSpec spec = {};
  std::vector<bool> windowed = {};  // of each layer

  bool gemma4() const { return generation == Generation::gemma4; }
  // Gemma 4 12B, which has no per-layer embeddings.
  bool unified() const { return string_at(json, "model_type").starts_with("gemma4_unified"); }
};

// The default where the key is absent; 0 where it is null.
double number_or_none(GemmaReader& r, const char* key, double fallback) {
  const auto it = r.json.find(key);
  if (it != r.json.end() && it->is_null()) return 0;
  return r.c.number_or(key, 0, 1e6, fallback);
}

// layer_types; without them every n-th layer is full, in older files of Gemma 3 by sliding_window_pattern.
void read_layer_types(GemmaReader& r, int layers) {
  const int pattern = r.generation == Generation::gemma3
                          ? r.c.integer_or("sliding_window_pattern", 1, 1024, 6)
                      : r.gemma4() ? 6
                                   : 2;
  const auto types = r.c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    r.c.invalid("layer_types does not have num_hidden_layers entries");
  for (int i = 0; i < layers; i++) {
    const bool listed = static_cast<int>(types.size()) == layers;
    const std::string type = listed ? types[static_cast<size_t>(i)] : "";
    if (listed && type != "sliding_attention" && type != "full_attention")
      r.c.unsupported("layer_types", type, "sliding_attention and full_attention are");
    r.windowed.push_back(listed ? type == "sliding_attention" : (i + 1) % pattern != 0);
  }
  if (r.gemma4()) r.windowed.back() = false;  // as Transformers does
}

// The rope of one kind of layer, from "rope_parameters" by kind or from the keys of older files.
ops::Rope read_kind_of_rope(GemmaReader& r, bool windowed, int head_dim) {
  const char* kind = windowed ? "sliding_attention" : "full_attention";
  const double default_theta = windowed || r.generation == Generation::gemma2 ? 10000 : 1e6;
  const Json& all = r.c.object("rope_parameters");
  Json own = Json::object();
  if (r.generation == Generation::gemma2) {
    own = rope_parameters_of(r.c, kind);
  } else {
    for (const auto& [key, value] : all.items())
      if (key != "full_attention" && key != "sliding_attention")
        r.c.unsupported("rope_parameters", "with \"" + key + "\"", "an entry for each kind of layers is");
    if (all.contains(kind) && !all[kind].is_null())
      own = without_truncation(ConfigReader(all, "rope_parameters").object(kind));
    if (r.gemma4() && all.empty() && !windowed)
      own = {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}};
    if (r.gemma4() && !r.c.object("rope_scaling").empty())
      r.c.unsupported("rope_scaling", "an object", "rope_parameters is, in gemma4");
    if (!windowed) own.update(r.c.object("rope_scaling"));
  }
  if (!own.contains("rope_theta"))
    own["rope_theta"] = windowed && r.generation != Generation::gemma2
                            ? r.c.number_or("rope_local_base_freq", 1, 1e12, default_theta)
                            : r.c.number_or("rope_theta", 1, 1e12, default_theta);
  const Json holder = {{"max_position_embeddings", r.spec.context_length}};
  ConfigReader rope(own, "rope parameters"), plain(holder, "rope parameters");
  const bool proportional = rope.string_or("rope_type", "default") == "proportional";
  if (!proportional) require_whole_heads(r.c, own);
  const ops::Rope out = proportional ? proportional_rope(plain, own, head_dim, default_theta)
                                     : read_rope(plain, own, head_dim, default_theta).rope;
  for (const auto& checked : {rope.check(), plain.check()})
    if (!checked) r.c.invalid(checked.error().message);
  return out;
}

AttentionSpec read_attention(GemmaReader& r) {
  AttentionSpec a;
  a.heads = r.c.integer_or("num_attention_heads", 1, 4096, 8);
  a.kv_heads = r.c.integer_or("num_key_value_heads", 1, 4096, 4);
  a.head_dim = r.c.integer_or("head_dim", 2, 1024, 256);
  const bool biases = r.c.boolean_or("attention_bias", false);
  read_biases(r.c, biases, biases, a);
  a.qk_norm = r.generation != Generation::gemma2;
  if (a.heads % a.kv_heads != 0) r.c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (r.gemma4()) {
    a.scale = 1;
    a.v_norm = true;
    return a;
  }
  a.scale = static_cast<float>(1 / std::sqrt(r.c.number_or("query_pre_attn_scalar", 1e-3, 1e6, 256)));
  if (r.generation == Generation::gemma2)  // Gemma 3 has the key, too, but Transformers does not apply it
    a.soft_cap = static_cast<float>(number_or_none(r, "attn_logit_softcapping", 50));
  return a;
}

// Settings of the full layers that differ, given separately for each of them.
void read_per_layer(GemmaReader& r, const Json& each, AttentionSpec& a) {
  if (each.empty()) return;  // as of the layers with windows
  for (const auto& [layer, values] : each.items()) {
    ConfigReader own(values, "per_layer_config");
    for (const auto& [key, value] : values.items())
      if (key != "head_dim" && key != "num_key_value_heads")
        r.c.unsupported("per_layer_config", "\"" + key + "\"", "head_dim and num_key_value_heads are");
    if (values != each.front())
      r.c.unsupported("per_layer_config", "not the same for all layers", "full layers that are alike are");
    a.head_dim = own.integer_or("head_dim", 2, 1024, a.head_dim);
    a.kv_heads = own.integer_or("num_key_value_heads", 1, 4096, a.kv_heads);
    if (auto checked = own.check(); !checked) r.c.invalid(checked.error().message);
  }
  for (size_t i = 0; i < r.windowed.size(); i++)
    if (each.contains(std::to_string(i)) == r.windowed[i])
      r.c.unsupported("per_layer_config", "not that of the full layers", "that is");
}

// The attention of Gemma 4's full layers.
AttentionSpec full_attention(GemmaReader& r, AttentionSpec a) {
  const auto each = r.json.find("per_layer_config");
  if (each != r.json.end() && each->is_object())
    read_per_layer(r, *each, a);
  else
    a.head_dim = r.c.integer_or("global_head_dim", 2, 1024, 512);
  a.keys_are_values = r.c.boolean_or("attention_k_eq_v", false);
  if (a.keys_are_values) a.kv_heads = r.c.integer_or("num_global_key_value_heads", 1, 4096, a.kv_heads);
  if (a.heads % a.kv_heads != 0)
    r.c.invalid("num_attention_heads must be a multiple of num_global_key_value_heads");
  return a;
}

// The last layers read the keys and values of the last layer of their kind before them.
void read_shared_layers(GemmaReader& r, int layers) {
  const int shared = r.c.integer_or("num_kv_shared_layers", 0, layers, 0);
  const bool wide = r.c.boolean_or("use_double_wide_mlp", false);
  const int first = layers - shared;
  for (int i = first; i < layers; i++) {
    int source = first - 1;
    while (source >= 0 && r.windowed[static_cast<size_t>(source)] != r.windowed[static_cast<size_t>(i)])
      source--;
    if (source < 0)
      return r.c.invalid("num_kv_shared_layers leaves no layer of each kind with keys and values");
    LayerSpec& layer = r.spec.layers[static_cast<size_t>(i)];
    std::get<AttentionSpec>(layer.mixer).kv_layer = source;
    if (auto* mlp = std::get_if<MlpSpec>(&layer.mlp); mlp && wide) mlp->intermediate *= 2;
  }
}

void read_layers(GemmaReader& r) {
  constexpr auto kGelu = ops::Activation::gelu_tanh;
  LayerForm form{.norm2 = "pre_feedforward_layernorm"};
  if (!r.vault) form.post1 = "post_attention_layernorm", form.post2 = "post_feedforward_layernorm";
  const int layers = r.c.integer("num_hidden_layers", 1, 1024);
  read_layer_types(r, layers);
  const MlpSpec mlp{r.c.integer("intermediate_size", 1, 1 << 20), kGelu};
  FeedForwardSpec feed_forward = mlp;
  if (r.gemma4() && r.c.boolean_or("enable_moe_block", false)) {
    MlpAndMoeSpec both{mlp, {}};
    both.moe.experts = r.c.integer(experts_key(r.c), 1, ops::kMostExperts);
    both.moe.routing.top_k = r.c.integer("top_k_experts", 1, ops::kMostExperts);
    both.moe.intermediate = r.c.integer("moe_intermediate_size", 1, 1 << 20);
    both.moe.activation = kGelu;
    if (both.moe.routing.top_k > both.moe.experts) r.c.invalid("top_k_experts is above num_experts");
    feed_forward = both;
  }
  const AttentionSpec any = read_attention(r), full = r.gemma4() ? full_attention(r, any) : any;
  const int window = r.c.is_null("sliding_window") ? 0
                                                   : r.c.integer_or("sliding_window", 1, 1 << 27,
                                                                    r.unified()  ? 1024
                                                                    : r.gemma4() ? 512
                                                                                 : 4096);
  if (window == 0 && std::ranges::find(r.windowed, true) != r.windowed.end())
    r.c.unsupported("sliding_window", "null, and some layers have windows", "a number is");
  for (const bool windowed : r.windowed) {
    AttentionSpec attention = windowed ? any : full;
    if (windowed) attention.window = window;
    r.spec.layers.push_back({attention, feed_forward, r.spec.norms, windowed ? 1 : 0, form});
  }
  if (r.gemma4()) read_shared_layers(r, layers);
  r.spec.ropes = {read_kind_of_rope(r, false, full.head_dim), read_kind_of_rope(r, true, any.head_dim)};
}

void read_sizes(GemmaReader& r, const Json& json, const std::string& file) {
  ModelSpec& spec = r.spec;
  spec.family = r.vault ? "vaultgemma" : fmt::format("gemma{}", static_cast<int>(r.generation));
  spec.hidden = r.c.integer("hidden_size", 1, 1 << 17);
  const bool gemma3 = r.generation == Generation::gemma3;
  spec.vocab = r.c.integer_or("vocab_size", 1, 1 << 24, gemma3 ? 262208 : r.gemma4() ? 262144 : 256000);
  spec.context_length = r.c.integer_or("max_position_embeddings", 1, 1 << 27,
                                       r.generation == Generation::gemma2 ? 8192 : 131072);
  spec.norms.eps = static_cast<float>(r.c.number_or("rms_norm_eps", 0, 1, 1e-6));
  spec.norms.offset = !r.gemma4();
  ConfigReader outer(json, file);
  spec.tied_embeddings = r.c.boolean_or("tie_word_embeddings", outer.boolean_or("tie_word_embeddings", true));
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.logits_soft_cap = static_cast<float>(
      number_or_none(r, "final_logit_softcapping", r.generation == Generation::gemma2 ? 30 : 0));
  if (r.gemma4()) {
    spec.per_layer_width = r.c.integer_or("hidden_size_per_layer_input", 0, 1 << 16, r.unified() ? 0 : 256);
    spec.per_layer_vocab = r.c.integer_or("vocab_size_per_layer_input", 1, 1 << 24, 262144);
    if (spec.per_layer_width > 0 && spec.per_layer_vocab < spec.vocab)
      r.c.invalid("vocab_size_per_layer_input is below vocab_size");
  }
}

}  // namespace

Result<ModelSpec> read_gemma_config(const Json& json, const std::string& file) {
  const bool nested = json.contains("text_config") && json["text_config"].is_object();
  const Json& text = nested ? json["text_config"] : json;
  const std::string type = string_at(json, "model_type");
  GemmaReader r{text, ConfigReader(text, nested ? file + " (text_config)" : file),
                type == "gemma2" || type == "vaultgemma" ? Generation::gemma2
                : type.starts_with("gemma3")             ? Generation::gemma3
                                                         : Generation::gemma4,
                type == "vaultgemma"};
  read_sizes(r, json, file);
  const std::string activation = r.c.string_or("hidden_activation", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh")
    r.c.unsupported("hidden_activation", activation, "gelu_pytorch_tanh is");
  const Json& both_ways =
      text.contains("use_bidirectional_attention") ? text["use_bidirectional_attention"] : Json();
  if (both_ways == "all" || both_ways == true)
    r.c.unsupported("use_bidirectional_attention", both_ways.dump(), "text must be read from left to right");
  read_layers(r);
  TRY_VOID(r.c.check());
  return std::move(r.spec);
}

}  // namespace anabranch
