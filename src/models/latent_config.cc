// Families with latent attention: DeepSeek V2 and V3, and models that are put together like these.
// References: Transformers' modeling_deepseek_v3.py and the modeling and configuration files of the others.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/outside_text.h"
#include "models/family_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

constexpr MoeKeys kDeepseek3Moe{.experts = "n_routed_experts",
                                .shared_count = "n_shared_experts",
                                .default_shared = 1,
                                .choice_bias = true,
                                .routing = {.scores = ops::RouterSpec::Scores::sigmoid,
                                            .scale = 2.5f,
                                            .added_sum = 1e-20f,
                                            .groups = 8,
                                            .top_groups = 4},
                                .normalise = "norm_topk_prob",
                                .scale = "routed_scaling_factor",
                                .groups = true,
                                .layers = MoeKeys::Layers::after_dense,
                                .default_dense = 3};
// "topk_method" says whether there are groups.
constexpr MoeKeys kDeepseek2Moe{.experts = "n_routed_experts",
                                .shared_count = "n_shared_experts",
                                .default_shared = 2,
                                .routing = {.normalise = false, .best_of_group = true},
                                .scale = "routed_scaling_factor",
                                .layers = MoeKeys::Layers::after_dense};
constexpr MoeKeys kGlmLiteMoe{
    .experts = "n_routed_experts",
    .shared_count = "n_shared_experts",
    .default_shared = 1,
    .choice_bias = true,
    .routing = {.scores = ops::RouterSpec::Scores::sigmoid, .scale = 1.8f, .added_sum = 1e-20f},
    .normalise = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = true,
    .layers = MoeKeys::Layers::listed,
    .default_dense = 1};
constexpr MoeKeys kMistral4Moe{.experts = "n_routed_experts",
                               .shared_count = "n_shared_experts",
                               .default_shared = 1,
                               .routing = {.added_sum = 1e-20f},
                               .normalise = "norm_topk_prob",
                               .scale = "routed_scaling_factor",
                               .groups = true,
                               .layers = MoeKeys::Layers::after_dense};

struct LatentMember {
  const char* model_type;
  LatentDefaults attention;
  const MoeKeys* moe = nullptr;  // null: there are no mixtures
  // Whether neighbours turn as pairs: always, never, or what "rope_interleave" says.
  enum class Pairs { neighbours, halves, by_key } pairs = Pairs::by_key;
  int context = 4096;
  double eps = 1e-6;
  bool tied = false;
  bool mlp_bias = false;      // "mlp_bias" is read
  bool multipliers = false;   // MiniCPM3's keys for embedding, residual stream and logits
  bool long_context = false;  // Mistral 4's rope where the config has none
};

constexpr LatentMember kLatentMembers[] = {
    {.model_type = "deepseek_v2",
     .attention = {1536, 512, 128, 64, 128},
     .moe = &kDeepseek2Moe,
     .pairs = LatentMember::Pairs::neighbours,
     .context = 2048,
     .mlp_bias = true},
    {.model_type = "deepseek_v3", .attention = {1536, 512, 128, 64, 128}, .moe = &kDeepseek3Moe},
    {.model_type = "kimi_k2", .attention = {1536, 512, 128, 64, 128}, .moe = &kDeepseek3Moe},
    {.model_type = "glm4_moe_lite",
     .attention = {768, 512, 192, 64, 256},
     .moe = &kGlmLiteMoe,
     .context = 202752,
     .eps = 1e-5},
    {.model_type = "mistral4",
     .attention = {1024, 256, 64, 64, 128},
     .moe = &kMistral4Moe,
     .context = 1048576,
     .long_context = true},
    {.model_type = "youtu", .attention = {1536, 512, 128, 64, 128}, .context = 131072, .tied = true},
    {.model_type = "minicpm3",
     .attention = {768, 256, 64, 32, 0},
     .pairs = LatentMember::Pairs::halves,
     .context = 32768,
     .eps = 1e-5,
     .tied = true,
     .mlp_bias = true,
     .multipliers = true},
};

