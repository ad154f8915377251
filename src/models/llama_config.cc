// The Llama family: one decoder of attention and SwiGLU with pre-norms, and a table of the differences
// between its members. A new member is a new row. References: Transformers' modeling_llama.py,
// modeling_mistral.py, modeling_ministral3.py, modeling_mixtral.py, modeling_qwen2.py, modeling_qwen3.py,
// modeling_qwen3_moe.py.
#include <algorithm>
#include <iterator>

#include "base/outside_text.h"
#include "models/family_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

struct Member {
  const char* model_type;
  // config: "attention_bias" says whether q, k, v and o have biases. The other kinds do not read that key.
  enum class Biases { none, qkv, config } biases = Biases::none;
  bool mlp_bias = false;  // "mlp_bias" says whether gate, up and down have biases
  bool qk_norm = false;
  // Which layers have windows. all: every layer, if "sliding_window" is a number. by_type: those that
  // "layer_types" names. switched, switched_all: only if "use_sliding_window" is set; then those that
  // "layer_types" names, and without that key the layers from "max_window_layers" on (switched) or every
  // layer (switched_all).
  enum class Windows { none, all, by_type, switched, switched_all } windows = Windows::none;
  enum class Experts { none, all_layers, some_layers } experts = Experts::none;
  // The defaults of absent keys in Transformers. 0: as many kv heads as heads; head_dim is the width divided
  // by the heads; no window.
  int kv_heads = 0, head_dim = 0, window = 0, context = 2048;
  double eps = 1e-6, theta = 10000;
};

constexpr Member kMembers[] = {
    {.model_type = "llama", .biases = Member::Biases::config, .mlp_bias = true},
    {.model_type = "mistral",
     .windows = Member::Windows::all,
     .kv_heads = 8,
     .window = 4096,
     .context = 131072},
    {.model_type = "ministral",
     .windows = Member::Windows::by_type,
     .kv_heads = 8,
     .window = 4096,
     .context = 131072},
    {.model_type = "ministral3",
     .windows = Member::Windows::all,
     .kv_heads = 8,
     .head_dim = 128,
     .context = 262144,
     .eps = 1e-5},
    {.model_type = "mixtral",
     .windows = Member::Windows::all,
     .experts = Member::Experts::all_layers,
     .kv_heads = 8,
     .context = 131072,
     .eps = 1e-5,
     .theta = 1e6},
    {.model_type = "qwen2",
     .biases = Member::Biases::qkv,
     .windows = Member::Windows::switched,
     .kv_heads = 32,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen3",
     .biases = Member::Biases::config,
     .qk_norm = true,
     .windows = Member::Windows::switched,
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen3_moe",
     .biases = Member::Biases::config,
     .qk_norm = true,
     .windows = Member::Windows::switched_all,
     .experts = Member::Experts::some_layers,
     .kv_heads = 4,
     .window = 4096,
     .context = 32768},
};

const Member* find_member(const std::string& model_type) {
  const auto* row =
      std::ranges::find_if(kMembers, [&](const Member& m) { return m.model_type == model_type; });
  return row == std::end(kMembers) ? nullptr : row;
}

void read_experts(ConfigReader& c, const Member& member, ModelSpec& spec) {
  if (member.experts == Member::Experts::all_layers) {
    const MoeSpec experts = read_moe(c, "intermediate_size");
    for (LayerSpec& layer : spec.layers) layer.mlp = experts;
  } else if (member.experts == Member::Experts::some_layers) {
    MoeSpec experts = read_moe(c, "moe_intermediate_size");
    experts.routing.normalise = c.boolean_or("norm_topk_prob", false);
    for (const int i : sparse_layers(c, static_cast<int>(spec.layers.size())))
      spec.layers[static_cast<size_t>(i)].mlp = experts;
  }
}

// The default where the key is absent; `none` where it is null.
int integer_of(ConfigReader& c, const char* key, int high, int fallback, int none) {
  return c.is_null(key) ? none : c.integer_or(key, 1, high, fallback);
}

AttentionSpec read_attention(ConfigReader& c, const Member& member, int hidden) {
  AttentionSpec attention;
  attention.heads = c.integer("num_attention_heads", 1, 4096);
  const int share = hidden / attention.heads;
  attention.kv_heads = integer_of(c, "num_key_value_heads", 4096,
                                  member.kv_heads == 0 ? attention.heads : member.kv_heads, attention.heads);
  attention.head_dim = integer_of(c, "head_dim", 1024, member.head_dim == 0 ? share : member.head_dim, share);
  const bool all = member.biases == Member::Biases::config && c.boolean_or("attention_bias", false);
  read_biases(c, all || member.biases == Member::Biases::qkv, all, attention);
  attention.qk_norm = member.qk_norm;
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (attention.head_dim < 1) c.invalid("hidden_size is smaller than num_attention_heads");
  return attention;
}

