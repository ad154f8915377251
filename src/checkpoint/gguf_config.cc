#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_archs.h"

namespace anabranch {

namespace {

constexpr int64_t kMaxLayers = 4096;

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

bool is_qwen3_vl(const ArchName& arch) {
  return std::string_view(arch.model_type).starts_with("qwen3_vl");
}

bool is_latent(const ArchName& arch) {
  return arch.arch == GgufArch::deepseek2;
}

bool has_deep_experts(const ArchName& arch) {
  return is_latent(arch) || (arch.member.moe && arch.member.moe->deep);
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
    const bool gemma = is_gemma(out_.arch);
    TRY_VOID(check_neutral());
    TRY_VOID(check_sections());
    TRY_VOID(count_layers());
    TRY_VOID(add_shapes());
    if (!gemma) {
      const char* usual = arch_.member.ungated ? "gelu_pytorch_tanh" : "silu";
      c["hidden_act"] = arch_.member.activation ? arch_.member.activation : usual;
      c["sliding_window"] = nullptr;
    }
    if (latent_) TRY_VOID(add_gguf_latent(m_, out_));
    if (!latent_) TRY_VOID(add_experts());
    if (out_.arch != GgufArch::gemma4) TRY_VOID(add_gguf_rope(m_, out_));
    if (latent_) TRY_VOID(finish_gguf_latent(m_, out_));
    TRY_VOID(add_gguf_member(m_, arch_.member, out_));
    add_tokens();
    if (is_qwen3_vl(arch_)) add_rope_sections("rope_scaling");
    if (is_hybrid(out_.arch)) TRY_VOID(add_hybrid());
    if (out_.arch == GgufArch::lfm2) TRY_VOID(add_lfm2());
    if (has_mamba(out_.arch)) TRY_VOID(add_gguf_mamba(m_, blocks_, recurrent_, out_));
    if (gemma) TRY_VOID(add_gguf_gemma(m_, out_));
    return std::move(out_);
  }

 private:
  // Checks keys that change a model's computation. If an architecture does not read a key (read_by), the key
  // must have its neutral value.
  Result<void> check_neutral() const {
    struct Key {
      const char* name;
      double neutral;
      bool (*read_by)(const ArchName&) = [](const ArchName&) { return false; };
    };
    static constexpr Key kKeys[] = {
        {"logit_scale", 1, [](const ArchName& a) { return a.member.multipliers || a.member.logit_scale; }},
        {"residual_scale", 1, [](const ArchName& a) { return a.member.multipliers; }},
        {"embedding_scale", 1, [](const ArchName& a) { return a.member.multipliers; }},
        {"attention.clamp_kqv", 0},
        {"attention.max_alibi_bias", 0},
        {"attention.sliding_window", 0,
         [](const ArchName& a) { return is_gemma(a.arch) || a.member.windows; }},
        {"attn_logit_softcapping", 0, [](const ArchName& a) { return a.arch == GgufArch::gemma2; }},
        {"final_logit_softcapping", 0, [](const ArchName& a) { return is_gemma(a.arch); }},
        {"router_logit_softcapping", 0},
        {"expert_weights_scale", 1, has_deep_experts},
        {"expert_group_count", 1, has_deep_experts},
        {"expert_gating_func", 1,
         [](const ArchName& a) { return is_latent(a) || (a.member.moe && a.member.moe->sigmoid); }},
        {"attention.temperature_scale", 0, [](const ArchName& a) { return !is_latent(a); }},
        {"attention.causal", 1},
        {"rope.mrope_interleaved", 1}};
    for (const Key& key : kKeys) {
      const Json* value = key.read_by(arch_) ? nullptr : m_.find(key.name);
      if (!value || *value == key.neutral || *value == 0.0 || *value == (key.neutral != 0)) continue;
      return make_error(ErrorKind::unsupported, "{}: metadata \"{}.{}\" is {}, which cannot be run in {}",
                        path_, arch_.gguf, key.name, value->dump(), arch_.model_type);
    }
    return {};
  }

  // In files of GLM-4V the rows of queries and keys are in another order than in those of GLM-4.
  Result<void> check_sections() const {
    const Json* sections = arch_.arch == GgufArch::glm4 ? m_.find("rope.dimension_sections") : nullptr;
    if (!sections) return {};
    return make_error(ErrorKind::unsupported, "{}: a {} with \"rope.dimension_sections\" cannot be read",
                      path_, arch_.gguf);
  }

