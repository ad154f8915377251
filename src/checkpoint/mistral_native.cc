#include "checkpoint/mistral_native.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "checkpoint/file_bytes.h"
#include "checkpoint/head_order.h"

namespace anabranch {

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr NamePair kTop[] = {{"tok_embeddings.weight", "model.embed_tokens.weight"},
                             {"norm.weight", "model.norm.weight"},
                             {"output.weight", "lm_head.weight"}};
// Names after "layers.N.", without ".weight" and the like.
constexpr NamePair kLayer[] = {
    {"attention.wq", "self_attn.q_proj"},  {"attention.wk", "self_attn.k_proj"},
    {"attention.wv", "self_attn.v_proj"},  {"attention.wo", "self_attn.o_proj"},
    {"attention_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
    {"feed_forward.w1", "mlp.gate_proj"},  {"feed_forward.w2", "mlp.down_proj"},
    {"feed_forward.w3", "mlp.up_proj"},    {"feed_forward.gate", "block_sparse_moe.gate"}};
// Transformers' classes, for the config.json of conversions.
constexpr NamePair kClasses[] = {{"mistral", "MistralForCausalLM"},
                                 {"ministral", "MinistralForCausalLM"},
                                 {"ministral3", "Ministral3ForCausalLM"},
                                 {"mixtral", "MixtralForCausalLM"}};
constexpr std::string_view kExperts = "feed_forward.experts.";
constexpr std::string_view kImages[] = {"vision_encoder.", "vision_language_adapter.", "patch_merger.",
                                        "pre_mm_projector_norm."};

std::string_view lookup(std::span<const NamePair> table, std::string_view key) {
  for (const auto& [from, to] : table)
    if (from == key) return to;
  return {};
}

// Names that are not Mistral's stay as they are.
std::string hf_name(const std::string& name) {
  if (const auto top = lookup(kTop, name); !top.empty()) return std::string(top);
  constexpr std::string_view kLayers = "layers.";
  const size_t number_end = name.find('.', kLayers.size());
  const size_t last = name.rfind('.');
  if (!name.starts_with(kLayers) || number_end == name.npos || last <= number_end) return name;
  const std::string module = "model." + name.substr(0, number_end + 1);
  const std::string_view part = std::string_view(name).substr(number_end + 1, last - number_end - 1);
  if (part.starts_with(kExperts))
    return fmt::format("{}block_sparse_moe.experts.{}{}", module, part.substr(kExperts.size()),
                       name.substr(last));
  const auto own = lookup(kLayer, part);
  return own.empty() ? name : module + std::string(own) + name.substr(last);
}

const Json* find(const Json& params, const char* key) {
  const auto at = params.find(key);
  return at == params.end() || at->is_null() ? nullptr : &*at;
}

// A whole number, perhaps written as a text. Error: names the file.
Result<std::optional<int64_t>> whole(const Json& value, const char* key, const std::string& path) {
  int64_t n = 0;
  if (value.is_null()) return std::optional<int64_t>();
  if (value.is_number_integer()) return std::optional(value.get<int64_t>());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return std::optional(n);
  }
  return make_error(ErrorKind::invalid, "{}: \"{}\" is not a whole number", path, key);
}

// Reads "sliding_window": a number, or a list if layers take turns.
Result<void> read_window(const Json& params, const std::string& path, Json& config) {
  const Json* window = find(params, "sliding_window");
  if (!window) window = find(params, "_sliding_window");
  if (!window) return {};
  if (!window->is_array()) {
    TRY(const auto size, whole(*window, "sliding_window", path));
    config["sliding_window"] = *size;
    return {};
  }
  TRY(const auto layers, whole(config["num_hidden_layers"], "n_layers", path));
  const auto turns = static_cast<int64_t>(window->size());
  if (turns == 0 || *layers < turns || *layers > 4096 || *layers % turns != 0)
    return make_error(ErrorKind::invalid, "{}: \"sliding_window\" has {} entries for {} layers", path, turns,
                      *layers);
  std::optional<int64_t> size;
  for (const Json& one : *window) {
    TRY(const auto own, whole(one, "sliding_window", path));
    if (own && size && *own != *size)
      return make_error(ErrorKind::unsupported, "{}: windows of {} and of {} tokens in one model", path,
                        *size, *own);
    if (own) size = own;
  }
  Json types = Json::array();
  for (int64_t i = 0; i < *layers; i++)
    types.push_back((*window)[static_cast<size_t>(i % turns)].is_null() ? "full_attention"
                                                                        : "sliding_attention");
  config["layer_types"] = std::move(types);
  if (config["model_type"] == "mistral") config["model_type"] = "ministral";
  if (size) config["sliding_window"] = *size;
  return {};
}

Result<void> read_rope(const Json& params, const std::string& path, Json& config) {
  // Without "rope_theta", Mistral's code uses a different base for models with a window.
  const bool windowed = !config["sliding_window"].is_null();
  Json rope = {{"rope_type", "default"}, {"rope_theta", windowed ? 10000.0 : 1000000.0}};
  if (const Json* theta = find(params, "rope_theta")) rope["rope_theta"] = *theta;
  if (const Json* yarn = find(params, "yarn")) {
    if (!yarn->is_object()) return make_error(ErrorKind::invalid, "{}: \"yarn\" is not an object", path);
    rope["rope_type"] = "yarn";
    for (const auto& [own, name] : {NamePair{"factor", "factor"},
                                    {"original_max_position_embeddings", "original_max_position_embeddings"},
                                    {"beta", "beta_fast"},
                                    {"alpha", "beta_slow"}})
      if (const Json* value = find(*yarn, own.data())) rope[std::string(name)] = *value;
    const Json* scale = find(*yarn, "apply_scale");
    if (scale && *scale == false) rope["attention_factor"] = 1.0;
  }
  if (const Json* scaling = find(params, "llama_4_scaling")) {
    const Json* beta = scaling->is_object() ? find(*scaling, "beta") : nullptr;
    const Json* original =
        scaling->is_object() ? find(*scaling, "original_max_position_embeddings") : nullptr;
    if (!beta || !original)
      return make_error(ErrorKind::invalid, "{}: \"llama_4_scaling\" lacks its numbers", path);
    if (rope.contains("original_max_position_embeddings") &&
        rope["original_max_position_embeddings"] != *original)
      return make_error(ErrorKind::unsupported,
                        "{}: \"yarn\" and \"llama_4_scaling\" with different "
                        "\"original_max_position_embeddings\"",
                        path);
    rope["original_max_position_embeddings"] = *original;
    rope["llama_4_scaling_beta"] = *beta;
  }
  config["rope_parameters"] = std::move(rope);
  return {};
}

Result<void> read_experts(const Json& params, const std::string& path, Json& config) {
  const Json* moe = find(params, "moe");
  if (!moe) return {};
  const auto refused = [&](const char* key, const Json& usual) {
    const Json* value = moe->is_object() ? find(*moe, key) : nullptr;
    return value && *value != usual;
  };
  if (!moe->is_object() || refused("num_shared_experts", 0) || refused("first_k_dense_replace", 0) ||
      refused("route_every_n", 1) || refused("expert_hidden_dim", config["intermediate_size"]))
    return make_error(ErrorKind::unsupported,
                      "{}: \"moe\": only experts as Mixtral has them are supported (the same in every layer, "
                      "none shared)",
                      path);
  config["model_type"] = "mixtral";
  for (const auto& [own, name] :
       {NamePair{"num_experts", "num_local_experts"}, {"num_experts_per_tok", "num_experts_per_tok"}})
    if (const Json* value = find(*moe, own.data())) config[std::string(name)] = *value;
  return {};
}

// Refuses settings that change a model's arithmetic and that we do not support.
Result<void> check_supported(const Json& params, const std::string& path) {
  for (const char* key : {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim"})
    if (find(params, key))
      return make_error(ErrorKind::unsupported, "{}: \"{}\": latent attention is not supported", path, key);
  const Json* quantization = find(params, "quantization");
  if (quantization && !quantization->empty())
    return make_error(ErrorKind::unsupported,
                      "{}: quantised weights in Mistral's own layout are not supported: use the files of the "
                      "model that Hugging Face's config.json describes, or a GGUF file",
                      path);
  for (const auto& [key, usual] :
       {std::pair{"use_biases", Json(false)}, {"causal", Json(true)}, {"activation", Json("silu")}})
    if (const Json* value = find(params, key); value && *value != usual)
      return make_error(ErrorKind::unsupported, "{}: \"{}\" of {} is not supported", path, key,
                        dump_json(*value));
  if (string_at(params, "model_type") == "mamba")
    return make_error(ErrorKind::unsupported, "{}: model_type \"mamba\" is not supported", path);
  return {};
}

}  // namespace

bool is_consolidated(std::string_view file_name) {
  return file_name.starts_with("consolidated") && file_name.ends_with(".safetensors");
}

Result<Json> mistral_config(const Json& params, const std::string& path) {
  TRY_VOID(check_supported(params, path));
  // Keys are null if Transformers' default for an absent key would be wrong.
  Json config = {{"model_type", find(params, "llama_4_scaling") ? "ministral3" : "mistral"},
                 {"hidden_act", "silu"},
                 {"num_key_value_heads", nullptr},
                 {"head_dim", nullptr},
                 {"sliding_window", nullptr},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", false}};
  constexpr NamePair kKeys[] = {{"dim", "hidden_size"},
                                {"n_layers", "num_hidden_layers"},
                                {"hidden_dim", "intermediate_size"},
                                {"n_heads", "num_attention_heads"},
                                {"n_kv_heads", "num_key_value_heads"},
                                {"head_dim", "head_dim"},
                                {"norm_eps", "rms_norm_eps"},
                                {"vocab_size", "vocab_size"},
                                {"tied_embeddings", "tie_word_embeddings"},
                                {"max_seq_len", "max_position_embeddings"},
                                {"max_position_embeddings", "max_position_embeddings"}};
  for (const auto& [own, name] : kKeys)
    if (const Json* value = find(params, own.data())) config[std::string(name)] = *value;
  for (const char* key : {"dim", "n_layers", "n_heads", "vocab_size", "n_kv_heads"}) {
    const Json* value = find(params, key);
    if (!value && key == std::string_view("n_kv_heads")) continue;
    if (!value || !value->is_number_integer() || *value < 1 || *value > (1 << 24))
      return make_error(ErrorKind::invalid, "{}: \"{}\" should be a number from 1 to {}", path, key, 1 << 24);
  }
  // Models whose files do not state it have 32,768; those with the larger vocabulary of tekken.json have
  // 131,072.
  if (!config.contains("max_position_embeddings"))
    config["max_position_embeddings"] = config["vocab_size"] < 131072 ? 32768 : 131072;
  TRY_VOID(read_window(params, path, config));
  TRY_VOID(read_rope(params, path, config));
  TRY_VOID(read_experts(params, path, config));
  config["architectures"] = Json::array({std::string(lookup(kClasses, string_at(config, "model_type")))});
  return config;
}

size_t take_mistral_names(SafetensorsFile& file) {
  const auto of_images = [](const SafetensorsTensor& tensor) {
    return std::ranges::any_of(kImages,
                               [&](std::string_view start) { return tensor.name.starts_with(start); });
  };
  const size_t dropped = std::erase_if(file.tensors, of_images);
  for (auto& tensor : file.tensors) tensor.name = hf_name(tensor.name);
  std::ranges::sort(file.tensors, {}, &SafetensorsTensor::name);
  return dropped;
}

Result<void> order_mistral_rows(const Json& config, std::vector<Entry>& entries) {
  const auto heads = config["num_attention_heads"].get<int64_t>();
  const auto kv_heads =
      config.contains("num_key_value_heads") && config["num_key_value_heads"].is_number_integer()
          ? config["num_key_value_heads"].get<int64_t>()
          : heads;
  for (Entry& entry : entries) {
    const std::string& name = entry.info.name;
    const bool query = name.ends_with(".self_attn.q_proj.weight");
    if ((!query && !name.ends_with(".self_attn.k_proj.weight")) || entry.unreadable) continue;
    const int64_t count = query ? heads : kv_heads, rows = entry.source.rows;
    if (entry.info.shape.size() != 2 || count < 1 || count > rows / 2 || rows % (2 * count) != 0)
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" has {} rows for {} heads", entry.info.file,
                        shown(name), rows, count);
    entry.source = select_rows(std::move(entry.source), rotary_order(count, rows / count));
  }
  return {};
}

}  // namespace anabranch
