// References: Transformers' modeling_lfm2.py, modeling_nemotron_h.py, modeling_granitemoehybrid.py,
// modeling_bamba.py, modeling_olmo_hybrid.py, and their configuration files, which also have the defaults of
// absent keys.
#include "models/hybrid_config.h"

#include <algorithm>
#include <iterator>

#include "models/rope.h"

namespace anabranch::hybrid {
namespace {

// The kinds of layers, by their names in configs and in Nemotron-H's patterns.
struct KindName {
  const char* name;
  Kind kind;
};
constexpr KindName kKindNames[] = {
    {"full_attention", Kind::attention},
    {"attention", Kind::attention},
    {"*", Kind::attention},
    {"linear_attention", Kind::recurrence},
    {"mamba", Kind::recurrence},
    {"M", Kind::recurrence},
    {"conv", Kind::convolution},
    {"mlp", Kind::mlp},
    {"-", Kind::mlp},
    {"moe", Kind::moe},
    {"E", Kind::moe},
};

}  // namespace

std::vector<Kind> kinds_of(ConfigReader& c, const char* key, const std::vector<std::string>& names,
                           std::initializer_list<Kind> known) {
  std::vector<Kind> kinds;
  for (const std::string& name : names) {
    const auto* row = std::ranges::find_if(kKindNames, [&](const KindName& k) { return name == k.name; });
    if (row == std::end(kKindNames) || std::ranges::find(known, row->kind) == known.end())
      c.unsupported(key, name, "layers of this kind are not");
    else
      kinds.push_back(row->kind);
  }
  return kinds;
}

std::vector<std::string> listed_layers(ConfigReader& c) {
  return c.strings(c.has("layers_block_type") ? "layers_block_type" : "layer_types");
}

ops::RecurrenceShape read_mamba2(ConfigReader& c, const Mamba2Keys& keys, int width) {
  ops::RecurrenceShape shape;
  shape.value_heads = c.integer_or(keys.heads, 1, 4096, keys.default_heads);
  shape.key_heads = c.integer_or(keys.groups, 1, 4096, keys.default_groups);
  shape.key_dim = c.integer_or(keys.state, 1, 1024, keys.default_state);
  const int share = keys.default_head_dim > 0 ? keys.default_head_dim : width / shape.value_heads;
  const bool automatic = c.is_string(keys.head_dim, "auto");
  shape.value_dim = automatic ? share : c.integer_or(keys.head_dim, 1, 1024, share);
  shape.conv_kernel = c.integer_or(keys.taps, 1, kMaxConvKernel, 4);
  shape.rule = {.delta = false,
                .unit_keys = false,
                .beta = Rule::Beta::step,
                .conv_bias = c.boolean_or(keys.conv_bias, true),
                .skip = true,
                .norm = Rule::Norm::after_gate};
  if (shape.value_heads % shape.key_heads != 0)
    c.invalid(fmt::format("{} must be a multiple of {}", keys.heads, keys.groups));
  else
    shape.rule.norm_group = shape.value_heads / shape.key_heads * shape.value_dim;
  if (shape.value_dim < 1) c.invalid("the mixer is narrower than its heads");
  if (const auto act = c.string_or(keys.activation, "silu"); act != "silu" && act != "swish")
    c.unsupported(keys.activation, act, "silu is");
  return shape;
}

ops::RecurrenceShape read_delta_net(ConfigReader& c, int key_heads, int value_heads, int least_taps) {
  ops::RecurrenceShape delta;
  delta.key_heads = c.integer_or("linear_num_key_heads", 1, 4096, key_heads);
  delta.value_heads = c.integer_or("linear_num_value_heads", 1, 4096, value_heads);
  delta.key_dim = c.integer_or("linear_key_head_dim", 1, 1024, 128);
  delta.value_dim = c.integer_or("linear_value_head_dim", 1, 1024, 128);
  delta.conv_kernel = c.integer_or("linear_conv_kernel_dim", least_taps, kMaxConvKernel, 4);
  if (delta.value_heads % delta.key_heads != 0)
    c.invalid("linear_num_value_heads must be a multiple of linear_num_key_heads");
  return delta;
}

int expanded_width(ConfigReader& c, int hidden) {
  return c.integer_or("mamba_expand", 1, 1024, 2) * hidden;
}

// Transformers writes an infinite number as {"__float__": "Infinity"}.
void read_step_limit(ConfigReader& c, const Json& config, ops::RecurrenceShape& shape) {
  if (!c.has("time_step_limit")) return;
  const Json& limit = config["time_step_limit"];
  const bool pair = limit.is_array() && limit.size() == 2;
  const bool endless = pair && limit[1] == Json{{"__float__", "Infinity"}};
  const bool good = pair && limit[0].is_number() && limit[0] >= 0 && limit[0] <= 1e6 &&
                    (endless || (limit[1].is_number() && limit[1] >= limit[0]));
  if (!good)
    return c.invalid(
        "time_step_limit must be two numbers, the least (from 0 to 1e6) and the most (not below it)");
  shape.rule.step_min = limit[0].get<float>();
  if (!endless)
    shape.rule.step_max = static_cast<float>(std::min<double>(shape.rule.step_max, limit[1].get<double>()));
}

AttentionSpec read_attention(ConfigReader& c, const AttentionDefaults& defaults, int hidden) {
  AttentionSpec attention;
  attention.heads = c.integer_or("num_attention_heads", 1, 4096, defaults.heads);
  attention.kv_heads = c.integer_or(
      "num_key_value_heads", 1, 4096,
      defaults.kv_heads > 0 && !c.is_null("num_key_value_heads") ? defaults.kv_heads : attention.heads);
  const int share = defaults.head_dim > 0 ? defaults.head_dim : hidden / attention.heads;
  attention.head_dim = c.integer_or("head_dim", 2, 1024, share);
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (attention.head_dim < 2) c.invalid("head_dim, hidden_size / num_attention_heads, must be at least 2");
  return attention;
}

void read_sizes(ConfigReader& c, const Sizes& absent, ModelSpec& spec) {
  spec.hidden = c.integer_or("hidden_size", 1, 1 << 17, absent.hidden);
  spec.vocab = c.integer_or("vocab_size", 1, 1 << 24, absent.vocab);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, absent.context);
  spec.norms.eps = static_cast<float>(c.number_or(absent.eps_key, 0, 1, absent.eps));
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", absent.tied);
}

