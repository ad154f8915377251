#include "models/family_config.h"

#include <algorithm>

namespace anabranch {

namespace {

constexpr OuterType kOuterTypes[] = {
    {"mistral3", "mistral", true},
    {"kimi_k25", "deepseek_v3", true},
    {"exaone4_5", "exaone4", false, "exaone4_5_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
    {"qwen2_vl", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_5_vl_text"},
    {"glm4v", "glm4v_text"},
    {"glm46v", "glm4v_text"},
    {"glm4v_moe", "glm4v_moe_text"},
    {"internvl", "qwen2", true},
    {"llava", "llama"},
    {"llava_next", "llama"},
    {"llava_onevision", "qwen2"},
    {"idefics3", "llama"},
    {"smolvlm", "llama"},
    {"got_ocr2", "qwen2", true},
    {"lfm2_vl", "lfm2", true},
    {"lighton_ocr", "qwen3", true},
    {"aya_vision", "cohere2", true},
    {"cohere2_vision", "cohere2", true},
    {"lfm3_vl", "lfm3", true},
    {"llava_next_video", "llama"},
    {"vipllava", "llama"},
    {.model_type = "step3p7", .text_type = "step3p5", .always = true},
    {.model_type = "muse_glimmer", .text_type = "muse_glimmer_text", .always = true},
};

}  // namespace

const OuterType* find_outer_type(const std::string& model_type) {
  const auto* row =
      std::ranges::find_if(kOuterTypes, [&](const OuterType& type) { return model_type == type.model_type; });
  return row == std::end(kOuterTypes) ? nullptr : row;
}

std::string outer_type_names() {
  std::string names;
  for (const OuterType& type : kOuterTypes) names.append(type.model_type).append(", ");
  return names;
}

std::string text_type_of(const Json& config) {
  const std::string type = string_at(config, "model_type");
  if (type == "minimax" && config.contains("architectures") &&
      config["architectures"] == Json::array({"MiniMaxM2ForCausalLM"}))
    return "minimax_m2";
  const OuterType* around = find_outer_type(type);
  if (!around) return type;
  const auto text = config.find("text_config");
  const std::string inner = text != config.end() && text->is_object() ? string_at(*text, "model_type") : "";
  const bool named =
      !inner.empty() && !around->always && (!around->other_name || inner != around->other_name);
  return named ? inner : around->text_type;
}

void add_usual_sizes(const std::string& text_type, Json& text) {
  struct Sizes {
    const char* type;
    int vocab, hidden, intermediate;
  };
  for (const auto& [type, vocab, hidden, intermediate] : {Sizes{"llama", 32000, 4096, 11008},
                                                          {"mistral", 32000, 4096, 14336},
                                                          {"qwen2", 151936, 4096, 22016}}) {
    if (text_type != type) continue;
    for (const auto& [key, size] : {std::pair{"vocab_size", vocab},
                                    {"hidden_size", hidden},
                                    {"intermediate_size", intermediate},
                                    {"num_hidden_layers", 32},
                                    {"num_attention_heads", 32}})
      if (!text.contains(key)) text[key] = size;
  }
}

void require_silu(ConfigReader& c, const char* key) {
  if (const auto act = c.string_or(key, "silu"); act != "silu" && act != "swish")
    c.unsupported(key, act, "silu is");
}

namespace {

struct UngatedActivation {
  const char* name;
  bool relu2;
  ops::Gelu gelu;
};
constexpr UngatedActivation kUngated[] = {{"relu2", true, ops::Gelu::tanh},
                                          {"gelu", false, ops::Gelu::erf},
                                          {"gelu_new", false, ops::Gelu::tanh},
                                          {"gelu_fast", false, ops::Gelu::tanh},
                                          {"gelu_pytorch_tanh", false, ops::Gelu::tanh}};

}  // namespace

void read_ungated_activation(ConfigReader& c, const char* key, const char* fallback, bool xielu,
                             MlpSpec& mlp) {
  const auto name = c.string_or(key, fallback);
  if (xielu && name == "xielu") {
    mlp.xielu = ops::Xielu();
    return;
  }
  const auto* row =
      std::ranges::find_if(kUngated, [&](const UngatedActivation& a) { return name == a.name; });
  if (row == std::end(kUngated))
    c.unsupported(
        key, name,
        fmt::format("{}relu2, gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are", xielu ? "xielu, " : ""));
  else
    mlp.relu2 = row->relu2, mlp.gelu = row->gelu;
}

int integer_of(ConfigReader& c, const char* key, int low, int high, int fallback, int none) {
  return c.is_null(key) ? none : c.integer_or(key, low, high, fallback);
}

const char* experts_key(const ConfigReader& c) {
  return c.has("num_local_experts") ? "num_local_experts" : "num_experts";
}

namespace {

// A number, or the entry of the layer in a list.
int integer_of_layer(ConfigReader& c, const char* key, int layer, int low, int high) {
  if (!c.is_list(key)) return c.integer(key, low, high);
  const auto list = c.integers(key);
  const auto at = static_cast<size_t>(layer);
  if (at < list.size() && list[at] >= low && list[at] <= high) return list[at];
  c.invalid(fmt::format("\"{}\" has no number from {} to {} for layer {}", key, low, high, layer));
  return low;
}

void read_groups(ConfigReader& c, int experts, ops::RouterSpec& routing) {
  routing.groups = c.integer_or("n_group", 1, ops::kMostGroups, routing.groups);
  routing.top_groups = c.integer_or("topk_group", 1, ops::kMostGroups, routing.top_groups);
  if (routing.groups == 1 && routing.top_groups == 1) return;
  if (experts % routing.groups != 0 || (experts < 2 * routing.groups && !routing.best_of_group))
    c.invalid("the experts cannot be in n_group groups of at least 2");
  else if (routing.top_groups > routing.groups)
    c.invalid("topk_group is above n_group");
  else if (routing.top_k > experts / routing.groups * routing.top_groups)
    c.invalid("num_experts_per_tok is above the number of experts in topk_group groups");
}

void read_scores(ConfigReader& c, const char* key, ops::RouterSpec& routing) {
  const auto name = c.string_or(key, "softmax");
  if (name == "sigmoid")
    routing.scores = ops::RouterSpec::Scores::sigmoid;
  else if (name == "softmax")
    routing.normalise = true;
  else
    c.unsupported(key, name, "softmax and sigmoid are");
}

void read_combination(ConfigReader& c, const char* key, MoeSpec& spec) {
  const auto name = c.string_or(key, "average");
  if (name == "average")
    spec.routing.scale *= 0.5f, spec.shared_scale = 0.5f;
  else if (name != "sum")
    c.unsupported(key, name, "average and sum are");
}

}  // namespace

MoeSpec read_moe(ConfigReader& c, const MoeKeys& keys, int layer) {
  MoeSpec spec;
  const bool own = keys.experts && (c.has(keys.experts) || !c.has(experts_key(c)));
  const char* experts = own ? keys.experts : experts_key(c);
  const char* top_k = c.has(keys.top_k) || !c.has("num_experts_per_tok") ? keys.top_k : "num_experts_per_tok";
  spec.experts = c.integer(experts, 1, ops::kMostExperts);
  ops::RouterSpec& routing = spec.routing = keys.routing;
  routing.top_k = integer_of_layer(c, top_k, layer, 1, ops::kMostExperts);
  spec.intermediate = c.integer(keys.intermediate, 1, 1 << 20);
  if (keys.shared_width)
    spec.shared_intermediate = c.integer_or(keys.shared_width, 0, 1 << 20, keys.default_shared);
  if (keys.shared_count) {
    const int count = c.integer_or(keys.shared_count, 0, 1024, keys.default_shared);
    if (int64_t{count} * spec.intermediate > 1 << 20)
      c.invalid(
          fmt::format("{} experts of {} are too wide ({})", count, spec.intermediate, keys.shared_count));
    else
      spec.shared_intermediate = count * spec.intermediate;
  }
  spec.shared_gate = keys.shared_gate;
  spec.choice_bias = keys.choice_bias;
  spec.expert_bias = keys.clamped;
  if (keys.clamped) {
    const ops::ClampedGlu usual;
    spec.clamped = {static_cast<float>(c.number_or("swiglu_alpha", -1e4, 1e4, usual.alpha)),
                    static_cast<float>(c.number_or("swiglu_limit", 0, 1e9, usual.limit))};
  }
  if (routing.top_k > spec.experts) c.invalid(fmt::format("{} is above {}", top_k, experts));
  if (routing.scores == ops::RouterSpec::Scores::sparse_mixer && routing.top_k != 2)
    c.invalid(fmt::format("{} is {}, but this family's router chooses 2", top_k, routing.top_k));
  const auto number = [&](const char* key, float& value) {
    if (key) value = static_cast<float>(c.number_or(key, 0, 1e9, value));
  };
  if (keys.normalise) routing.normalise = c.boolean_or(keys.normalise, routing.normalise);
  if (keys.scores) read_scores(c, keys.scores, routing);
  number(keys.scale, routing.scale);
  if (keys.combination && spec.shared_intermediate > 0) read_combination(c, keys.combination, spec);
  number(keys.least_sum, routing.least_sum);
  number(keys.tolerance, routing.tolerance);
  if (keys.groups) read_groups(c, spec.experts, routing);
  return spec;
}

void read_biases(ConfigReader& c, bool qkv, bool out, AttentionSpec& attention) {
  attention.qkv_bias = c.boolean_or("attention_qkv_bias", qkv);
  attention.out_bias = c.boolean_or("attention_out_bias", out);
}

namespace {

std::vector<bool> stepped_layers(ConfigReader& c, int layers) {
  const int step = c.integer_or("decoder_sparse_step", 1, 1024, 1);
  const std::vector<int> dense = c.integers("mlp_only_layers");
  std::vector<bool> out;
  for (int i = 0; i < layers; i++)
    out.push_back((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end());
  return out;
}

std::vector<bool> listed_layers(ConfigReader& c, int layers) {
  const auto types = c.strings("mlp_layer_types");
  if (static_cast<int>(types.size()) != layers)
    c.invalid("mlp_layer_types does not have num_hidden_layers entries");
  std::vector<bool> out;
  for (const std::string& type : types) {
    if (type != "dense" && type != "sparse") c.unsupported("mlp_layer_types", type, "dense and sparse are");
    out.push_back(type == "sparse");
  }
  out.resize(static_cast<size_t>(layers));
  return out;
}

std::vector<bool> layers_between(ConfigReader& c, int layers) {
  const int interval = c.integer_or("moe_layer_interval", 1, 1024, 1);
  const int first = c.integer_or("moe_layer_start_index", 0, 1024, 1);
  const int end = c.integer_or("moe_layer_end_index", -1, 1024, -1), last = end == -1 ? layers - 1 : end;
  std::vector<bool> out;
  for (int i = 0; i < layers; i++) out.push_back((i + 1) % interval == 0 && i >= first && i <= last);
  return out;
}

}  // namespace

std::vector<int> sparse_layers(ConfigReader& c, const MoeKeys& keys, int layers) {
  using Layers = MoeKeys::Layers;
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  if (keys.layers == Layers::stepped) sparse = stepped_layers(c, layers);
  if (keys.layers == Layers::between) sparse = layers_between(c, layers);
  const bool listed = keys.layers == Layers::listed && c.has("mlp_layer_types");
  if (listed) sparse = listed_layers(c, layers);
  if (keys.layers == Layers::after_dense || (keys.layers == Layers::listed && !listed)) {
    const int dense =
        keys.dense_key ? c.integer_or(keys.dense_key, 0, 1024, keys.default_dense) : keys.default_dense;
    std::fill_n(sparse.begin(), std::min(dense, layers), false);
  }
  std::vector<int> out;
  for (int i = 0; i < layers; i++)
    if (sparse[static_cast<size_t>(i)]) out.push_back(i);
  return out;
}

}  // namespace anabranch
