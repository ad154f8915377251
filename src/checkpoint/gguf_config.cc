#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // of any count or length
constexpr int64_t kMaxLayers = 4096;

struct ArchName {
  const char* gguf;
  GgufArch arch;
  const char* model_type;
  const char* architecture;
};
constexpr ArchName kArchs[] = {
    {"llama", GgufArch::llama, "llama", "LlamaForCausalLM"},
    {"qwen2", GgufArch::qwen2, "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", GgufArch::qwen3, "qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", GgufArch::qwen3, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen35moe", GgufArch::qwen35, "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"qwen35", GgufArch::qwen35, "qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"gemma3", GgufArch::gemma3, "gemma3_text", "Gemma3ForCausalLM"},
};

class Builder {
 public:
  Builder(const GgufFile& file, const std::string& path) : file_(file), path_(path) {}

  Result<GgufConfig> build() {
    TRY(const ArchName* arch, find_arch());
    prefix_ = std::string(arch->gguf) + ".";
    out_.arch = arch->arch;
    Json& c = out_.config = Json::object();
    c["architectures"] = Json::array({arch->architecture});
    c["model_type"] = arch->model_type;
    TRY_VOID(add_shapes());
    TRY_VOID(add_experts());
    TRY_VOID(add_rope());
    add_tokens();
    if (out_.arch == GgufArch::qwen35) TRY_VOID(add_qwen35());
    if (out_.arch == GgufArch::gemma3) TRY_VOID(add_gemma3());
    return std::move(out_);
  }

 private:
  const Json* find(const std::string& key) const {
    const auto at = file_.metadata.find(key);
    return at == file_.metadata.end() ? nullptr : &*at;
  }

  Result<const ArchName*> find_arch() const {
    const Json* name = find("general.architecture");
    if (!name || !name->is_string())
      return make_error(ErrorKind::invalid, "{}: metadata \"general.architecture\" is missing", path_);
    for (const ArchName& arch : kArchs)
      if (*name == arch.gguf) return &arch;
    return make_error(ErrorKind::unsupported,
                      "{}: architecture \"{}\" cannot be read; llama, qwen2, qwen3, qwen3moe, qwen35, "
                      "qwen35moe and gemma3 can",
                      path_, shown(name->get_ref<const std::string&>()));
  }

  // A whole number from `least`; `fallback` when the key is absent (none: the key must be there).
  Result<int64_t> integer(const char* key, int64_t least,
                          std::optional<int64_t> fallback = std::nullopt) const {
    const Json* value = find(prefix_ + key);
    if (!value && fallback) return *fallback;
    if (!value)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}{}\" is missing", path_, prefix_, key);
    if (value->is_array())
      return make_error(ErrorKind::unsupported, "{}: metadata \"{}{}\" differs from layer to layer", path_,
                        prefix_, key);
    if (!value->is_number_integer() || *value < least || *value > kMost)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}{}\" is not a sensible number", path_, prefix_,
                        key);
    return value->get<int64_t>();
  }

  Result<double> real(const char* key, double fallback) const {
    const Json* value = find(prefix_ + key);
    if (!value) return fallback;
    if (!value->is_number() || !(value->get<double>() > 0) || !(value->get<double>() < 1e30))
      return make_error(ErrorKind::invalid, "{}: metadata \"{}{}\" is not a positive number", path_, prefix_,
                        key);
    return value->get<double>();
  }

  const GgufTensor* tensor(std::string_view name) const {
    const auto at = std::ranges::lower_bound(file_.tensors, name, {}, &GgufTensor::name);
    return at != file_.tensors.end() && at->name == name ? &*at : nullptr;
  }

  Result<void> add_shapes() {
    TRY(const int64_t blocks, integer("block_count", 1));
    TRY(const int64_t extra, integer("nextn_predict_layers", 0, 0));
    if (blocks > kMaxLayers || extra >= blocks)
      return make_error(ErrorKind::invalid, "{}: {} layers, {} of them for prediction, make no sense", path_,
                        blocks, extra);
    TRY(const int64_t hidden, integer("embedding_length", 1));
    TRY(const int64_t ffn, integer("feed_forward_length", 0, 0));
    TRY(out_.heads, integer("attention.head_count", 1));
    TRY(out_.kv_heads, integer("attention.head_count_kv", 1, out_.heads));
    TRY(head_dim_, integer("attention.key_length", 1, std::max<int64_t>(1, hidden / out_.heads)));
    TRY(const int64_t value_dim, integer("attention.value_length", 1, head_dim_));
    TRY(const int64_t context, integer("context_length", 1));
    TRY(out_.experts, integer("expert_count", 0, 0));
    TRY(const double eps, real("attention.layer_norm_rms_epsilon", 1e-5));
    if (ffn == 0 && out_.experts == 0)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}feed_forward_length\" is missing", path_,
                        prefix_);
    if (value_dim != head_dim_)
      return make_error(ErrorKind::unsupported, "{}: keys of {} but values of {}", path_, head_dim_,
                        value_dim);
    const GgufTensor* embedding = tensor("token_embd.weight");
    if (!embedding || embedding->shape.size() != 2)
      return make_error(ErrorKind::invalid, "{}: tensor \"token_embd.weight\" is missing or no matrix",
                        path_);
    out_.layers = blocks - extra;
    Json& c = out_.config;
    c["hidden_size"] = hidden;
    c["num_hidden_layers"] = out_.layers;
    if (ffn > 0) c["intermediate_size"] = ffn;
    c["num_attention_heads"] = out_.heads;
    c["num_key_value_heads"] = out_.kv_heads;
    c["head_dim"] = head_dim_;
    c["max_position_embeddings"] = context;
    c["rms_norm_eps"] = eps;
    c["vocab_size"] = embedding->shape[0];
    c["tie_word_embeddings"] = tensor("output.weight") == nullptr;
    c["attention_bias"] = tensor("blk.0.attn_q.bias") != nullptr;
    if (out_.arch != GgufArch::gemma3) c["hidden_act"] = "silu";
    return {};
  }

  // A llama with experts is Mixtral. Its experts have the width of feed_forward_length.
  Result<void> add_experts() {
    if (out_.experts == 0) return {};
    Json& c = out_.config;
    TRY(const int64_t used, integer("expert_used_count", 1));
    c["num_experts_per_tok"] = used;
    if (out_.arch == GgufArch::llama) {
      c["model_type"] = "mixtral";
      c["architectures"] = Json::array({"MixtralForCausalLM"});
      c["num_local_experts"] = out_.experts;
      return {};
    }
    TRY(const int64_t width, integer("expert_feed_forward_length", 1));
    TRY(const int64_t shared, integer("expert_shared_feed_forward_length", 0, 0));
    c["num_experts"] = out_.experts;
    c["moe_intermediate_size"] = width;
    c["norm_topk_prob"] = true;  // llama.cpp divides by the sum in all of these architectures
    if (shared > 0) c["shared_expert_intermediate_size"] = shared;
    return {};
  }

  Result<void> add_rope() {
    TRY(const double theta, real("rope.freq_base", 10000));
    TRY(const int64_t rotary, integer("rope.dimension_count", 1, head_dim_));
    if (rotary > head_dim_)
      return make_error(ErrorKind::invalid, "{}: {} rotary dimensions in heads of {}", path_, rotary,
                        head_dim_);
    Json& c = out_.config;
    c["rope_theta"] = theta;
    if (rotary != head_dim_) c["partial_rotary_factor"] = double(rotary) / double(head_dim_);
    const Json* type = find(prefix_ + "rope.scaling.type");
    if (!type || *type == "none") return {};
    if (*type != "linear" && *type != "yarn")
      return make_error(ErrorKind::unsupported, "{}: rope scaling {} cannot be read", path_,
                        type->is_string() ? shown(type->get_ref<const std::string&>()) : "?");
    TRY(const double factor, real("rope.scaling.factor", 1));
    if (factor == 1) return {};
    Json scaling{{"rope_type", *type}, {"factor", factor}};
    if (find(prefix_ + "rope.scaling.original_context_length")) {
      TRY(scaling["original_max_position_embeddings"], integer("rope.scaling.original_context_length", 1));
    }
    c["rope_scaling"] = std::move(scaling);
    return {};
  }

  void add_tokens() {
    const auto id = [&](const char* name) {
      const Json* value = find(std::string("tokenizer.ggml.") + name + "_token_id");
      return value && value->is_number_integer() ? *value : Json();
    };
    Json& c = out_.config;
    c["bos_token_id"] = id("bos");
    Json ends = Json::array();
    for (const char* name : {"eos", "eot"})
      if (Json end = id(name); !end.is_null() && std::find(ends.begin(), ends.end(), end) == ends.end())
        ends.push_back(std::move(end));
    c["eos_token_id"] = ends.size() == 1 ? ends[0] : ends.empty() ? Json() : ends;
    c["pad_token_id"] = id("padding");
  }

  Result<void> add_qwen35() {
    TRY(const int64_t conv, integer("ssm.conv_kernel", 1));
    TRY(out_.linear_key_dim, integer("ssm.state_size", 1));
    TRY(out_.linear_key_heads, integer("ssm.group_count", 1));
    TRY(out_.linear_value_heads, integer("ssm.time_step_rank", 1));
    TRY(const int64_t inner, integer("ssm.inner_size", 1));
    TRY(const int64_t interval, integer("full_attention_interval", 1, 4));
    TRY(const int64_t mtp, integer("nextn_predict_layers", 0, 0));
    if (inner % out_.linear_value_heads != 0 || out_.linear_value_heads % out_.linear_key_heads != 0)
      return make_error(ErrorKind::invalid, "{}: {} recurrent values in {} heads with {} key heads", path_,
                        inner, out_.linear_value_heads, out_.linear_key_heads);
    out_.linear_value_dim = inner / out_.linear_value_heads;
    Json& c = out_.config;
    c["linear_conv_kernel_dim"] = conv;
    c["linear_key_head_dim"] = out_.linear_key_dim;
    c["linear_num_key_heads"] = out_.linear_key_heads;
    c["linear_num_value_heads"] = out_.linear_value_heads;
    c["linear_value_head_dim"] = out_.linear_value_dim;
    c["full_attention_interval"] = interval;
    Json types = Json::array();
    for (int64_t i = 0; i < out_.layers; i++)
      types.push_back((i + 1) % interval ? "linear_attention" : "full_attention");
    c["layer_types"] = std::move(types);
    c["attn_output_gate"] = true;
    c["mamba_ssm_dtype"] = "float32";
    c["mtp_num_hidden_layers"] = mtp;
    Json rope{{"rope_type", "default"}, {"rope_theta", c["rope_theta"]}};
    rope["partial_rotary_factor"] = c.value("partial_rotary_factor", 1.0);
    const Json* sections = find(prefix_ + "rope.dimension_sections");
    if (sections && sections->is_array() && sections->size() >= 3) {
      rope["mrope_section"] = Json(Json::array_t(sections->begin(), sections->begin() + 3));
      rope["mrope_interleaved"] = true;
    }
    c["rope_parameters"] = std::move(rope);
    return {};
  }

  Result<void> add_gemma3() {
    TRY(const int64_t window, integer("attention.sliding_window", 1, 4096));
    Json& c = out_.config;
    c["sliding_window"] = window;
    c["sliding_window_pattern"] = 6;
    c["rope_local_base_freq"] = 10000.0;
    c["hidden_activation"] = "gelu_pytorch_tanh";
    // The 27B model alone scales by its hidden size per head; its layers tell it apart.
    const int64_t hidden = c["hidden_size"].get<int64_t>();
    c["query_pre_attn_scalar"] = out_.layers == 62 ? hidden / out_.heads : head_dim_;
    return {};
  }

  const GgufFile& file_;
  const std::string& path_;
  std::string prefix_;  // "llama."
  int64_t head_dim_ = 0;
  GgufConfig out_;
};

}  // namespace

Result<GgufConfig> read_gguf_config(const GgufFile& file, const std::string& path) {
  return Builder(file, path).build();
}

}  // namespace anabranch