void read_one_rope(ConfigReader& c, const Json& parameters, int turned, double theta, ModelSpec& spec) {
  const RopeConfig out = read_rope(c, parameters, turned, theta);
  spec.ropes = {out.rope};
  spec.context_length = std::max(spec.context_length, out.context_length);
}

void read_rope_of_whole_heads(ConfigReader& c, int head_dim, double theta, ModelSpec& spec) {
  const Json parameters = rope_parameters_of(c, "full_attention");
  require_whole_heads(c, parameters);
  read_one_rope(c, parameters, head_dim, theta, spec);
}

ops::Rope no_rope() {
  ops::Rope rope;
  rope.inv_freq = {0};
  return rope;
}

MlpSpec read_mlp(ConfigReader& c, const char* key, int absent, bool bias) {
  require_silu(c);
  return {.intermediate = c.integer_or(key, 1, 1 << 20, absent), .bias = bias};
}

namespace {

// LFM2 computes the width of its MLP.
int lfm2_intermediate(ConfigReader& c) {
  const char* key = c.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int width = c.integer_or(key, 1, 1 << 20, 12288);
  if (!c.boolean_or("block_auto_adjust_ff_dim", true)) return width;
  width = static_cast<int>(2.0 * width / 3);
  if (c.is_null("block_ffn_dim_multiplier")) return width;
  width = static_cast<int>(c.number_or("block_ffn_dim_multiplier", 0, 1024, 1) * width);
  const int multiple = c.integer_or("block_multiple_of", 1, 1 << 20, 256);
  return (width + multiple - 1) / multiple * multiple;
}

constexpr LayerForm kLfm2Form{.norm1 = "operator_norm",
                              .norm2 = "ffn_norm",
                              .q_norm = "q_layernorm",
                              .k_norm = "k_layernorm",
                              .o = "out_proj",
                              .gate = "w1",
                              .up = "w3",
                              .down = "w2",
                              .recurrence = "conv.",
                              .mlp = "feed_forward."};
constexpr LayerForm kLfm2MoeForm{.norm1 = "operator_norm",
                                 .norm2 = "ffn_norm",
                                 .q_norm = "q_layernorm",
                                 .k_norm = "k_layernorm",
                                 .o = "out_proj",
                                 .recurrence = "conv."};
constexpr MoeKeys kLfm2Moe{.routing = {.scores = ops::RouterSpec::Scores::sigmoid, .added_sum = 1e-6f},
                           .normalise = "norm_topk_prob",
                           .scale = "routed_scaling_factor",
                           .layers = MoeKeys::Layers::after_dense,
                           .dense_key = "num_dense_layers",
                           .default_dense = 2};

void read_lfm2_mixers(ConfigReader& c, const MlpSpec& mlp, ModelSpec& spec) {
  spec.tied_embeddings = c.boolean_or("tie_embedding", spec.tied_embeddings);
  AttentionSpec attention = read_attention(c, {32, 8}, spec.hidden);
  attention.qk_norm = true;
  ops::RecurrenceShape convolution;
  convolution.channels = spec.hidden;
  convolution.conv_kernel = c.integer_or("conv_L_cache", 1, kMaxConvKernel, 3);
  convolution.rule.conv_bias = c.boolean_or("conv_bias", false);
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  auto kinds = kinds_of(c, "layer_types", listed_layers(c), {Kind::attention, Kind::convolution});
  if (!c.has("layer_types") && !c.has("layers_block_type")) {
    const auto full = c.integers("full_attn_idxs");
    for (int i = 0; i < layers; i++) {
      const bool attends = !c.has("full_attn_idxs") || std::ranges::find(full, i) != full.end();
      kinds.push_back(attends ? Kind::attention : Kind::convolution);
    }
  }
  for (const Kind kind : kinds)
    spec.layers.push_back({kind == Kind::attention ? MixerSpec(attention) : MixerSpec(convolution), mlp,
                           spec.norms, 0, kLfm2Form});
  read_rope_of_whole_heads(c, attention.head_dim, 1e6, spec);
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
}

void read_lfm2(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {2560, 65536, 128000, "norm_eps", 1e-5, true}, spec);
  read_lfm2_mixers(c, {lfm2_intermediate(c)}, spec);
}