const LatentMember* find_latent_member(const std::string& model_type) {
  const auto* row =
      std::ranges::find_if(kLatentMembers, [&](const LatentMember& m) { return m.model_type == model_type; });
  return row == std::end(kLatentMembers) ? nullptr : row;
}

// The rope that a config describes, of which Mistral 4 has a default.
Json rope_of(ConfigReader& c, const LatentMember& member) {
  if (member.long_context && !c.has("rope_parameters") && !c.has("rope_scaling"))
    return {{"rope_type", "yarn"},
            {"rope_theta", 10000.0},
            {"factor", 128.0},
            {"original_max_position_embeddings", 8192},
            {"mscale", 1.0},
            {"mscale_all_dim", 1.0},
            {"llama_4_scaling_beta", 0.1}};
  return rope_parameters_of(c, "full_attention");
}

void read_rope_and_scale(ConfigReader& c, const LatentMember& member, LatentAttentionSpec& attention,
                         ModelSpec& spec) {
  const Json parameters = rope_of(c, member);
  if (!member.long_context) require_whole_heads(c, parameters);
  require_pairs(c, attention);
  const RopeConfig out = read_rope(c, parameters, attention.turned_dim, 10000);
  spec.ropes = {out.rope};
  spec.context_length = std::max(spec.context_length, out.context_length);
  attention.scale = scale_of_scores(parameters, attention.scale);
  if (out.rope.query_beta != 0 && attention.plain_dim % 2 != 0)
    c.unsupported("llama_4_scaling_beta", fmt::format("{}", out.rope.query_beta),
                  "none is with an odd qk_nope_head_dim");
}

// How DeepSeek's configs say that there are no other layers and no other routers than ours.
void check_router(ConfigReader& c, const MoeKeys& keys) {
  const bool sigmoid = keys.routing.scores == ops::RouterSpec::Scores::sigmoid;
  if (c.integer_or("moe_layer_freq", 0, 1024, 1) != 1)
    c.unsupported("moe_layer_freq", fmt::format("{}", c.integer_or("moe_layer_freq", 0, 1024, 1)), "1 is");
  const char* scores = sigmoid ? "sigmoid" : "softmax";
  if (const auto own = c.string_or("scoring_func", scores); own != scores)
    c.unsupported("scoring_func", own, fmt::format("{} is, in this family", scores));
  if (const auto own = c.string_or("topk_method", "noaux_tc"); sigmoid && own != "noaux_tc")
    c.unsupported("topk_method", own, "noaux_tc is, in this family");
}

// DeepSeek V2's "topk_method".
bool chooses_groups(ConfigReader& c) {
  const auto method = c.string_or("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    c.unsupported("topk_method", method, "greedy and group_limited_greedy are, in this family");
  return method == "group_limited_greedy";
}

void read_mixtures(ConfigReader& c, const LatentMember& member, const MlpSpec& mlp, ModelSpec& spec) {
  if (!member.moe) return;
  MoeKeys keys = *member.moe;
  if (keys.routing.best_of_group) keys.groups = chooses_groups(c);
  for (const int i : sparse_layers(c, keys, static_cast<int>(spec.layers.size()))) {
    check_router(c, keys);
    MoeSpec experts = read_moe(c, keys, i);
    experts.bias = mlp.bias;
    spec.layers[static_cast<size_t>(i)].mlp = experts;
  }
}

// Factors of the embedding, the residual stream and the logits.
void read_multipliers(ConfigReader& c, ModelSpec& spec) {
  const auto layers = static_cast<double>(spec.layers.size());
  spec.embedding_scale = static_cast<float>(c.number_or("scale_emb", 1e-9, 1e9, 12));
  spec.logits_scale = c.is_null("dim_model_base")
                          ? 1
                          : static_cast<float>(c.number_or("dim_model_base", 1e-9, 1e9, 256) / spec.hidden);
  const double depth =
      c.is_null("scale_depth") ? std::sqrt(layers) : c.number_or("scale_depth", 1e-9, 1e9, 1.4);
  for (LayerSpec& layer : spec.layers) layer.residual_scale = static_cast<float>(depth / std::sqrt(layers));
}

}  // namespace

