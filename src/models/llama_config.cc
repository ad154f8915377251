// The Llama family: one decoder of attention and SwiGLU with pre-norms, and a table of what its members
// differ in. A new member is a row. References: Transformers' modeling_llama.py, modeling_mistral.py,
// modeling_ministral3.py, modeling_mixtral.py, modeling_qwen2.py, modeling_qwen3.py, modeling_qwen3_moe.py.
#include <algorithm>
#include <iterator>

#include "models/family_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

struct Member {
  const char* model_type;
  // `config`: "attention_bias" says whether q, k, v and o have biases. The others do not read that key.
  enum class Biases { none, qkv, config } biases = Biases::none;
  bool qk_norm = false;
  // use_sliding_window says whether there are windows, max_window_layers from which layer on; else
  // sliding_window itself does.
  bool window_switch = false;
  enum class Experts { none, all_layers, some_layers } experts = Experts::none;
};

constexpr Member kMembers[] = {
    {.model_type = "llama", .biases = Member::Biases::config},
    {.model_type = "mistral"},
    {.model_type = "ministral"},
    {.model_type = "ministral3"},
    {.model_type = "mixtral", .experts = Member::Experts::all_layers},
    {.model_type = "qwen2", .biases = Member::Biases::qkv, .window_switch = true},
    {.model_type = "qwen3", .biases = Member::Biases::config, .qk_norm = true, .window_switch = true},
    {.model_type = "qwen3_moe",
     .biases = Member::Biases::config,
     .qk_norm = true,
     .window_switch = true,
     .experts = Member::Experts::some_layers},
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

AttentionSpec read_attention(ConfigReader& c, const Member& member, int hidden) {
  AttentionSpec attention;
  attention.heads = c.integer("num_attention_heads", 1, 4096);
  attention.kv_heads = c.integer_or("num_key_value_heads", 1, 4096, attention.heads);
  attention.head_dim = c.integer_or("head_dim", 1, 1024, hidden / attention.heads);
  const bool all = member.biases == Member::Biases::config && c.boolean_or("attention_bias", false);
  read_biases(c, all || member.biases == Member::Biases::qkv, all, attention);
  attention.qk_norm = member.qk_norm;
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (attention.head_dim < 1) c.invalid("hidden_size is smaller than num_attention_heads");
  return attention;
}

// Of each layer, whether it has a window.
std::vector<bool> read_windows(ConfigReader& c, const Member& member, int layers) {
  const bool any = member.window_switch ? c.boolean_or("use_sliding_window", false) : c.has("sliding_window");
  const int full_until = member.window_switch ? c.integer_or("max_window_layers", 0, 1024, 0) : 0;
  const auto types = c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  for (const auto& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      c.unsupported("layer_types", type, "full_attention and sliding_attention are");
  std::vector<bool> windows;
  for (int i = 0; i < layers; i++)
    windows.push_back(static_cast<int>(types.size()) > i
                          ? types[static_cast<size_t>(i)] == "sliding_attention"
                          : any && i >= full_until);
  return windows;
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
                      spec.family);

  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  const MlpSpec mlp{c.integer("intermediate_size", 1, 1 << 20)};
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, 2048);
  spec.norms.eps = static_cast<float>(c.number_or("rms_norm_eps", 0, 1, 1e-6));
  ConfigReader outer(json, file);
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", outer.boolean_or("tie_word_embeddings", false));

  if (const auto act = c.string_or("hidden_act", "silu"); act != "silu")
    c.unsupported("hidden_act", act, "silu is");
  if (c.boolean_or("mlp_bias", false)) c.unsupported("mlp_bias", "true", "false is");
  if (const double part = c.number_or("partial_rotary_factor", 0, 1, 1); part != 1)
    c.unsupported("partial_rotary_factor", fmt::format("{}", part), "1 is, in this family");

  const AttentionSpec attention = read_attention(c, *member, spec.hidden);
  for (const bool windowed : read_windows(c, *member, c.integer("num_hidden_layers", 1, 1024))) {
    AttentionSpec layer = attention;
    if (windowed) layer.window = c.integer("sliding_window", 1, 1 << 27);
    spec.layers.push_back({layer, mlp, spec.norms});
  }
  read_experts(c, *member, spec);
  const RopeConfig turned = read_rope(c, attention.head_dim, 10000);
  spec.ropes = {turned.rope};
  spec.context_length = std::max(spec.context_length, turned.context_length);
  TRY_VOID(c.check());
  return spec;
}

bool is_llama_member(const std::string& model_type) {
  return model_type == "mistral3" || find_member(model_type) != nullptr;
}

}  // namespace anabranch