void read_lfm2_moe(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {2048, 65536, 128000, "norm_eps", 1e-5, true}, spec);
  read_lfm2_mixers(c, {c.integer_or("intermediate_size", 1, 1 << 20, 7168)}, spec);
  for (const int i : sparse_layers(c, kLfm2Moe, static_cast<int>(spec.layers.size()))) {
    MoeSpec experts = read_moe(c, kLfm2Moe);
    experts.choice_bias = c.boolean_or("use_expert_bias", true);
    spec.layers[static_cast<size_t>(i)].mlp = experts;
    spec.layers[static_cast<size_t>(i)].form = kLfm2MoeForm;
  }
}

constexpr Mamba2Keys kNemotronKeys{"mamba_num_heads",
                                   "mamba_head_dim",
                                   "n_groups",
                                   "ssm_state_size",
                                   "conv_kernel",
                                   "use_conv_bias",
                                   "mamba_hidden_act",
                                   128,
                                   64,
                                   8,
                                   128};

// Blocks of one half: each is a mixer or an MLP.
constexpr LayerForm kNemotronMixer{
    .norm1 = "norm", .norm2 = nullptr, .attention = "mixer.", .recurrence = "mixer."};
constexpr LayerForm kNemotronMlp{.norm1 = nullptr, .norm2 = "norm", .mlp = "mixer."};
constexpr LayerForm kNemotronMoeForm{.norm1 = nullptr, .norm2 = "norm"};
constexpr MoeKeys kNemotronMoe{.experts = "n_routed_experts",
                               .shared_width = "moe_shared_expert_intermediate_size",
                               .default_shared = 7688,
                               .choice_bias = true,
                               .routing = {.scores = ops::RouterSpec::Scores::sigmoid, .added_sum = 1e-20f},
                               .normalise = "norm_topk_prob",
                               .scale = "routed_scaling_factor",
                               .groups = true};

// Experts without a gate, which may work on fewer values than the residual stream has.
MoeSpec read_nemotron_moe(ConfigReader& c, const MlpSpec& mlp) {
  MoeSpec experts = read_moe(c, kNemotronMoe);
  experts.gated = false;
  experts.bias = mlp.bias;
  experts.latent = c.integer_or("moe_latent_size", 1, 1 << 17, 0);
  if (!mlp.relu2)
    c.unsupported("mlp_hidden_act", c.string_or("mlp_hidden_act", ""), "relu2 is, in a model with experts");
  return experts;
}