  // The MTP module's layers follow the others in llama.cpp's files. In Ollama's they have names of their own.
  Result<void> count_layers() {
    TRY(blocks_, m_.integer("block_count", 1));
    TRY(mtp_, m_.integer("nextn_predict_layers", 0, 0));
    if (blocks_ > kMaxLayers || mtp_ >= blocks_)
      return make_error(ErrorKind::invalid, "{}: {} layers, {} of them for prediction, make no sense", path_,
                        blocks_, mtp_);
    const bool own_names = m_.has_tensor_of("mtp.");
    const bool all_in_trunk = own_names && m_.has_tensor_of(fmt::format("blk.{}.", blocks_ - 1));
    out_.layers = all_in_trunk ? blocks_ : blocks_ - mtp_;
    if (own_names && mtp_ == 0)
      while (mtp_ == 0 || (mtp_ < kMaxLayers && m_.has_tensor_of(fmt::format("mtp.layers.{}.", mtp_))))
        mtp_++;
    return {};
  }

  Result<void> add_shapes() {
    TRY(const int64_t hidden, m_.integer("embedding_length", 1));
    TRY(const int64_t ffn, of_layers("feed_forward_length", 0, 0));
    TRY(out_.heads, read_heads());
    TRY(out_.kv_heads, read_kv_heads());
    TRY(const int64_t head_dim,
        m_.integer("attention.key_length", 1,
                   out_.arch == GgufArch::gemma3 ? 256 : std::max<int64_t>(1, hidden / out_.heads)));
    TRY(const int64_t value_dim, m_.integer("attention.value_length", 1, head_dim));
    TRY(const int64_t context, m_.integer("context_length", 1));
    TRY(out_.experts, m_.integer("expert_count", 0, 0));
    TRY(const double eps, read_eps());
    if (ffn == 0 && out_.experts == 0)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}.feed_forward_length\" is missing", path_,
                        arch_.gguf);
    if (!latent_) TRY_VOID(check_scale(head_dim));
    if (value_dim != head_dim && !latent_)
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
    c[arch_.member.layer_norm_eps ? arch_.member.layer_norm_eps : "rms_norm_eps"] = eps;
    c["vocab_size"] = embedding->shape[0];
    c["tie_word_embeddings"] = m_.tensor("output.weight") == nullptr;
    c["attention_qkv_bias"] = in_any_layer("attn_q.bias") || in_any_layer("attn_qkv.bias");
    c["attention_out_bias"] = in_any_layer("attn_output.bias");
    // For the config.json that `convert` writes.
    c["attention_bias"] = c["attention_qkv_bias"] == true && c["attention_out_bias"] == true;
    c[arch_.member.use_bias ? "use_bias" : "mlp_bias"] = in_any_layer("ffn_up.bias");
    if (out_.arch == GgufArch::qwen2 && !in_any_layer("ffn_norm.weight")) c["use_parallel_residual"] = true;
    return {};
  }

  // Only Gemma 2 and 3 may scale their scores differently (gguf_gemma.cc).
  Result<void> check_scale(int64_t head_dim) const {
    if (out_.arch == GgufArch::gemma2 || out_.arch == GgufArch::gemma3 || arch_.member.multipliers) return {};
    const double usual = out_.arch == GgufArch::gemma4 ? 1 : 1 / std::sqrt(static_cast<double>(head_dim));
    TRY(const double scale, m_.real("attention.scale", usual));
    if (std::abs(scale - usual) <= 1e-5 * usual) return {};
    return make_error(ErrorKind::unsupported, "{}: scores scaled by {} instead of {} cannot be run in {}",
                      path_, scale, usual, arch_.model_type);
  }

  // Ollama's files of Gemma lack it. Files of Nemotron-H have it under either name.
  Result<double> read_eps() const {
    constexpr const char* kRms = "attention.layer_norm_rms_epsilon";
    const bool rms =
        !arch_.member.layer_norm_eps || (out_.arch == GgufArch::nemotron_h && m_.find(kRms) != nullptr);
    const char* key = rms ? kRms : "attention.layer_norm_epsilon";
    if (!m_.find(key) && !is_gemma(out_.arch))
      return make_error(ErrorKind::invalid, "{}: metadata \"{}.{}\" is missing", path_, arch_.gguf, key);
    return m_.real(key, 1e-6);
  }

  // Files of Laguna have a number for each layer. The first one is the config's.
  Result<int64_t> read_heads() {
    constexpr const char* kKey = "attention.head_count";
    const Json* value = m_.find(kKey);
    if (!arch_.member.own_heads || !value || !value->is_array()) return m_.integer(kKey, 1);
    TRY(const auto list, m_.integers(kKey, out_.layers, 1));
    out_.config["num_attention_heads_per_layer"] = list;
    return list.front();
  }

  // In files of models with other mixers, and Ollama's of Qwen's hybrids, it is a list, in which layers
  // without attention have 0.
  Result<int64_t> read_kv_heads() {
    constexpr const char* kKey = "attention.head_count_kv";
    const Json* value = m_.find(kKey);
    const bool mixed = is_hybrid(out_.arch) || out_.arch == GgufArch::lfm2 || has_mamba(out_.arch);
    if (!mixed || !value || !value->is_array()) return of_layers(kKey, 1, out_.heads);
    TRY(const auto list, m_.integers(kKey, blocks_, 0));
    int64_t heads = 0;
    for (const int64_t each : list) {
      if (each != 0 && heads != 0 && each != heads)
        return make_error(ErrorKind::unsupported, "{}: metadata \"{}.{}\": {} and {} key heads in one model",
                          path_, arch_.gguf, kKey, heads, each);
      heads = std::max(heads, each);
      recurrent_.push_back(each == 0);
    }
    if (heads == 0)
      return make_error(ErrorKind::invalid, "{}: metadata \"{}.{}\": no layer has key heads", path_,
                        arch_.gguf, kKey);
    if (std::ranges::find(recurrent_, true) == recurrent_.end()) recurrent_.clear();
    return heads;
  }

  // The size of a dimension of the first tensor of this name; none: no layer has it.
  std::optional<int64_t> size_in_layers(const char* part, size_t dimension) const {
    for (int64_t i = 0; i < out_.layers; i++)
      if (const GgufTensor* tensor = m_.tensor(fmt::format("blk.{}.{}", i, part)))
        return tensor->shape.size() > dimension ? std::optional(tensor->shape[dimension]) : std::nullopt;
    return std::nullopt;
  }

  // Whether any layer has this tensor. The config then says so of all layers, and the loader refuses a file
  // in which a layer lacks it.
  bool in_any_layer(const char* part) const {
    for (int64_t i = 0; i < out_.layers; i++)
      if (m_.tensor(fmt::format("blk.{}.{}", i, part))) return true;
    return false;
  }

  // One number for all layers. For Gemma 4, whose layers differ, the first entry, and for Nemotron-H, in
  // which few layers have an MLP, the largest; gguf_gemma.cc and gguf_mamba.cc read all of them.
  Result<int64_t> of_layers(const char* key, int64_t least, int64_t fallback) const {
    const Json* value = m_.find(key);
    const bool gemma4 = out_.arch == GgufArch::gemma4;
    if ((!gemma4 && out_.arch != GgufArch::nemotron_h) || !value || !value->is_array())
      return m_.integer(key, least, fallback);
    TRY(const auto list, m_.integers(key, gemma4 ? out_.layers : blocks_, least));
    return gemma4 ? list.front() : *std::ranges::max_element(list);
  }

  // A llama with experts is Mixtral. Its experts have the width of feed_forward_length.
  Result<void> add_experts() {
    if (out_.experts == 0) return {};
    Json& c = out_.config;
    TRY(const int64_t used, m_.integer("expert_used_count", 1));
    c["num_experts_per_tok"] = used;
    if (arch_.member.moe) return add_gguf_experts(m_, *arch_.member.moe, arch_.member.normalises, out_);
    TRY(const bool normalised, m_.flag("expert_weights_norm", arch_.member.normalises));
    const bool states_it =
        (out_.arch == GgufArch::qwen3 && !is_qwen3_vl(arch_)) || out_.arch == GgufArch::qwen3next;
    if (!normalised && arch_.member.normalises && !states_it)
      return make_error(ErrorKind::unsupported, "{}: {} with experts that are not normalised cannot be run",
                        path_, arch_.gguf);
    if (arch_.member.multipliers)
      return make_error(ErrorKind::unsupported, "{}: {} with experts cannot be run", path_, arch_.gguf);
    if (out_.arch == GgufArch::llama) {
      c["model_type"] = "mixtral";
      c["architectures"] = Json::array({"MixtralForCausalLM"});
      c["num_local_experts"] = out_.experts;
      return {};
    }
    TRY(const int64_t width,
        m_.integer("expert_feed_forward_length", 1, size_in_layers("ffn_up_exps.weight", 1)));
    TRY(const int64_t shared, m_.integer("expert_shared_feed_forward_length", 0,
                                         size_in_layers("ffn_up_shexp.weight", 0).value_or(0)));
    c["num_experts"] = out_.experts;
    c["moe_intermediate_size"] = width;
    c["norm_topk_prob"] = normalised;
    if (shared > 0) c["shared_expert_intermediate_size"] = shared;
    add_dense_layers();
    return {};
  }

  // Lists the layers without a router as dense, if other layers are mixtures of experts.
  void add_dense_layers() {
    Json dense = Json::array();
    for (int64_t i = 0; i < out_.layers; i++)
      if (!m_.tensor(fmt::format("blk.{}.ffn_gate_inp.weight", i))) dense.push_back(i);
    const bool mixed = static_cast<int64_t>(dense.size()) < out_.layers && !dense.empty();
    if (mixed) out_.config["mlp_only_layers"] = std::move(dense);
  }

  void add_tokens() {
    const auto id = [&](const char* name) {
      const auto at = file_.metadata.find(std::string("tokenizer.ggml.") + name + "_token_id");
      return at != file_.metadata.end() && at->is_number_integer() ? *at : Json();
    };
    Json& c = out_.config;
    c["bos_token_id"] = id("bos");
    Json ends = Json::array();
    const auto add = [&](const Json& end) {
      if (end.is_number_integer() && std::find(ends.begin(), ends.end(), end) == ends.end())
        ends.push_back(end);
    };
    for (const char* name : {"eos", "eot", "eom"}) add(id(name));
    if (const Json* list = m_.find_whole("tokenizer.ggml.eos_token_ids"); list && list->is_array())
      for (const Json& end : *list) add(end);
    c["eos_token_id"] = ends.size() == 1 ? ends[0] : ends.empty() ? Json() : ends;
    c["pad_token_id"] = id("padding");
  }

  // How many pairs of dimensions time, height and width rotate.
  void add_rope_sections(const char* key) {
    const Json* sections = m_.find("rope.dimension_sections");
    if (!sections || !sections->is_array() || sections->size() < 3) return;
    Json& rope = out_.config[key];
    if (rope.is_null()) rope["rope_type"] = "default";
    rope["mrope_section"] = Json(Json::array_t(sections->begin(), sections->begin() + 3));
    rope["mrope_interleaved"] = true;
  }

  // Qwen3.5 and Qwen3-Next.
  Result<void> add_hybrid() {
    TRY(const int64_t conv, m_.integer("ssm.conv_kernel", 1));
    TRY(out_.linear_key_dim, m_.integer("ssm.state_size", 1));
    TRY(out_.linear_key_heads, m_.integer("ssm.group_count", 1));
    TRY(out_.linear_value_heads, m_.integer("ssm.time_step_rank", 1));
    TRY(const int64_t inner, m_.integer("ssm.inner_size", 1));
    TRY(const int64_t interval, m_.integer("full_attention_interval", 1, 4));
    TRY(out_.value_heads_by_turns, m_.flag("ssm.v_head_reordered", out_.arch == GgufArch::qwen35));
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
    TRY_VOID(add_hybrid_layers(interval));
    c["attn_output_gate"] = true;
    c["mamba_ssm_dtype"] = "float32";
    c["mtp_num_hidden_layers"] = mtp_;
    Json rope = c.value("rope_scaling", Json::object({{"rope_type", "default"}}));
    c.erase("rope_scaling");
    rope["rope_theta"] = c["rope_theta"];
    rope["partial_rotary_factor"] = c.value("partial_rotary_factor", 1.0);
    c["rope_parameters"] = std::move(rope);
    add_rope_sections("rope_parameters");
    return {};
  }

  // The metadata has the width of the MLP as it is.
  Result<void> add_lfm2() {
    Json& c = out_.config;
    TRY(c["conv_L_cache"], m_.integer("shortconv.l_cache", 1));
    c["conv_bias"] = in_any_layer("shortconv.conv.bias");
    c["use_expert_bias"] = in_any_layer("exp_probs_b.bias");
    c["block_auto_adjust_ff_dim"] = false;
    c["norm_eps"] = c["rms_norm_eps"];
    c.erase("rms_norm_eps");
    c["layer_types"] = Json::array();
    for (int64_t i = 0; i < out_.layers; i++)
      c["layer_types"].push_back(!recurrent_.empty() && recurrent_[i] ? "conv" : "full_attention");
    return {};
  }

  // Finds the recurrent layers: from their list, or from the list of key heads. In older files, from the
  // layers' tensors, or else one full layer in each `interval`.
  Result<void> add_hybrid_layers(int64_t interval) {
    TRY(auto recurrent, m_.flags("attention.recurrent_layers", blocks_));
    if (recurrent.empty()) recurrent = recurrent_;
    if (recurrent.empty() && in_any_layer("ssm_out.weight"))
      for (int64_t i = 0; i < out_.layers; i++)
        recurrent.push_back(m_.tensor(fmt::format("blk.{}.ssm_out.weight", i)) != nullptr);
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
  const bool latent_ = is_latent(arch_);
  int64_t blocks_ = 0, mtp_ = 0;   // number of layers as in the file; layers of the MTP module
  std::vector<bool> recurrent_{};  // for each block, if the list of key heads says it
  GgufConfig out_;
};

}  // namespace

Result<GgufArch> read_gguf_arch(const GgufFile& file, const std::string& path) {
  TRY(const ArchName* arch, find_arch(file, path));
  return arch->arch;
}

Result<GgufConfig> read_gguf_config(const GgufFile& file, const std::string& path) {
  TRY(const ArchName* arch, find_arch(file, path));
  return Builder(file, path, *arch).build();
}

}  // namespace anabranch