// Whether each layer has a window, by the keys that Transformers reads for this member, and by "layer_types",
// which it reads for some members. If a config states both and they differ, it is an error.
std::vector<bool> read_windows(ConfigReader& c, const Member& member, int layers, int window) {
  using Windows = Member::Windows;
  const bool switched = member.windows == Windows::switched || member.windows == Windows::switched_all;
  const bool any = window > 0 && (!switched || c.boolean_or("use_sliding_window", false));
  const int first = member.windows == Windows::switched ? c.integer_or("max_window_layers", 0, 1024, 28) : 0;
  const auto types = c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  const bool listed = static_cast<int>(types.size()) == layers;
  const bool list_counts = member.windows == Windows::by_type || member.windows == Windows::switched;
  std::vector<bool> windows;
  for (int i = 0; i < layers; i++) {
    const std::string type = listed ? types[static_cast<size_t>(i)] : "";
    if (listed && type != "full_attention" && type != "sliding_attention")
      c.unsupported("layer_types", type, "full_attention and sliding_attention are");
    const bool sliding = type == "sliding_attention", implied = any && i >= first;
    if (sliding && window == 0) c.invalid("layer_types has windows, but \"sliding_window\" is missing");
    if (listed && (list_counts ? sliding && !any : sliding != implied))
      c.unsupported("layer_types", fmt::format("{} in layer {}", type, i),
                    "what sliding_window and use_sliding_window say of this model_type is");
    windows.push_back(listed && list_counts ? sliding : implied);
  }
  return windows;
}

// One rope for all layers; or two, if the config has one for each kind and some layers have windows.
void read_ropes(ConfigReader& c, const Member& member, int head_dim, ModelSpec& spec) {
  if (spec.family == "ministral3" && !c.has("rope_parameters") && !c.has("rope_scaling"))
    c.unsupported("rope_parameters", "absent", "they are needed in ministral3");
  const auto windowed = [](const LayerSpec& layer) {
    return std::get<AttentionSpec>(layer.mixer).window > 0;
  };
  std::vector<Json> kinds;
  for (LayerSpec& layer : spec.layers) {
    const Json own = rope_parameters_of(c, windowed(layer) ? "sliding_attention" : "full_attention");
    const auto at = std::ranges::find(kinds, own);
    layer.rope = static_cast<int>(at - kinds.begin());
    if (at != kinds.end()) continue;
    kinds.push_back(own);
    require_whole_heads(c, own);
    const RopeConfig turned = read_rope(c, own, head_dim, member.theta);
    spec.ropes.push_back(turned.rope);
    spec.context_length = std::max(spec.context_length, turned.context_length);
  }
}

}  // namespace

Result<ModelSpec> read_llama_config(const Json& json, const std::string& file) {
  const bool nested = json.contains("text_config") && json["text_config"].is_object();
  ConfigReader c(nested ? json["text_config"] : json, nested ? file + " (text_config)" : file);
  ModelSpec spec;
  spec.family = c.string_or("model_type", "mistral");
  const Member* member = find_member(spec.family);
  if (!member)
    return make_error(ErrorKind::unsupported, "{}: model_type \"{}\" is not supported in text_config", file,
                      shown(spec.family));

  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  MlpSpec mlp{c.integer("intermediate_size", 1, 1 << 20)};
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, member->context);
  spec.norms.eps = static_cast<float>(c.number_or("rms_norm_eps", 0, 1, member->eps));
  ConfigReader outer(json, file);
  spec.tied_embeddings =
      c.boolean_or("tie_word_embeddings",
                   outer.boolean_or("tie_word_embeddings", string_at(json, "model_type") == "mistral3"));
  require_silu(c);
  mlp.bias = member->mlp_bias && c.boolean_or("mlp_bias", false);

  const AttentionSpec attention = read_attention(c, *member, spec.hidden);
  const int window = member->windows == Member::Windows::none
                         ? 0
                         : integer_of(c, "sliding_window", 1 << 27, member->window, 0);
  for (const bool windowed : read_windows(c, *member, c.integer("num_hidden_layers", 1, 1024), window)) {
    AttentionSpec layer = attention;
    if (windowed) layer.window = window;
    spec.layers.push_back({layer, mlp, spec.norms});
  }
  read_experts(c, *member, spec);
  read_ropes(c, *member, attention.head_dim, spec);
  TRY_VOID(c.check());
  return spec;
}

bool is_llama_member(const std::string& model_type) {
  return model_type == "mistral3" || find_member(model_type) != nullptr;
}

}  // namespace anabranch