MlpSpec read_ungated_mlp(ConfigReader& c) {
  MlpSpec mlp{.intermediate = c.integer_or("intermediate_size", 1, 1 << 20, 21504),
              .bias = c.boolean_or("mlp_bias", false),
              .gated = false};
  read_ungated_activation(c, "mlp_hidden_act", "relu2", false, mlp);
  return mlp;
}

// "layers_block_type", or in published files a pattern with a letter for each layer.
std::vector<Kind> nemotron_layers(ConfigReader& c) {
  const auto known = {Kind::attention, Kind::recurrence, Kind::mlp, Kind::moe};
  const auto listed = listed_layers(c);
  if (!listed.empty()) return kinds_of(c, "layers_block_type", listed, known);
  std::vector<std::string> letters;
  for (const char letter : c.string_or("hybrid_override_pattern", "")) letters.emplace_back(1, letter);
  if (letters.empty()) c.invalid("\"layers_block_type\" and \"hybrid_override_pattern\" are missing");
  return kinds_of(c, "hybrid_override_pattern", letters, known);
}

void read_nemotron_h(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {4096, 131072, 4096, "layer_norm_epsilon", 1e-5, false}, spec);
  const AttentionSpec attention = read_attention(c, {32, 8, 128}, spec.hidden);
  // Where there are both, the older names count, as in Transformers.
  const auto older = [&](const char* name, const char* newer) { return c.has(name) ? name : newer; };
  Mamba2Keys keys = kNemotronKeys;
  keys.groups = older("mamba_n_groups", keys.groups);
  keys.taps = older("mamba_d_conv", keys.taps);
  keys.conv_bias = older("mamba_conv_bias", keys.conv_bias);
  auto mamba = read_mamba2(c, keys, 0);
  // The limit has no upper end, whatever "time_step_limit" says.
  mamba.rule.step_min = static_cast<float>(c.number_or(older("mamba_dt_min", "time_step_min"), 0, 1e6, 1e-3));
  const MlpSpec mlp = read_ungated_mlp(c);
  const auto kinds = nemotron_layers(c);
  MoeSpec experts;
  if (std::ranges::find(kinds, Kind::moe) != kinds.end()) experts = read_nemotron_moe(c, mlp);
  for (const Kind kind : kinds) {
    LayerSpec layer{attention, std::monostate(), spec.norms, 0, kNemotronMixer};
    if (kind == Kind::recurrence) layer.mixer = mamba;
    if (kind == Kind::mlp) layer.mixer = std::monostate(), layer.mlp = mlp, layer.form = kNemotronMlp;
    if (kind == Kind::moe) layer.mixer = std::monostate(), layer.mlp = experts, layer.form = kNemotronMoeForm;
    spec.layers.push_back(std::move(layer));
  }
  spec.ropes = {no_rope()};
}

// The MLP of a model without experts has the name of the shared expert.
constexpr LayerForm kGraniteForm{.recurrence = "mamba.", .mlp = "mlp.shared_expert."};
constexpr LayerForm kGraniteMoeForm{.recurrence = "mamba."};
constexpr MoeKeys kGraniteHMoe{
    .intermediate = "intermediate_size", .shared_width = "shared_intermediate_size", .default_shared = 1024};

