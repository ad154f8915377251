// The members of the Llama family (llama_config.cc): a row of differences for each.
#pragma once

#include "models/family_config.h"

namespace anabranch {

constexpr LayerForm kPostNorm{.norm1 = nullptr,
                              .post1 = "post_attention_layernorm",
                              .norm2 = nullptr,
                              .post2 = "post_feedforward_layernorm"};
constexpr LayerForm kParallel{.norm2 = nullptr, .parallel = true};

using RouterScores = ops::RouterSpec::Scores;

constexpr MoeKeys kMixtralMoe{.intermediate = "intermediate_size"};
constexpr MoeKeys kQwen3Moe{
    .routing = {.normalise = false}, .normalise = "norm_topk_prob", .layers = MoeKeys::Layers::stepped};
constexpr MoeKeys kQwen2Moe{.shared_width = "shared_expert_intermediate_size",
                            .default_shared = 5632,
                            .shared_gate = true,
                            .routing = {.normalise = false},
                            .normalise = "norm_topk_prob",
                            .layers = MoeKeys::Layers::stepped};
constexpr MoeKeys kQwen3VlMoe{.layers = MoeKeys::Layers::stepped};
constexpr MoeKeys kMinimaxMoe{
    .intermediate = "intermediate_size", .choice_bias = true, .routing = {.scores = RouterScores::sigmoid}};
constexpr MoeKeys kGraniteMoe{.intermediate = "intermediate_size"};
constexpr MoeKeys kGraniteSharedMoe{.intermediate = "intermediate_size",
                                    .shared_width = "shared_intermediate_size"};
constexpr MoeKeys kOlMoe{
    .intermediate = "intermediate_size", .routing = {.normalise = false}, .normalise = "norm_topk_prob"};
constexpr MoeKeys kErnieMoe{.experts = "moe_num_experts",
                            .top_k = "moe_k",
                            .shared_count = "moe_num_shared_experts",
                            .default_shared = 2,
                            .choice_bias = true,
                            .routing = {.least_sum = 1e-12f},
                            .least_sum = "moe_norm_min",
                            .layers = MoeKeys::Layers::between};
constexpr MoeKeys kHunyuanMoe{
    .top_k = "moe_topk", .intermediate = "intermediate_size", .shared_width = "intermediate_size"};
constexpr MoeKeys kDotsMoe{
    .experts = "n_routed_experts",
    .shared_count = "n_shared_experts",
    .choice_bias = true,
    .routing = {.scores = RouterScores::sigmoid, .normalise = false, .added_sum = 1e-20f},
    .normalise = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = true,
    .layers = MoeKeys::Layers::after_dense};
constexpr MoeKeys kExaoneMoe{.shared_count = "num_shared_experts",
                             .default_shared = 1,
                             .choice_bias = true,
                             .routing = {.scores = RouterScores::sigmoid, .scale = 2.5f, .added_sum = 1e-20f},
                             .normalise = "norm_topk_prob",
                             .scale = "routed_scaling_factor",
                             .groups = true,
                             .layers = MoeKeys::Layers::listed,
                             .default_dense = 1};
constexpr MoeKeys kSolarMoe{.experts = "n_routed_experts",
                            .shared_count = "n_shared_experts",
                            .default_shared = 1,
                            .choice_bias = true,
                            .routing = {.scores = RouterScores::sigmoid, .added_sum = 1e-20f},
                            .normalise = "norm_topk_prob",
                            .scale = "routed_scaling_factor",
                            .groups = true};
constexpr MoeKeys kGptOssMoe{.intermediate = "intermediate_size", .clamped = true};
constexpr MoeKeys kPhiMoe{
    .intermediate = "intermediate_size",
    .routing = {.scores = RouterScores::sparse_mixer, .normalise = false, .tolerance = 0.01f},
    .tolerance = "router_jitter_noise"};

// What turns in layers without windows and in those with them, where no "rope_parameters" say it. usual_part:
// the share of each head that turns where a plain rope does not state it.
struct KindRopes {
  double theta, part, windowed_theta, windowed_part, usual_part;
};

struct Member {
  const char* model_type;
  // Whether q, k and v have biases: what bias_key says, or bias where it is absent or there is no such key. o
  // has them, too, if o_bias. mlp_bias_key: the same for the MLP.
  const char *bias_key = nullptr, *mlp_bias_key = nullptr;
  bool bias = false, o_bias = true;
  bool always_mlp_bias = false;
  // heads: queries and keys of each head are normalised; all_heads: those of all heads together; after_rope:
  // each head after the rotation.
  enum class QkNorm { none, heads, all_heads, after_rope } qk_norm = QkNorm::none;
  const char* qk_norm_key = nullptr;  // only if it is true
  // Which layers have windows. all: every layer, if "sliding_window" is a number. by_type: those that
  // "layer_types" names, and without that key (late) those from "max_window_layers" on. switched...: only if
  // "use_sliding_window" is set; then those that "layer_types" names, and without that key the layers from
  // "max_window_layers" on (switched), every layer (switched_all, which does not read "layer_types"), the
  // layers without positions (switched_still, where "layer_types" counts without the switch, too), or every
  // other layer before "max_window_layers" (switched_turns).
  enum class Windows {
    none,
    all,
    by_type,
    late,
    switched,
    switched_all,
    switched_still,
    switched_turns
  } windows = Windows::none;
  int pattern = 0;                    // by_type without "layer_types": every pattern-th layer has no window
  const char* pattern_key = nullptr;  // states another pattern
  int first_late = 28;                // the default of "max_window_layers"
  // Layers that are not mixtures have a pattern of their own, "prefix_dense_sliding_window_pattern". If it is
  // 1, none of them has a window, and all have rotary positions.
  bool dense_pattern = false;
  // Which one of `pattern` layers has no window: the last, the first, the last and also layer 0, or the last
  // as counted back from the last of all.
  enum class Full { last, first, last_and_zero, counted_back } full = Full::last;
  // Which layers have rotary positions: all, those with windows, those with windows if "sliding_window" is a
  // number (otherwise all), those that "no_rope_layers" lists with 1, or those whose number in
  // "layer_rope_theta" is not 0. In the latter case (thetas) it is the rope's theta, or it does not matter
  // otherwise (marks), and without that list all turn, or those that `full` and `pattern` give windows.
  enum class Turns { all, windowed, windowed_if_any, listed, thetas, marks } turns = Turns::all;
  bool neighbours_turn = false;          // see AttentionSpec
  double partial = 0;                    // the default of "partial_rotary_factor"; 0: whole heads turn
  const char* rotary_dim_key = nullptr;  // how many dimensions turn, if there is no "partial_rotary_factor"
  const MoeKeys* moe = nullptr;          // null: no layer is a mixture of experts
  bool sinks = false;                    // see AttentionSpec
  LayerForm form = {};
  bool layer_norm = false, norm_bias = false, gated = true;
  const char* rms_key = nullptr;   // where it is a number, the norms are RMSNorms with this epsilon
  const char* post_key = nullptr;  // the norms after both parts do not exist if it is false
  bool norm_offset = false, weightless_norms = false;  // see NormsSpec
  // The default of "hidden_act"; null: gelu_pytorch_tanh without a gate, and silu, the only one, with a gate.
  const char* activation = nullptr;
  bool root_embedding = false;    // embeddings are multiplied by the root of their width
  bool normed_embedding = false;  // see ModelSpec
  double logits_cap = 0;          // the default of "final_logit_softcapping"; 0: there is no such key
  bool multipliers = false;       // Granite's keys for embedding, residual stream, scores and logits
  bool multiplied_logits =
      false;               // of these, "logits_scaling" multiplies, and scores are scaled as usual by default
  double logit_scale = 0;  // the default of "logit_scale", which multiplies logits; 0: there is no such key
  // The defaults of absent keys in Transformers. 0: as many kv heads as heads; head_dim is the width divided
  // by the heads; no window.
  int kv_heads = 0, head_dim = 0, window = 0, context = 2048;
  const char* eps_key = "rms_norm_eps";   // null: there is no such key
  const char* dense_width_key = nullptr;  // the width of MLPs, if it is not "intermediate_size"
  double eps = 1e-6, theta = 10000;
  bool tied = false;
  const KindRopes* by_kind = nullptr;  // "rope_parameters" has an entry for each kind of layers
  const char* act_key = "hidden_act";  // null: it is silu
  // Reads keys that no other member has, before the ropes are read. in_usual_form: gives older keys their
  // usual names and form.
  void (*own)(ConfigReader& config, const Json& json, ModelSpec& spec) = nullptr;
  Json (*in_usual_form)(Json config) = nullptr;
  bool own_head_dim = true;  // "head_dim" is read
  // Differences in how ropes are described. scaled_without_windows: what scales them is only for layers
  // without windows, and so is "rope_theta". longrope: there is only that and the plain one. fixed_alpha: a
  // "dynamic" one with an "alpha" is a plain one with another base. mscale: as longrope, with the factor of
  // the cosines and sines given. yarn: a config that describes none has gpt-oss' yarn. mrope: one of type
  // "mrope" is a plain one, as tokens of text have the same position on each axis.
  enum class Ropes {
    usual,
    scaled_without_windows,
    longrope,
    mscale,
    fixed_alpha,
    yarn,
    mrope
  } ropes = Ropes::usual;
  bool grid_turns = false;  // positions in images turn pairs by row and column (add_interleaved_axes())
  const char* absent_rope = nullptr;  // what a config that describes no rope means, as JSON
  bool turns_back = false;            // a rope turns by the negative angle
  const char *theta_key = "rope_theta", *partial_key = nullptr;  // other names of keys for the rope
  const char* parallel_key = nullptr;  // if it is true, both parts of a layer are side by side
  bool parallel = false;               // the default of it
  bool parallel_norms = false;         // with a norm for each part, otherwise one for both
  const char* refused_key = nullptr;   // must be absent, null or false
};

constexpr Member kMembers[] = {
    {.model_type = "llama", .bias_key = "attention_bias", .mlp_bias_key = "mlp_bias"},
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
     .moe = &kMixtralMoe,
     .kv_heads = 8,
     .context = 131072,
     .eps = 1e-5,
     .theta = 1e6},
    {.model_type = "qwen2",
     .bias = true,
     .o_bias = false,
     .windows = Member::Windows::switched,
     .kv_heads = 32,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen2_moe",
     .bias_key = "qkv_bias",
     .bias = true,
     .o_bias = false,
     .windows = Member::Windows::switched_turns,
     .moe = &kQwen2Moe,
     .kv_heads = 16,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen3",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::heads,
     .windows = Member::Windows::switched,
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen3_moe",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::heads,
     .windows = Member::Windows::switched_all,
     .moe = &kQwen3Moe,
     .kv_heads = 4,
     .window = 4096,
     .context = 32768},
    {.model_type = "qwen3_vl_text",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::heads,
     .kv_heads = 32,
     .head_dim = 128,
     .context = 128000,
     .theta = 500000,
     .grid_turns = true},
    {.model_type = "qwen3_vl_moe_text",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::heads,
     .moe = &kQwen3VlMoe,
     .kv_heads = 16,
     .context = 128000,
     .theta = 500000,
     .grid_turns = true},
    {.model_type = "seed_oss",
     .bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .bias = true,
     .o_bias = false,
     .kv_heads = 8,
     .head_dim = 128,
     .context = 524288},
    {.model_type = "smollm3",
     .bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .windows = Member::Windows::switched_still,
     .turns = Member::Turns::listed,
     .kv_heads = 4,
     .context = 32768,
     .theta = 2e6,
     .tied = true},
    {.model_type = "phi3",
     .windows = Member::Windows::all,
     .partial = 1,
     .context = 4096,
     .eps = 1e-5,
     .ropes = Member::Ropes::longrope},
    {.model_type = "olmo2",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::all_heads,
     .form = kPostNorm,
     .eps = 1e-5},
    {.model_type = "olmo3",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::all_heads,
     .windows = Member::Windows::by_type,
     .pattern = 4,
     .form = kPostNorm,
     .window = 4096,
     .eps = 1e-5,
     .theta = 500000,
     .ropes = Member::Ropes::scaled_without_windows},
    {.model_type = "granite", .bias_key = "attention_bias", .mlp_bias_key = "mlp_bias", .multipliers = true},
    {.model_type = "ernie4_5",
     .bias_key = "use_bias",
     .mlp_bias_key = "use_bias",
     .neighbours_turn = true,
     .kv_heads = 2,
     .head_dim = 128,
     .context = 131072,
     .eps = 1e-5,
     .theta = 500000,
     .tied = true},
    {.model_type = "exaone4",
     .qk_norm = Member::QkNorm::heads,
     .windows = Member::Windows::by_type,
     .pattern = 4,
     .pattern_key = "sliding_window_pattern",
     .turns = Member::Turns::windowed_if_any,
     .form = kPostNorm,
     .kv_heads = 32,
     .window = 4096,
     .eps = 1e-5},
    {.model_type = "hunyuan_v1_dense",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::after_rope,
     .form = {.q_norm = "query_layernorm", .k_norm = "key_layernorm"},
     .eps = 1e-5,
     .ropes = Member::Ropes::fixed_alpha},
    {.model_type = "cohere2",
     .bias_key = "attention_bias",
     .windows = Member::Windows::by_type,
     .pattern = 4,
     .pattern_key = "sliding_window_pattern",
     .turns = Member::Turns::windowed,
     .neighbours_turn = true,
     .form = kParallel,
     .layer_norm = true,
     .logit_scale = 0.0625,
     .window = 4096,
     .context = 8192,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .tied = true,
     .own_head_dim = false},
    {.model_type = "cohere",
     .bias_key = "attention_bias",
     .neighbours_turn = true,
     .form = kParallel,
     .layer_norm = true,
     .logit_scale = 0.0625,
     .context = 8192,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .theta = 500000,
     .tied = true,
     .own_head_dim = false,
     .refused_key = "use_qk_norm"},
    {.model_type = "helium",
     .bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .o_bias = false,
     .neighbours_turn = true,
     .kv_heads = 20,
     .head_dim = 128,
     .context = 4096,
     .eps = 1e-8,
     .theta = 100000},
    {.model_type = "iquestcoder",
     .bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .kv_heads = 8,
     .head_dim = 128,
     .context = 131072,
     .eps = 1e-5,
     .refused_key = "use_sliding_window"},
    {.model_type = "starcoder2",
     .bias_key = "use_bias",
     .mlp_bias_key = "use_bias",
     .bias = true,
     .windows = Member::Windows::all,
     .form = {.up = "c_fc", .down = "c_proj"},
     .layer_norm = true,
     .norm_bias = true,
     .gated = false,
     .kv_heads = 2,
     .context = 4096,
     .eps_key = "norm_epsilon",
     .eps = 1e-5,
     .tied = true},
    {.model_type = "glm4",
     .bias_key = "attention_bias",
     .bias = true,
     .o_bias = false,
     .neighbours_turn = true,
     .partial = 0.5,
     .form = {.post1 = "post_self_attn_layernorm", .post2 = "post_mlp_layernorm"},
     .kv_heads = 2,
     .head_dim = 128,
     .context = 131072,
     .eps = 0.00000015625},
    {.model_type = "glm",
     .bias_key = "attention_bias",
     .bias = true,
     .o_bias = false,
     .neighbours_turn = true,
     .partial = 0.5,
     .kv_heads = 2,
     .head_dim = 128,
     .context = 131072,
     .eps = 0.00000015625},
    {.model_type = "stablelm",
     .bias_key = "use_qkv_bias",
     .o_bias = false,
     .partial = 0.25,
     .layer_norm = true,
     .norm_bias = true,
     .kv_heads = 32,
     .context = 4096,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .own_head_dim = false,
     .parallel_key = "use_parallel_residual",
     .refused_key = "qk_layernorm"},
    {.model_type = "glm4_moe",
     .bias_key = "attention_bias",
     .o_bias = false,
     .qk_norm = Member::QkNorm::heads,
     .qk_norm_key = "use_qk_norm",
     .partial = 0.5,
     .moe = &kGlmMoe,
     .kv_heads = 8,
     .context = 131072,
     .eps = 1e-5},
    {.model_type = "minimax_m2",
     .qk_norm = Member::QkNorm::all_heads,
     .partial = 1,
     .rotary_dim_key = "rotary_dim",
     .moe = &kMinimaxMoe,
     .kv_heads = 8,
     .head_dim = 128,
     .context = 196608,
     .theta = 5e6},
    {.model_type = "granitemoe", .bias_key = "attention_bias", .moe = &kGraniteMoe, .multipliers = true},
    {.model_type = "granitemoeshared",
     .bias_key = "attention_bias",
     .moe = &kGraniteSharedMoe,
     .multipliers = true},
    {.model_type = "olmoe",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::all_heads,
     .moe = &kOlMoe,
     .context = 4096,
     .eps = 1e-5,
     .own_head_dim = false,
     .refused_key = "clip_qkv"},
    {.model_type = "ernie4_5_moe",
     .bias_key = "use_bias",
     .mlp_bias_key = "use_bias",
     .neighbours_turn = true,
     .moe = &kErnieMoe,
     .kv_heads = 4,
     .context = 131072,
     .eps = 1e-5,
     .theta = 500000,
     .tied = true},
    {.model_type = "hunyuan_v1_moe",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::after_rope,
     .moe = &kHunyuanMoe,
     .form = {.q_norm = "query_layernorm", .k_norm = "key_layernorm"},
     .eps = 1e-5,
     .ropes = Member::Ropes::fixed_alpha},
    {.model_type = "dots1",
     .bias_key = "attention_bias",
     .qk_norm = Member::QkNorm::heads,
     .windows = Member::Windows::late,
     .first_late = 62,
     .moe = &kDotsMoe,
     .kv_heads = 32,
     .window = 4096},
    {.model_type = "exaone_moe",
     .qk_norm = Member::QkNorm::heads,
     .windows = Member::Windows::by_type,
     .pattern = 4,
     .pattern_key = "sliding_window_pattern",
     .turns = Member::Turns::windowed_if_any,
     .moe = &kExaoneMoe,
     .kv_heads = 32,
     .window = 4096,
     .eps = 1e-5},
    {.model_type = "phimoe",
     .bias_key = "attention_bias",
     .windows = Member::Windows::all,
     .moe = &kPhiMoe,
     .layer_norm = true,
     .norm_bias = true,
     .kv_heads = 8,
     .context = 131072,
     .eps = 1e-5,
     .theta = 1e6,
     .ropes = Member::Ropes::mscale},
    {.model_type = "solar_open",
     .bias_key = "attention_bias",
     .o_bias = false,
     .moe = &kSolarMoe,
     .kv_heads = 8,
     .head_dim = 128,
     .context = 131072,
     .eps = 1e-5,
     .theta = 1e6},
    {.model_type = "gpt_oss",
     .bias_key = "attention_bias",
     .bias = true,
     .windows = Member::Windows::by_type,
     .pattern = 2,
     .moe = &kGptOssMoe,
     .sinks = true,
     .kv_heads = 8,
     .head_dim = 64,
     .window = 128,
     .context = 131072,
     .eps = 1e-5,
     .theta = 150000,
     .ropes = Member::Ropes::yarn},
};

}  // namespace anabranch