float scale_of_scores(const Json& parameters, float scale) {
  ConfigReader rope(parameters, "rope parameters");
  const double all = rope.number_or("mscale_all_dim", 0, 1e6, 0);
  if (all == 0 || rope.string_or("rope_type", rope.string_or("type", "default")) == "default") return scale;
  const double factor = rope.number_or("factor", 1e-3, 1e6, 1);
  const double grown = factor <= 1 ? 1 : 0.1 * all * std::log(factor) + 1;
  return static_cast<float>(scale * grown * grown);
}

void require_pairs(ConfigReader& c, const LatentAttentionSpec& attention) {
  if (attention.turned_dim % 2 != 0)
    c.invalid(fmt::format("qk_rope_head_dim is {}, but dimensions turn in pairs", attention.turned_dim));
}

LatentAttentionSpec read_latent_attention(ConfigReader& c, const LatentDefaults& defaults, int hidden) {
  LatentAttentionSpec a;
  a.heads = c.integer("num_attention_heads", 1, 4096);
  if (c.has("num_key_value_heads") && c.integer("num_key_value_heads", 1, 4096) != a.heads)
    c.unsupported("num_key_value_heads", "not num_attention_heads", "that is, in this family");
  a.query_rank = integer_of(c, "q_lora_rank", 1, 1 << 17, defaults.query_rank, 0);
  a.rank = c.integer_or("kv_lora_rank", 1, 1 << 16, defaults.rank);
  a.plain_dim = c.integer_or("qk_nope_head_dim", 1, 1024, defaults.plain_dim);
  a.turned_dim = c.integer_or("qk_rope_head_dim", 2, 1024, defaults.turned_dim);
  a.value_dim = c.integer_or("v_head_dim", 1, 1024,
                             defaults.value_dim > 0 ? defaults.value_dim : std::max(1, hidden / a.heads));
  a.bias = c.boolean_or("attention_bias", false);
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.plain_dim + a.turned_dim));
  return a;
}

Result<ModelSpec> read_latent_config(const Json& json, const std::string& file) {
  const bool nested = json.contains("text_config") && json["text_config"].is_object();
  ConfigReader c(nested ? json["text_config"] : json, nested ? file + " (text_config)" : file);
  ModelSpec spec;
  spec.family =
      find_outer_type(string_at(json, "model_type")) ? text_type_of(json) : c.string_or("model_type", "");
  const LatentMember* found = find_latent_member(spec.family);
  if (!found)
    return make_error(ErrorKind::unsupported, "{}: model_type \"{}\" is not supported in text_config", file,
                      shown(spec.family));
  const LatentMember& member = *found;
  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, member.context);
  spec.norms.eps = static_cast<float>(c.number_or("rms_norm_eps", 0, 1, member.eps));
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", member.tied);
  LatentAttentionSpec attention = read_latent_attention(c, member.attention, spec.hidden);
  attention.neighbours_turn = member.pairs == LatentMember::Pairs::by_key
                                  ? c.boolean_or("rope_interleave", true)
                                  : member.pairs == LatentMember::Pairs::neighbours;
  read_rope_and_scale(c, member, attention, spec);
  MlpSpec mlp{c.integer("intermediate_size", 1, 1 << 20)};
  mlp.bias = member.mlp_bias && c.boolean_or("mlp_bias", false);
  require_silu(c);
  const int layers = c.integer("num_hidden_layers", 1, 1024);
  for (int i = 0; i < layers; i++) spec.layers.push_back({attention, mlp, spec.norms});
  read_mixtures(c, member, mlp, spec);
  if (member.multipliers) read_multipliers(c, spec);
  TRY_VOID(c.check());
  return spec;
}

std::string latent_names() {
  std::string names;
  for (const LatentMember& member : kLatentMembers) names.append(member.model_type).append(", ");
  return names;
}

bool is_latent_member(const std::string& model_type) {
  return find_latent_member(model_type) != nullptr;
}

}  // namespace anabranch