void read_granite_h(ConfigReader& c, const Json& json, ModelSpec& spec) {
  read_sizes(c, {4096, 32000, 2048, "rms_norm_eps", 1e-6, false}, spec);
  AttentionSpec attention = read_attention(c, {32, 0}, spec.hidden);
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  attention.scale = static_cast<float>(c.number_or("attention_multiplier", 1e-9, 1e9, 1));
  auto mamba = read_mamba2(c, kMambaKeys, expanded_width(c, spec.hidden));
  read_step_limit(c, json, mamba);
  FeedForwardSpec mlp = read_mlp(c, "shared_intermediate_size", 1024, false);
  const bool sparse = c.integer_or("num_local_experts", 0, 1 << 16, 8) > 0;
  if (sparse) mlp = read_moe(c, kGraniteHMoe);
  spec.embedding_scale = static_cast<float>(c.number_or("embedding_multiplier", 0, 1e9, 1));
  spec.logits_scale = static_cast<float>(1 / c.number_or("logits_scaling", 1e-9, 1e9, 1));
  const auto residual = static_cast<float>(c.number_or("residual_multiplier", 0, 1e9, 1));
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  auto kinds = kinds_of(c, "layer_types", listed_layers(c), {Kind::attention, Kind::recurrence});
  if (!c.has("layer_types") && !c.has("layers_block_type"))
    kinds.assign(static_cast<size_t>(layers), Kind::recurrence);
  for (const Kind kind : kinds)
    spec.layers.push_back({kind == Kind::attention ? MixerSpec(attention) : MixerSpec(mamba), mlp, spec.norms,
                           0, sparse ? kGraniteMoeForm : kGraniteForm, residual});
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  if (c.string_or("position_embedding_type", "") == "rope")
    read_rope_of_whole_heads(c, attention.head_dim, 10000, spec);
  else
    spec.ropes = {no_rope()};
}

constexpr LayerForm kBambaForm{.norm2 = "pre_ff_layernorm", .recurrence = "mamba.", .mlp = "feed_forward."};

constexpr Mamba2Keys kPureMambaKeys{
    "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "use_conv_bias", "hidden_act",
    128,         64,         8,          128};

// Mamba2 alone: no attention and no MLPs.
void read_pure_mamba2(ConfigReader& c, const Json& json, ModelSpec& spec) {
  read_sizes(c, {4096, 32768, 262144, "layer_norm_epsilon", 1e-5, false}, spec);
  auto mamba = read_mamba2(c, kPureMambaKeys, 0);
  read_step_limit(c, json, mamba);
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 64);
  for (int i = 0; i < layers; i++)
    spec.layers.push_back({mamba, std::monostate(), spec.norms, 0, kNemotronMixer});
  spec.ropes = {no_rope()};
}

void read_bamba(ConfigReader& c, const Json& json, ModelSpec& spec) {
  read_sizes(c, {4096, 128000, 262144, "rms_norm_eps", 1e-5, false}, spec);
  AttentionSpec attention = read_attention(c, {32, 8}, spec.hidden);
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  auto mamba = read_mamba2(c, kMambaKeys, expanded_width(c, spec.hidden));
  read_step_limit(c, json, mamba);
  const MlpSpec mlp = read_mlp(c, "intermediate_size", 14336, c.boolean_or("mlp_bias", false));
  const auto full = c.integers("attn_layer_indices");
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  for (int i = 0; i < layers; i++) {
    const bool attends = std::ranges::find(full, i) != full.end();
    spec.layers.push_back(
        {attends ? MixerSpec(attention) : MixerSpec(mamba), mlp, spec.norms, 0, kBambaForm});
  }
  // Only the rope's own partial_rotary_factor counts, not the config's.
  const Json parameters = rope_parameters_of(c, "full_attention");
  ConfigReader rope(parameters, "rope parameters");
  const double part = rope.number_or("partial_rotary_factor", 0, 1, 0.5);
  if (const auto good = rope.check(); !good) c.invalid(good.error().message);
  read_one_rope(c, parameters, static_cast<int>(attention.head_dim * part), 10000, spec);
}

// Attention has norms after both halves, Gated DeltaNet before them.
constexpr LayerForm kOlmoAttention{.norm1 = nullptr,
                                   .post1 = "post_attention_layernorm",
                                   .norm2 = nullptr,
                                   .post2 = "post_feedforward_layernorm"};

