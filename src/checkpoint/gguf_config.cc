#include "checkpoint/gguf_config.h"

#include <algorithm>

#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr int64_t kMaxLayers = 4096;

struct ArchName {
  const char* gguf;
  GgufArch arch;
  const char* model_type;
  const char* architecture;
};
constexpr ArchName kArchs[] = {
    {"llama", GgufArch::llama, "llama", "LlamaForCausalLM"},
    {"mistral3", GgufArch::llama, "mistral", "MistralForCausalLM"},
    {"qwen2", GgufArch::qwen2, "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", GgufArch::qwen3, "qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", GgufArch::qwen3, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen3next", GgufArch::qwen3next, "qwen3_next", "Qwen3NextForCausalLM"},
    {"qwen35", GgufArch::qwen35, "qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"qwen35moe", GgufArch::qwen35, "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"gemma2", GgufArch::gemma2, "gemma2", "Gemma2ForCausalLM"},
    {"gemma3", GgufArch::gemma3, "gemma3_text", "Gemma3ForCausalLM"},
    {"gemma4", GgufArch::gemma4, "gemma4_text", "Gemma4ForCausalLM"},
};

Result<const ArchName*> find_arch(const GgufFile& file, const std::string& path) {
  const auto name = file.metadata.find("general.architecture");
  if (name == file.metadata.end() || !name->is_string())
    return make_error(ErrorKind::invalid, "{}: metadata \"general.architecture\" is missing", path);
  std::string known;
  for (const ArchName& arch : kArchs) {
    if (*name == arch.gguf) return &arch;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", arch.gguf);
  }
  return make_error(ErrorKind::unsupported, "{}: architecture \"{}\" cannot be read; these can: {}", path,
                    shown(name->get_ref<const std::string&>()), known);
}

class Builder {
 public:
  Builder(const GgufFile& file, const std::string& path, const ArchName& arch)
      : file_(file), path_(path), arch_(arch), m_(file, path, std::string(arch.gguf) + ".") {}

  Result<GgufConfig> build() {
    out_.arch = arch_.arch;
    Json& c = out_.config = Json::object();
    c["architectures"] = Json::array({arch_.architecture});
    c["model_type"] = arch_.model_type;
    const bool gemma = out_.arch >= GgufArch::gemma2;
    TRY_VOID(add_shapes());
    if (!gemma) c["hidden_act"] = "silu";
    TRY_VOID(add_experts());
    if (out_.arch != GgufArch::gemma4) TRY_VOID(add_gguf_rope(m_, out_));
    add_tokens();
    if (out_.arch == GgufArch::qwen35 || out_.arch == GgufArch::qwen3next) TRY_VOID(add_hybrid());
    if (gemma) TRY_VOID(add_gguf_gemma(m_, out_));
    return std::move(out_);
  }

 private:
  Result<void> add_shapes() {
    TRY(const int64_t blocks, m_.integer("block_count", 1));
    TRY(const int64_t extra, m_.integer("nextn_predict_layers", 0, 0));
    if (blocks > kMaxLayers || extra >= blocks)
      return make_error(ErrorKind::invalid, "{}: {} layers, {} of them for prediction, make no sense", path_,
                        blocks, extra);
    out_.layers = blocks - extra;
    TRY(const int64_t hidden, m_.integer("embedding_length", 1));
    TRY(const int64_t ffn, of_layers("feed_forward_length", 0, 0));
    TRY(out_.heads, m_.integer("attention.head_count", 1));
    TRY(out_.kv_heads, of_layers("attention.head_count_kv", 1, out_.heads));
    TRY(const int64_t head_dim,
        m_.integer("attention.key_length", 1, std::max<int64_t>(1, hidden / out_.heads)));
    TRY(const int64_t value_dim, m_.integer("attention.value_length", 1, head_dim));
    TRY(const int64_t context, m_.integer("context_length", 1));
    TRY(out_.experts, m_.integer("expert_count", 0, 0));
    TRY(const double eps, m_.real("attention.layer_norm_rms_epsilon", 1e-5));
    if (ffn == 0 && out_.experts == 0)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}.feed_forward_length\" is missing", path_,
                        arch_.gguf);
    if (value_dim != head_dim)
      return make_error(ErrorKind::unsupported, "{}: keys of {} but values of {}", path_, head_dim,
                        value_dim);
    const GgufTensor* embedding = m_.tensor("token_embd.weight");
    if (!embedding || embedding->shape.size() != 2)
      return make_error(ErrorKind::invalid, "{}: tensor \"token_embd.weight\" is missing or no matrix",
                        path_);
    Json& c = out_.config;
    c["hidden_size"] = hidden;
    c["num_hidden_layers"] = out_.layers;
    if (ffn > 0) c["intermediate_size"] = ffn;
    c["num_attention_heads"] = out_.heads;
    c["num_key_value_heads"] = out_.kv_heads;
    c["head_dim"] = head_dim;
    c["max_position_embeddings"] = context;
    c["rms_norm_eps"] = eps;
    c["vocab_size"] = embedding->shape[0];
    c["tie_word_embeddings"] = m_.tensor("output.weight") == nullptr;
    c["attention_qkv_bias"] = in_any_layer("attn_q.bias");
    c["attention_out_bias"] = in_any_layer("attn_output.bias");
    return {};
  }

  // The readers of the config ask for it in every layer then, and the loader refuses it where it is not asked
  // for.
  bool in_any_layer(const char* part) const {
    for (int64_t i = 0; i < out_.layers; i++)
      if (m_.tensor(fmt::format("blk.{}.{}", i, part))) return true;
    return false;
  }

  // Of Gemma 4, whose layers differ, the first entry: gguf_gemma.cc reads all of them.
  Result<int64_t> of_layers(const char* key, int64_t least, int64_t fallback) const {
    const Json* value = m_.find(key);
    if (out_.arch != GgufArch::gemma4 || !value || !value->is_array())
      return m_.integer(key, least, fallback);
    TRY(const auto list, m_.integers(key, out_.layers, least));
    return list.front();
  }

  // A llama with experts is Mixtral. Its experts have the width of feed_forward_length.
  Result<void> add_experts() {
    if (out_.experts == 0) return {};
    Json& c = out_.config;
    TRY(const int64_t used, m_.integer("expert_used_count", 1));
    c["num_experts_per_tok"] = used;
    if (out_.arch == GgufArch::llama) {
      c["model_type"] = "mixtral";
      c["architectures"] = Json::array({"MixtralForCausalLM"});
      c["num_local_experts"] = out_.experts;
      return {};
    }
    TRY(const int64_t width, m_.integer("expert_feed_forward_length", 1));
    TRY(const int64_t shared, m_.integer("expert_shared_feed_forward_length", 0, 0));
    c["num_experts"] = out_.experts;
    c["moe_intermediate_size"] = width;
    c["norm_topk_prob"] = true;  // llama.cpp divides by the sum in all of these architectures
    if (shared > 0) c["shared_expert_intermediate_size"] = shared;
    return {};
  }

  void add_tokens() {
    const auto id = [&](const char* name) {
      const auto at = file_.metadata.find(std::string("tokenizer.ggml.") + name + "_token_id");
      return at != file_.metadata.end() && at->is_number_integer() ? *at : Json();
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

  // Qwen3.5 and Qwen3-Next.
  Result<void> add_hybrid() {
    TRY(const int64_t conv, m_.integer("ssm.conv_kernel", 1));
    TRY(out_.linear_key_dim, m_.integer("ssm.state_size", 1));
    TRY(out_.linear_key_heads, m_.integer("ssm.group_count", 1));
    TRY(out_.linear_value_heads, m_.integer("ssm.time_step_rank", 1));
    TRY(const int64_t inner, m_.integer("ssm.inner_size", 1));
    TRY(const int64_t interval, m_.integer("full_attention_interval", 1, 4));
    TRY(const int64_t mtp, m_.integer("nextn_predict_layers", 0, 0));
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
    TRY_VOID(add_hybrid_layers(interval, mtp));
    c["attn_output_gate"] = true;
    c["mamba_ssm_dtype"] = "float32";
    c["mtp_num_hidden_layers"] = mtp;
    Json rope = c.value("rope_scaling", Json::object({{"rope_type", "default"}}));
    c.erase("rope_scaling");
    rope["rope_theta"] = c["rope_theta"];
    rope["partial_rotary_factor"] = c.value("partial_rotary_factor", 1.0);
    const Json* sections = m_.find("rope.dimension_sections");
    if (sections && sections->is_array() && sections->size() >= 3) {
      rope["mrope_section"] = Json(Json::array_t(sections->begin(), sections->begin() + 3));
      rope["mrope_interleaved"] = true;
    }
    c["rope_parameters"] = std::move(rope);
    return {};
  }

  // A list of the recurrent layers or, in older files, one full layer in each `interval`.
  Result<void> add_hybrid_layers(int64_t interval, int64_t mtp) {
    TRY(const auto recurrent, m_.flags("attention.recurrent_layers", out_.layers + mtp));
    Json types = Json::array();
    for (int64_t i = 0; i < out_.layers; i++)
      types.push_back((recurrent.empty() ? (i + 1) % interval != 0 : recurrent[i]) ? "linear_attention"
                                                                                   : "full_attention");
    out_.config["layer_types"] = std::move(types);
    return {};
  }

  const GgufFile& file_;
  const std::string& path_;
  const ArchName& arch_;
  GgufMetadata m_;
  GgufConfig out_;
};

}  // namespace

Result<GgufConfig> read_gguf_config(const GgufFile& file, const std::string& path) {
  TRY(const ArchName* arch, find_arch(file, path));
  return Builder(file, path, *arch).build();
}

}  // namespace anabranch
