// The Llama family: one decoder of attention and an MLP, whose members differ by a row of llama_members.h.
// References: each member's modeling file in Transformers.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "base/outside_text.h"
#include "models/family_config.h"
#include "models/llama_members_by_kind.h"
#include "models/llama_members_more.h"
#include "models/rope.h"

namespace anabranch {
namespace {

constexpr std::span<const Member> kTables[] = {kMembers, kMoreMembers, kMembersByKind};

const Member* find_member(const std::string& model_type) {
  for (const auto table : kTables)
    for (const Member& member : table)
      if (member.model_type == model_type) return &member;
  return nullptr;
}

void read_experts(ConfigReader& c, const Member& member, const MlpSpec& mlp, ModelSpec& spec) {
  if (!member.moe) return;
  for (const int i : sparse_layers(c, *member.moe, static_cast<int>(spec.layers.size()))) {
    MoeSpec experts = read_moe(c, *member.moe, i);
    experts.bias = mlp.bias;
    spec.layers[static_cast<size_t>(i)].mlp = experts;
  }
}

AttentionSpec read_attention(ConfigReader& c, const Member& member, int hidden) {
  AttentionSpec attention;
  attention.heads = c.integer("num_attention_heads", 1, 4096);
  const int share = hidden / attention.heads;
  if (!member.own_head_dim && c.has("head_dim") && c.integer("head_dim", 2, 1024) != share)
    c.unsupported("head_dim", "not hidden_size / num_attention_heads", "that is, in this family");
  attention.kv_heads = integer_of(c, "num_key_value_heads", 1, 4096,
                                  member.kv_heads == 0 ? attention.heads : member.kv_heads, attention.heads);
  attention.head_dim =
      integer_of(c, "head_dim", 2, 1024, member.head_dim == 0 ? share : member.head_dim, share);
  const bool bias = member.bias_key ? c.boolean_or(member.bias_key, member.bias) : member.bias;
  read_biases(c, bias, bias && member.o_bias, attention);
  const bool normed = !member.qk_norm_key || c.boolean_or(member.qk_norm_key, false);
  attention.qk_norm = normed && member.qk_norm != Member::QkNorm::none;
  attention.norms_all_heads = member.qk_norm == Member::QkNorm::all_heads;
  attention.norms_after_rope = member.qk_norm == Member::QkNorm::after_rope;
  attention.neighbours_turn = member.neighbours_turn;
  attention.sinks = member.sinks;
  if (attention.heads % attention.kv_heads != 0)
    c.invalid("num_attention_heads must be a multiple of num_key_value_heads");
  if (attention.head_dim < 2) c.invalid("head_dim, hidden_size / num_attention_heads, must be at least 2");
  return attention;
}

// Which of the layers have rotary positions, where "no_rope_layers" or "no_rope_layer_interval" says it.
std::vector<bool> read_turning_layers(ConfigReader& c, int layers) {
  const auto listed = c.integers("no_rope_layers");
  const int interval = c.integer_or("no_rope_layer_interval", 1, 1024, 4);
  if (c.has("no_rope_layers") && static_cast<int>(listed.size()) != layers)
    c.invalid("no_rope_layers does not have num_hidden_layers entries");
  std::vector<bool> turning;
  for (int i = 0; i < layers; i++)
    turning.push_back(static_cast<int>(listed.size()) == layers ? listed[static_cast<size_t>(i)] != 0
                                                                : (i + 1) % interval != 0);
  return turning;
}

// Whether `full` leaves the layer without a window.
bool is_full(Member::Full full, int layer, int layers, int pattern) {
  if (pattern == 0) return false;
  if (full == Member::Full::first) return layer % pattern == 0;
  if (full == Member::Full::counted_back) return (layers - 1 - layer) % pattern == 0;
  return (layer + 1) % pattern == 0 || (full == Member::Full::last_and_zero && layer == 0);
}

// Each layer's number in "layer_rope_theta".
std::vector<double> read_thetas(ConfigReader& c, const Member& member, int layers) {
  const auto listed = c.numbers("layer_rope_theta", 0, 1e12);
  if (static_cast<int>(listed.size()) == layers) return listed;
  if (c.has("layer_rope_theta")) c.invalid("layer_rope_theta does not have num_hidden_layers entries");
  std::vector<double> thetas;
  for (int i = 0; i < layers; i++) {
    const bool still =
        member.turns == Member::Turns::marks && is_full(member.full, i, layers, member.pattern);
    thetas.push_back(still ? 0 : 1);
  }
  return thetas;
}

// Which layers have a window without "layer_types".
std::vector<bool> implied_windows(ConfigReader& c, const Member& member, const std::vector<bool>& turning) {
  using Windows = Member::Windows;
  const bool counts = member.windows == Windows::switched || member.windows == Windows::switched_turns ||
                      member.windows == Windows::late;
  const int some = counts ? c.integer_or("max_window_layers", 0, 1024, member.first_late) : 0;
  const int pattern =
      member.pattern_key ? c.integer_or(member.pattern_key, 0, 1024, member.pattern) : member.pattern;
  const int dense = member.dense_pattern ? c.integer_or("first_k_dense_replace", 0, 1024, 0) : 0;
  const int dense_pattern =
      member.dense_pattern ? c.integer_or("prefix_dense_sliding_window_pattern", 1, 1024, 1) : 0;
  std::vector<bool> windows;
  const int layers = static_cast<int>(turning.size());
  for (int i = 0; i < layers; i++) {
    if (member.dense_pattern) {
      windows.push_back(i < dense ? (i + 1) % dense_pattern != 0
                                  : (i - dense + 1) % std::max(1, pattern) != 0);
      continue;
    }
    const bool before = i < some && i % 2 == 0;
    const bool late = member.windows == Windows::switched || member.windows == Windows::late;
    windows.push_back(late                                        ? i >= some
                      : member.windows == Windows::switched_turns ? before
                      : member.windows == Windows::switched_still
                          ? !turning[static_cast<size_t>(i)]
                          : !is_full(member.full, i, layers, pattern));
  }
  return windows;
}

// Whether each layer has a window, by the keys that Transformers reads for this member, and by "layer_types",
// which it reads for some members. If a config states both and they differ, it is an error.
std::vector<bool> read_windows(ConfigReader& c, const Member& member, const std::vector<bool>& turning,
                               int window) {
  using Windows = Member::Windows;
  const int layers = static_cast<int>(turning.size());
  const bool switched = member.windows >= Windows::switched &&
                        !(member.windows == Windows::switched_still && c.has("layer_types"));
  const bool any = window > 0 && (!switched || c.boolean_or("use_sliding_window", false));
  const auto types = c.strings("layer_types");
  if (!types.empty() && static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  const bool listed = static_cast<int>(types.size()) == layers;
  const bool list_counts = member.windows != Windows::none && member.windows != Windows::all &&
                           member.windows != Windows::switched_all;
  std::vector<bool> windows =
      listed && list_counts ? std::vector<bool>(turning.size()) : implied_windows(c, member, turning);
  for (size_t i = 0; i < windows.size(); i++) {
    windows[i] = windows[i] && any;
    if (!listed) continue;
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      c.unsupported("layer_types", types[i], "full_attention and sliding_attention are");
    const bool sliding = types[i] == "sliding_attention";
    if (sliding && window == 0) c.invalid("layer_types has windows, but \"sliding_window\" is missing or 0");
    if (list_counts ? sliding && !any : sliding != windows[i])
      c.unsupported("layer_types", fmt::format("{} in layer {}", types[i], i),
                    "what sliding_window and use_sliding_window say of this model_type is");
    if (list_counts) windows[i] = sliding;
  }
  return windows;
}

// The layers that have rotary positions without a window: those that are not mixtures, in a family with
// dense_pattern.
std::vector<bool> forced_turns(ConfigReader& c, const Member& member, int layers) {
  std::vector<bool> forced(static_cast<size_t>(layers), false);
  if (!member.dense_pattern || c.integer_or("prefix_dense_sliding_window_pattern", 1, 1024, 1) != 1)
    return forced;
  forced.assign(static_cast<size_t>(layers), true);
  for (const int i : sparse_layers(c, *member.moe, layers)) forced[static_cast<size_t>(i)] = false;
  return forced;
}

// Each layer's attention: its window, and in LayerSpec::rope whether it has rotary positions, 1 or 0.
void read_layers(ConfigReader& c, const Member& member, const MlpSpec& mlp, ModelSpec& spec) {
  using Turns = Member::Turns;
  const AttentionSpec attention = read_attention(c, member, spec.hidden);
  const int layers = c.integer("num_hidden_layers", 1, 1024);
  // 0 is none: Qwen2-MoE's configs are saved with it.
  const int window = member.windows == Member::Windows::none
                         ? 0
                         : integer_of(c, "sliding_window", 0, 1 << 27, member.window, 0);
  std::vector<bool> turning(static_cast<size_t>(layers), true);
  if (member.turns == Turns::listed) turning = read_turning_layers(c, layers);
  if (member.turns == Turns::thetas || member.turns == Turns::marks)
    for (size_t i = 0; const double theta : read_thetas(c, member, layers)) turning[i++] = theta != 0;
  const auto windows = read_windows(c, member, turning, window);
  if (member.turns == Turns::windowed || (member.turns == Turns::windowed_if_any && window > 0))
    turning = windows;
  const auto forced = forced_turns(c, member, layers);
  for (size_t i = 0; i < windows.size(); i++) {
    if (forced[i]) turning[i] = true;
    LayerSpec layer{attention, mlp, spec.norms, turning[i] ? 1 : 0, member.form};
    auto& own = std::get<AttentionSpec>(layer.mixer);
    if (windows[i]) own.window = window;
    own.neighbours_turn &= turning[i];
    spec.layers.push_back(std::move(layer));
  }
}

// See Ropes::scaled_without_windows.
Json rope_scaled_without_windows(ConfigReader& c, const Member& member, bool windowed) {
  const Json& all = c.object("rope_parameters");
  const char* kind = windowed ? "sliding_attention" : "full_attention";
  for (const auto& [key, value] : all.items())
    if (key != "full_attention" && key != "sliding_attention")
      c.unsupported("rope_parameters", "with \"" + key + "\"", "an entry for each kind of layers is");
  Json own = all.contains(kind) ? without_truncation(ConfigReader(all, "rope_parameters").object(kind))
                                : Json::object();
  if (!windowed) own.update(c.object("rope_scaling"));
  if (!own.contains("rope_theta"))
    own["rope_theta"] = windowed ? member.theta : c.number_or("rope_theta", 1, 1e12, member.theta);
  return own;
}

// Whether the rope is a longrope, or else a plain one.
bool is_longrope(ConfigReader& c, const Json& own) {
  ConfigReader rope(own, "rope parameters");
  const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
  if (type != "default" && type != "longrope" && type != "su")
    c.unsupported("rope_scaling", "of type " + type, "default and longrope are, in this family");
  return type != "default";
}

// See Ropes::mscale.
void apply_mscale(ConfigReader& c, Json& own) {
  if (!is_longrope(c, own)) return;
  ConfigReader rope(own, "rope parameters");
  const double near = rope.number("short_mscale", 1e-3, 1e6), far = rope.number("long_mscale", 1e-3, 1e6);
  if (auto checked = rope.check(); !checked) return c.invalid(checked.error().message);
  if (near != far)
    c.unsupported("rope_scaling", "with a short_mscale that is not the long_mscale", "equal ones are");
  own["attention_factor"] = near;
}

// See Ropes::longrope.
void require_longrope(ConfigReader& c, Json& own) {
  is_longrope(c, own);
  if (!c.has("original_max_position_embeddings")) own["original_max_position_embeddings"] = 4096;
}

// See Ropes::fixed_alpha.
void apply_alpha(ConfigReader& c, double default_theta, int head_dim, Json& own) {
  ConfigReader rope(own, "rope parameters");
  const double alpha = rope.number_or("alpha", 0, 1e9, 0);
  if (rope.string_or("rope_type", rope.string_or("type", "default")) != "dynamic" || alpha == 0) return;
  const double theta =
      rope.number_or("rope_theta", 1, 1e12, c.number_or("rope_theta", 1, 1e12, default_theta));
  if (auto checked = rope.check(); !checked) return c.invalid(checked.error().message);
  if (head_dim < 4) return c.invalid("a dynamic rope needs 4 dimensions that turn");
  own = {{"rope_type", "default"}, {"rope_theta", theta * std::pow(alpha, head_dim / (head_dim - 2.0))}};
}

// See Member::by_kind.
Json rope_of_kind(ConfigReader& c, const KindRopes& ropes, bool windowed) {
  if (!c.object("rope_scaling").empty())
    c.unsupported("rope_scaling", "an object", "rope_parameters is, in this family");
  if (!c.has("rope_parameters"))
    return {{"rope_type", "default"},
            {"rope_theta", windowed ? ropes.windowed_theta : ropes.theta},
            {"partial_rotary_factor", windowed ? ropes.windowed_part : ropes.part}};
  const char* kind = windowed ? "sliding_attention" : "full_attention";
  if (!c.object("rope_parameters").contains(kind))
    c.unsupported("rope_parameters", fmt::format("without an entry for {}", kind), "one for each kind is");
  return rope_parameters_of(c, kind);
}

// The keys of a layer's rope.
Json rope_of_layer(ConfigReader& c, const Member& member, const AttentionSpec& attention) {
  using Ropes = Member::Ropes;
  const bool windowed = attention.window > 0;
  if (member.by_kind) return rope_of_kind(c, *member.by_kind, windowed);
  if (member.ropes == Ropes::scaled_without_windows) return rope_scaled_without_windows(c, member, windowed);
  Json own = rope_parameters_of(c, windowed ? "sliding_attention" : "full_attention");
  if (member.absent_rope && !c.has("rope_parameters") && !c.has("rope_scaling"))
    own = Json::parse(member.absent_rope);
  if (member.theta_key != std::string_view("rope_theta") && !own.contains("rope_theta"))
    own["rope_theta"] = c.number_or(member.theta_key, 1, 1e12, member.theta);
  if (member.partial_key && !own.contains("partial_rotary_factor"))
    own["partial_rotary_factor"] = c.number_or(member.partial_key, 0, 1, member.partial);
  for (const char* key : {"type", "rope_type"})
    if (member.ropes == Ropes::mrope && own.contains(key) && own[key] == "mrope") own[key] = "default";
  if (member.ropes == Ropes::yarn && !c.has("rope_parameters") && !c.has("rope_scaling"))
    own = {{"rope_type", "yarn"},
           {"factor", 32},
           {"original_max_position_embeddings", 4096},
           {"truncate", false}};
  if (member.ropes == Ropes::longrope) require_longrope(c, own);
  if (member.ropes == Ropes::mscale) apply_mscale(c, own);
  if (member.ropes == Ropes::fixed_alpha) apply_alpha(c, member.theta, attention.head_dim, own);
  return own;
}

// How many of a head's dimensions turn.
int dims_that_turn(ConfigReader& c, const Member& member, int head_dim, const Json& own) {
  if (member.by_kind) {
    const bool plain = own.value("rope_type", own.value("type", Json("default"))) == "default";
    const double usual = plain ? member.by_kind->usual_part : 1;
    Json entry = own;  // a share beside the entries counts for none
    if (!entry.contains("partial_rotary_factor")) entry["partial_rotary_factor"] = usual;
    return turned_dims(c, entry, head_dim, usual);
  }
  if (member.partial == 0) {
    require_whole_heads(c, own);
    return head_dim;
  }
  const double usual =
      member.rotary_dim_key
          ? c.number_or(member.rotary_dim_key, 0, head_dim, head_dim * member.partial) / head_dim
          : member.partial;
  return turned_dims(c, own, head_dim, usual);
}

// See Member::turns_back.
void turn_back(ConfigReader& c, ops::Rope& rope) {
  if (rope.is_dynamic()) c.unsupported("rope_scaling", "of type dynamic", "others are");
  for (auto* frequencies : {&rope.inv_freq, &rope.far_inv_freq})
    for (float& frequency : *frequencies) frequency = -frequency;
}

// A rope for each kind of layers: with windows and without, if the config has one for each kind; and one that
// turns nothing, for layers without positions.
void read_ropes(ConfigReader& c, const Member& member, ModelSpec& spec) {
  if (spec.family == "ministral3" && !c.has("rope_parameters") && !c.has("rope_scaling"))
    c.unsupported("rope_parameters", "absent", "they are needed in ministral3");
  std::vector<Json> kinds;
  std::vector<double> thetas;
  if (member.turns == Member::Turns::thetas && c.has("layer_rope_theta"))
    thetas = read_thetas(c, member, static_cast<int>(spec.layers.size()));
  for (size_t i = 0; i < spec.layers.size(); i++) {
    LayerSpec& layer = spec.layers[i];
    const auto& attention = std::get<AttentionSpec>(layer.mixer);
    Json own;
    if (layer.rope != 0) own = rope_of_layer(c, member, attention);
    if (layer.rope != 0 && !thetas.empty()) own["rope_theta"] = thetas[i];
    const auto at = std::ranges::find(kinds, own);
    layer.rope = static_cast<int>(at - kinds.begin());
    if (at != kinds.end()) continue;
    kinds.push_back(own);
    if (own.is_null()) {
      spec.ropes.push_back(
          {std::vector<float>(static_cast<size_t>(std::max(1, attention.head_dim / 2)), 0.0f)});
      continue;
    }
    const int turned = dims_that_turn(c, member, attention.head_dim, own);
    RopeConfig rope = read_rope(c, own, turned, member.theta);
    if (member.turns_back) turn_back(c, rope.rope);
    if (rope.rope.query_beta != 0 && turned < attention.head_dim)
      c.unsupported("llama_4_scaling_beta", fmt::format("{}", rope.rope.query_beta),
                    "none is where only a part of each head turns");
    spec.ropes.push_back(rope.rope);
    spec.context_length = std::max(spec.context_length, rope.context_length);
    if (!member.grid_turns) continue;
    ConfigReader keys(own, "rope parameters");
    add_interleaved_axes(keys, {24, 20, 20}, spec.ropes.back());
    if (const auto checked = keys.check(); !checked) c.invalid(checked.error().message);
  }
}

// Factors of the embedding, the residual stream, the scores and the logits.
void read_multipliers(ConfigReader& c, const Member& member, ModelSpec& spec) {
  if (member.logit_scale != 0)
    spec.logits_scale = static_cast<float>(c.number_or("logit_scale", 1e-9, 1e9, member.logit_scale));
  if (member.root_embedding) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.normed_embedding = member.normed_embedding;
  if (member.logits_cap != 0 && !c.is_null("final_logit_softcapping"))
    spec.logits_soft_cap =
        static_cast<float>(c.number_or("final_logit_softcapping", 1e-3, 1e6, member.logits_cap));
  if (!member.multipliers) return;
  const auto factor = [&](const char* key) { return static_cast<float>(c.number_or(key, 1e-9, 1e9, 1)); };
  spec.embedding_scale = factor("embedding_multiplier");
  const float logits = factor("logits_scaling");
  spec.logits_scale = member.multiplied_logits ? logits : 1 / logits;
  for (LayerSpec& layer : spec.layers) {
    layer.residual_scale = factor("residual_multiplier");
    if (!member.multiplied_logits || c.has("attention_multiplier"))
      std::get<AttentionSpec>(layer.mixer).scale = factor("attention_multiplier");
  }
}

MlpSpec read_mlp(ConfigReader& c, const Member& member) {
  // There may be no such key if all layers are mixtures.
  const bool any = !member.moe || member.moe->layers != MoeKeys::Layers::all;
  const bool own_key = member.dense_width_key && c.has(member.dense_width_key);
  const char* width = own_key ? member.dense_width_key : "intermediate_size";
  MlpSpec mlp{any ? c.integer(width, 1, 1 << 20) : 1};
  mlp.bias = member.always_mlp_bias ||
             (member.mlp_bias_key && c.boolean_or(member.mlp_bias_key, member.bias && !member.gated));
  mlp.gated = member.gated;
  if (!mlp.gated) {
    const char* usual = member.activation ? member.activation : "gelu_pytorch_tanh";
    read_ungated_activation(c, "hidden_act", usual, usual == std::string_view("xielu"), mlp);
    mlp.xielu_in_files = mlp.xielu && !c.has("xielu_alpha_p");
    return mlp;
  }
  if (!member.activation) {
    if (member.act_key) require_silu(c, member.act_key);
    return mlp;
  }
  // In Gemma's configs "gelu" means the one by tanh.
  const auto name = c.string_or("hidden_act", member.activation);
  mlp.activation = name == "silu" ? ops::Activation::silu : ops::Activation::gelu_tanh;
  if (name != "silu" && name != "gelu" && name != "gelu_pytorch_tanh" && name != "gelu_new")
    c.unsupported("hidden_act", name, "silu, gelu, gelu_new and gelu_pytorch_tanh are");
  return mlp;
}

// The factors of xIELU of each layer, where a config has them: those of GGUF files do.
void read_xielu(ConfigReader& c, ModelSpec& spec) {
  if (!c.has("xielu_alpha_p")) return;
  std::vector<std::vector<double>> of_layers;
  for (const char* key : {"xielu_alpha_p", "xielu_alpha_n", "xielu_beta", "xielu_eps"}) {
    of_layers.push_back(c.numbers(key, -1e6, 1e6));
    if (of_layers.back().size() != spec.layers.size())
      return c.invalid(fmt::format("\"{}\" does not have num_hidden_layers entries", key));
  }
  for (size_t i = 0; i < spec.layers.size(); i++) {
    const auto at = [&](size_t key) { return static_cast<float>(of_layers[key][i]); };
    if (auto& mlp = std::get<MlpSpec>(spec.layers[i].mlp); mlp.xielu)
      mlp.xielu = xielu_of(at(0), at(1), at(2), at(3));
  }
}

// The epsilon of the norms, and of which kind they are.
void read_norms(ConfigReader& c, const Member& member, NormsSpec& norms) {
  const bool rms = member.rms_key && c.has(member.rms_key);
  const char* key = rms ? member.rms_key : member.eps_key;
  norms.eps = static_cast<float>(key ? c.number_or(key, 0, 1, member.eps) : member.eps);
  norms.layer_norm = member.layer_norm && !rms;
  norms.bias = member.norm_bias && !rms;
  norms.offset = member.norm_offset;
  norms.weightless = member.weightless_norms;
}

// What keys change of the form of all layers.
void read_form(ConfigReader& c, const Member& member, ModelSpec& spec) {
  const bool parallel = member.parallel_key && c.boolean_or(member.parallel_key, member.parallel);
  const bool post = !member.post_key || c.boolean_or(member.post_key, true);
  for (LayerSpec& layer : spec.layers) {
    if (parallel) layer.form.parallel = true;
    if (parallel && !member.parallel_norms) layer.form.norm2 = nullptr;
    if (!post) layer.form.post1 = layer.form.post2 = nullptr;
  }
}

}  // namespace

Result<ModelSpec> read_llama_config(const Json& json, const std::string& file) {
  const bool nested = json.contains("text_config") && json["text_config"].is_object();
  Json text = nested ? json["text_config"] : json;
  const OuterType* around = find_outer_type(string_at(json, "model_type"));
  ModelSpec spec;
  spec.family = around || !nested ? text_type_of(json) : string_at(text, "model_type");
  const Member* member = find_member(spec.family);
  if (!member)
    return make_error(ErrorKind::unsupported, "{}: model_type \"{}\" is not supported in text_config", file,
                      shown(spec.family));

  if (around && nested) add_usual_sizes(spec.family, text);
  if (member->in_usual_form) text = member->in_usual_form(std::move(text));
  ConfigReader c(text, nested ? file + " (text_config)" : file);
  spec.hidden = c.integer("hidden_size", 1, 1 << 17);
  spec.vocab = c.integer("vocab_size", 1, 1 << 24);
  spec.context_length = c.integer_or("max_position_embeddings", 1, 1 << 27, member->context);
  read_norms(c, *member, spec.norms);
  ConfigReader outer(json, file);
  const bool tied = member->tied || (around && around->tied);
  spec.tied_embeddings = c.boolean_or("tie_word_embeddings", outer.boolean_or("tie_word_embeddings", tied));
  const MlpSpec mlp = read_mlp(c, *member);
  read_layers(c, *member, mlp, spec);
  read_experts(c, *member, mlp, spec);
  if (member->own) member->own(c, text, spec);
  read_ropes(c, *member, spec);
  read_multipliers(c, *member, spec);
  read_form(c, *member, spec);
  read_xielu(c, spec);
  if (const char* key = member->refused_key; key && c.has(key) && !c.is_false(key))
    c.unsupported(key, "not false", "false is");
  TRY_VOID(c.check());
  return spec;
}

bool is_llama_member(const std::string& model_type) {
  return find_member(model_type) != nullptr;
}

std::string llama_member_names() {
  std::string out;
  for (const auto table : kTables)
    for (const Member& member : table) out += std::string(member.model_type) + ", ";
  return out;
}

}  // namespace anabranch