void read_olmo_hybrid(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {3840, 100352, 65536, "rms_norm_eps", 1e-6, false}, spec);
  AttentionSpec attention = read_attention(c, {30, 0}, spec.hidden);
  attention.qk_norm = attention.norms_all_heads = true;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  ops::RecurrenceShape delta;
  delta.key_heads = c.integer_or("linear_num_key_heads", 1, 4096, attention.heads);
  delta.value_heads = c.integer_or("linear_num_value_heads", 1, 4096, attention.heads);
  delta.key_dim =
      c.integer_or("linear_key_head_dim", 1, 1024, static_cast<int>(0.75 * spec.hidden / delta.key_heads));
  delta.value_dim = c.integer_or("linear_value_head_dim", 1, 1024, 2 * delta.key_dim);
  delta.conv_kernel = c.integer_or("linear_conv_kernel_dim", 1, kMaxConvKernel, 4);
  if (c.boolean_or("linear_allow_neg_eigval", true)) delta.rule.beta = Rule::Beta::sigmoid2;
  if (delta.value_heads % delta.key_heads != 0)
    c.invalid("linear_num_value_heads must be a multiple of linear_num_key_heads");
  const MlpSpec mlp = read_mlp(c, "intermediate_size", 11008, false);
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  auto kinds = kinds_of(c, "layer_types", listed_layers(c), {Kind::attention, Kind::recurrence});
  if (!c.has("layer_types") && !c.has("layers_block_type")) {
    for (int i = 0; i < layers; i++) kinds.push_back(i % 4 == 3 ? Kind::attention : Kind::recurrence);
    if (layers < 4) kinds.back() = Kind::attention;
  }
  for (const Kind kind : {Kind::attention, Kind::recurrence})
    if (std::ranges::find(kinds, kind) == kinds.end())
      c.invalid("layer_types must have full_attention and linear_attention, each at least once");
  for (const Kind kind : kinds) {
    LayerSpec layer{attention, mlp, spec.norms, 0, kOlmoAttention};
    if (kind == Kind::recurrence) layer.mixer = delta, layer.form = {};
    spec.layers.push_back(std::move(layer));
  }
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  const Json parameters = rope_parameters_of(c, "full_attention");
  const bool turns = !parameters.contains("rope_theta") || !parameters["rope_theta"].is_null();
  if (turns)
    read_rope_of_whole_heads(c, attention.head_dim, 10000, spec);
  else
    spec.ropes = {no_rope()};
}

struct Hybrid {
  const char* model_type;
  void (*read)(ConfigReader& reader, const Json& config, ModelSpec& spec);
  bool other_names = false;  // keys may have the names in kOtherNames
};
constexpr Hybrid kHybrids[] = {{"lfm2", read_lfm2},
                               {"lfm2_moe", read_lfm2_moe},
                               {"lfm3", read_lfm3},
                               {"nemotron_h", read_nemotron_h},
                               {"granitemoehybrid", read_granite_h},
                               {"bamba", read_bamba},
                               {"mamba2", read_pure_mamba2},
                               {"olmo_hybrid", read_olmo_hybrid},
                               {"falcon_h1", read_falcon_h1},
                               {"minimax", read_minimax},
                               {"kimi_linear", read_kimi_linear, true},
                               {"bailing_hybrid", read_ling, true},
                               {"lara_mini", read_lara}};

const Hybrid* find_hybrid(const std::string& model_type) {
  const auto* row =
      std::ranges::find_if(kHybrids, [&](const Hybrid& h) { return model_type == h.model_type; });
  return row == std::end(kHybrids) ? nullptr : row;
}

// Other names of keys, in files of Kimi Linear and Ling 3 and as Transformers saves them, and the usual ones.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"model_max_length", "max_position_embeddings"},
    {"moe_renormalize", "norm_topk_prob"},
    {"num_expert_group", "n_group"},
    {"num_experts_per_token", "num_experts_per_tok"},
    {"num_shared_experts", "n_shared_experts"}};

Json with_usual_names(Json config) {
  for (const auto& [other, usual] : kOtherNames)
    if (config.contains(other)) config[usual] = config[other];
  return config;
}

}  // namespace
}  // namespace anabranch::hybrid

namespace anabranch {

Result<ModelSpec> read_hybrid_config(const Json& json, const std::string& file) {
  ModelSpec spec;
  spec.family = text_type_of(json);
  const auto& row = *hybrid::find_hybrid(spec.family);
  const bool nested = find_outer_type(string_at(json, "model_type")) && json.contains("text_config") &&
                      json["text_config"].is_object();
  const Json& text = nested ? json["text_config"] : json;
  const Json config = row.other_names ? hybrid::with_usual_names(text) : text;
  ConfigReader c(config, file);
  row.read(c, config, spec);
  TRY_VOID(c.check());
  return spec;
}

std::string hybrid_names() {
  std::string names;
  for (const hybrid::Hybrid& row : hybrid::kHybrids) names.append(row.model_type).append(", ");
  return names;
}

bool is_hybrid_member(const std::string& model_type) {
  return hybrid::find_hybrid(model_type) != nullptr;
}

}  // namespace anabranch
