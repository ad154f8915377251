#include "checkpoint/gguf_families.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/head_order.h"
#include "checkpoint/output_layout.h"

namespace anabranch {

namespace {

constexpr int64_t kMostLayers = 4096, kMost = int64_t{1} << 30;

// config.json of the text model, with the prefix of the architecture's keys.
class Description {
 public:
  Description(const Json& config, std::string path, GgufModel& out) : path_(std::move(path)), out_(out) {
    if (const auto text = config.find("text_config"); text != config.end() && text->is_object()) {
      c_ = *text;
      for (const auto& [key, value] : config.items())
        if (!c_.contains(key)) c_[key] = value;
    } else {
      c_ = config;
    }
    rope_ = object("rope_parameters");
    if (rope_.contains("full_attention") && rope_["full_attention"].is_object())
      rope_ = Json(rope_.at("full_attention"));
    const Json scaling = object("rope_scaling");
    for (const auto& [key, value] : scaling.items()) rope_[key] = value;
  }

  GgufModel& out() { return out_; }
  const Json& config() const { return c_; }
  Json& rope() { return rope_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", out_.arch_name, name); }

  const Json* find(const char* name) const {
    const auto at = c_.find(name);
    return at == c_.end() || at->is_null() ? nullptr : &*at;
  }
  Json object(const char* name) const {
    const Json* value = find(name);
    return value && value->is_object() ? *value : Json::object();
  }
  bool flag(const char* name, bool fallback) const {
    const Json* value = find(name);
    return value && value->is_boolean() ? value->get<bool>() : fallback;
  }

  Result<int64_t> integer(const char* name, std::optional<int64_t> fallback = std::nullopt) const {
    const Json* value = find(name);
    if (!value && fallback) return *fallback;
    if (!value) return make_error(ErrorKind::invalid, "{}: \"{}\" is missing in its config", path_, name);
    if (!value->is_number_integer() || *value < 0 || *value > kMost)
      return make_error(ErrorKind::invalid, "{}: \"{}\" in its config is not a sensible number", path_, name);
    return value->get<int64_t>();
  }

  Result<double> number(const Json& object, const char* name, double fallback) const {
    const auto value = object.find(name);
    if (value == object.end() || value->is_null()) return fallback;
    if (!value->is_number() || !(value->get<double>() > 0) || !(value->get<double>() < 1e30))
      return make_error(ErrorKind::invalid, "{}: \"{}\" in its config is not a positive number", path_, name);
    return value->get<double>();
  }

  Error unsupported(std::string_view what) const {
    return make_error(ErrorKind::unsupported, "{}: {} cannot be written as a GGUF file", path_, what);
  }

  void warn(std::string text) { out_.warnings.push_back(path_ + ": " + std::move(text)); }

 private:
  Json c_, rope_;  // rope_: of the layers with full attention
  std::string path_;
  GgufModel& out_;
};

// Metadata that all families have.
Result<void> add_shapes(Description& d) {
  GgufModel& m = d.out();
  TRY(m.layers, d.integer("num_hidden_layers"));
  TRY(m.heads, d.integer("num_attention_heads"));
  TRY(m.kv_heads, d.integer("num_key_value_heads", m.heads));
  TRY(const int64_t hidden, d.integer("hidden_size"));
  TRY(const int64_t ffn, d.integer("intermediate_size"));
  TRY(const int64_t context, d.integer("max_position_embeddings"));
  TRY(const double eps, d.number(d.config(), "rms_norm_eps", 1e-6));
  if (m.layers < 1 || m.layers > kMostLayers || m.heads < 1 || m.kv_heads < 1 || m.heads % m.kv_heads != 0)
    return d.unsupported(fmt::format("a model of {} layers with {} heads, {} of them for keys", m.layers,
                                     m.heads, m.kv_heads));
  TRY(m.head_dim, d.integer("head_dim", m.arch == GgufArch::gemma3 ? 256 : hidden / m.heads));
  if (m.head_dim < 2) return d.unsupported(fmt::format("heads of {} dimensions", m.head_dim));
  m.keys.u32(d.key("block_count"), static_cast<uint64_t>(m.layers + m.mtp_layers))
      .u32(d.key("context_length"), static_cast<uint64_t>(context))
      .u32(d.key("embedding_length"), static_cast<uint64_t>(hidden))
      .u32(d.key("feed_forward_length"), static_cast<uint64_t>(ffn))
      .u32(d.key("attention.head_count"), static_cast<uint64_t>(m.heads))
      .u32(d.key("attention.head_count_kv"), static_cast<uint64_t>(m.kv_heads))
      .u32(d.key("attention.key_length"), static_cast<uint64_t>(m.head_dim))
      .u32(d.key("attention.value_length"), static_cast<uint64_t>(m.head_dim))
      .f32(d.key("attention.layer_norm_rms_epsilon"), eps);
  return {};
}

Result<void> check_activation(Description& d) {
  const bool gemma = is_gemma(d.out().arch);
  for (const char* name : {"hidden_act", "hidden_activation"}) {
    const Json* value = d.find(name);
    const bool usual =
        !value || (gemma ? *value == "gelu_pytorch_tanh" : *value == "silu" || *value == "swish");
    if (!usual) return d.unsupported(fmt::format("\"{}\": {}", name, value->dump()));
  }
  return {};
}

// Llama 3.1's scaling: what each frequency is divided by (_compute_llama3_parameters).
Result<void> add_llama3_factors(Description& d, double theta, int64_t rotary) {
  TRY(const double factor, d.number(d.rope(), "factor", 8));
  TRY(const double low, d.number(d.rope(), "low_freq_factor", 1));
  TRY(const double high, d.number(d.rope(), "high_freq_factor", 4));
  TRY(const double original, d.number(d.rope(), "original_max_position_embeddings", 8192));
  if (high <= low) return d.unsupported("a llama3 rope whose high_freq_factor is not above low_freq_factor");
  for (int64_t i = 0; i < rotary / 2; i++) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(theta, 2 * static_cast<double>(i) / static_cast<double>(rotary));
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    d.out().rope_factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return {};
}

// A longrope with the same table for every length, which the reader of GGUF files makes from divisors.
Result<void> add_longrope_factors(Description& d, int64_t rotary) {
  const auto near = d.rope().find("short_factor"), far = d.rope().find("long_factor");
  const bool one = near != d.rope().end() && far != d.rope().end() && *near == *far && near->is_array() &&
                   static_cast<int64_t>(near->size()) == rotary / 2 &&
                   d.rope().value("attention_factor", Json()) == 1;
  if (!one) return d.unsupported("a longrope whose factors depend on the length");
  for (const Json& factor : *near) {
    if (!factor.is_number() || !(factor.get<double>() > 0))
      return d.unsupported("a longrope with factors that are not above zero");
    d.out().rope_factors.push_back(factor.get<float>());
  }
  return {};
}

Result<void> add_yarn(Description& d) {
  GgufKeys& keys = d.out().keys;
  TRY(const int64_t context, d.integer("max_position_embeddings"));
  TRY(const double original,
      d.number(d.rope(), "original_max_position_embeddings", static_cast<double>(context)));
  TRY(const double factor, d.number(d.rope(), "factor", static_cast<double>(context) / original));
  for (const char* own : {"mscale", "mscale_all_dim", "attention_factor"})
    if (d.rope().contains(own) && !d.rope()[own].is_null())
      return d.unsupported(fmt::format("a yarn rope with \"{}\"", own));
  if (d.rope().value("truncate", Json(true)) == false) return d.unsupported("a yarn rope without truncation");
  keys.text(d.key("rope.scaling.type"), "yarn").f32(d.key("rope.scaling.factor"), factor);
  keys.u32(d.key("rope.scaling.original_context_length"), static_cast<uint64_t>(original));
  for (const auto& [from, to] : {std::pair{"beta_fast", "rope.scaling.yarn_beta_fast"},
                                 std::pair{"beta_slow", "rope.scaling.yarn_beta_slow"}})
    if (d.rope().contains(from)) {
      TRY(const double value, d.number(d.rope(), from, 1));
      keys.f32(d.key(to), value);
    }
  return {};
}

Result<void> add_rope(Description& d, double default_theta) {
  GgufModel& m = d.out();
  TRY(double theta, d.number(d.config(), "rope_theta", default_theta));
  TRY(theta, d.number(d.rope(), "rope_theta", theta));
  TRY(double part, d.number(d.config(), "partial_rotary_factor", 1));
  TRY(part, d.number(d.rope(), "partial_rotary_factor", part));
  if (part > 1) return d.unsupported("a partial_rotary_factor above 1");
  const auto rotary = static_cast<int64_t>(static_cast<double>(m.head_dim) * part);
  m.keys.f32(d.key("rope.freq_base"), theta);
  m.keys.u32(d.key("rope.dimension_count"), static_cast<uint64_t>(rotary));
  std::string type = string_at(d.rope(), "rope_type");
  if (type.empty()) type = string_at(d.rope(), "type");
  if (type.empty() || type == "default" || type == "mrope") return {};
  if (type == "linear") {
    TRY(const double factor, d.number(d.rope(), "factor", 1));
    m.keys.text(d.key("rope.scaling.type"), "linear").f32(d.key("rope.scaling.factor"), factor);
    return {};
  }
  if (type == "llama3") return add_llama3_factors(d, theta, rotary);
  if (type == "longrope") return add_longrope_factors(d, rotary);
  if (type == "yarn") return add_yarn(d);
  return d.unsupported(fmt::format("a rope of type \"{}\"", shown(type)));
}

// llama.cpp reads these families without the windows that some of their models have.
Result<void> add_llama(Description& d) {
  TRY_VOID(add_rope(d, 10000));
  const Json *window = d.find("sliding_window"), *context = d.find("max_position_embeddings");
  const bool used = d.flag("use_sliding_window", std::string_view(d.out().arch_name) == "llama");
  if (window && context && used && *window < *context)
    d.warn(fmt::format("its window of {} positions is not kept: GGUF files of {} have none", window->dump(),
                       d.out().arch_name));
  return {};
}

// For each layer, whether config.json lists it as this kind; empty if it has no list.
std::vector<bool> layers_of_kind(const Description& d, int64_t layers, const char* kind) {
  std::vector<bool> out;
  const Json* types = d.find("layer_types");
  if (!types || !types->is_array() || static_cast<int64_t>(types->size()) != layers) return out;
  for (const Json& type : *types) out.push_back(type == kind);
  return out;
}

Result<void> add_gemma3(Description& d) {
  constexpr int64_t kUsualPattern = 6, kLayersOf27b = 62;
  GgufModel& m = d.out();
  TRY_VOID(add_rope(d, 1e6));
  Json local = d.object("rope_parameters");
  local = local.contains("sliding_attention") && local["sliding_attention"].is_object()
              ? Json(local["sliding_attention"])
              : Json::object();
  TRY(double local_theta, d.number(d.config(), "rope_local_base_freq", 10000));
  TRY(local_theta, d.number(local, "rope_theta", local_theta));
  m.keys.f32(d.key("rope.freq_base_swa"), local_theta);
  TRY(const int64_t window, d.integer("sliding_window", 4096));
  m.keys.u32(d.key("attention.sliding_window"), static_cast<uint64_t>(window));
  TRY(const int64_t stated, d.integer("sliding_window_pattern", kUsualPattern));
  const int64_t pattern = std::max<int64_t>(stated, 1);
  std::vector<bool> windowed = layers_of_kind(d, m.layers, "sliding_attention");
  bool usual = true;
  for (int64_t i = 0; i < m.layers; i++) {
    if (static_cast<int64_t>(windowed.size()) <= i) windowed.push_back((i + 1) % pattern != 0);
    usual = usual && windowed[static_cast<size_t>(i)] == ((i + 1) % kUsualPattern != 0);
  }
  if (!usual) {
    m.keys.flags(d.key("attention.sliding_window_pattern"), windowed);
    d.warn(
        "not every sixth layer alone has full attention, which older versions of llama.cpp take for granted");
  }
  TRY(const int64_t hidden, d.integer("hidden_size"));
  const double usual_scalar = m.layers == kLayersOf27b
                                  ? static_cast<double>(hidden) / static_cast<double>(m.heads)
                                  : static_cast<double>(m.head_dim);
  TRY(const double scalar, d.number(d.config(), "query_pre_attn_scalar", 256));
  if (scalar != usual_scalar) {
    m.keys.f32(d.key("attention.scale"), 1 / std::sqrt(scalar));
    d.warn(fmt::format("\"query_pre_attn_scalar\" is {}, not {}: llama.cpp does not read that", scalar,
                       usual_scalar));
  }
  if (d.find("final_logit_softcapping")) {
    TRY(const double cap, d.number(d.config(), "final_logit_softcapping", 1));
    m.keys.f32(d.key("final_logit_softcapping"), cap);
  }
  if (d.find("attn_logit_softcapping")) return d.unsupported("Gemma 3 with soft caps of its scores");
  return {};
}

Result<void> add_recurrent_shapes(Description& d) {
  GgufModel& m = d.out();
  TRY(const int64_t conv, d.integer("linear_conv_kernel_dim", 4));
  TRY(m.linear_key_heads, d.integer("linear_num_key_heads"));
  TRY(m.linear_value_heads, d.integer("linear_num_value_heads"));
  TRY(m.linear_key_dim, d.integer("linear_key_head_dim"));
  TRY(m.linear_value_dim, d.integer("linear_value_head_dim"));
  if (m.linear_key_heads < 1 || m.linear_value_heads < 1 || m.linear_value_heads % m.linear_key_heads != 0)
    return d.unsupported(
        fmt::format("{} recurrent value heads with {} key heads", m.linear_value_heads, m.linear_key_heads));
  if (m.linear_key_dim != m.linear_value_dim)
    return d.unsupported(
        fmt::format("recurrent keys of {} with values of {}", m.linear_key_dim, m.linear_value_dim));
  m.keys.u32(d.key("ssm.conv_kernel"), static_cast<uint64_t>(conv))
      .u32(d.key("ssm.state_size"), static_cast<uint64_t>(m.linear_key_dim))
      .u32(d.key("ssm.group_count"), static_cast<uint64_t>(m.linear_key_heads))
      .u32(d.key("ssm.time_step_rank"), static_cast<uint64_t>(m.linear_value_heads))
      .u32(d.key("ssm.inner_size"), static_cast<uint64_t>(m.linear_value_dim * m.linear_value_heads));
  return {};
}

Result<void> add_qwen35(Description& d) {
  GgufModel& m = d.out();
  if (!d.find("partial_rotary_factor") && !d.rope().contains("partial_rotary_factor"))
    d.rope()["partial_rotary_factor"] = 0.25;
  TRY_VOID(add_rope(d, 10000));
  TRY_VOID(add_recurrent_shapes(d));
  if (!d.flag("attn_output_gate", true)) return d.unsupported("Qwen3.5 without output gates");
  if (const Json* gate = d.find("output_gate_type"); gate && *gate != "silu" && *gate != "swish")
    return d.unsupported(fmt::format("\"output_gate_type\": {}", gate->dump()));
  // Sections of 4 axes, the last of which has none.
  std::vector<int32_t> sections;
  if (const auto own = d.rope().find("mrope_section"); own != d.rope().end() && own->is_array())
    for (const Json& size : *own)
      if (size.is_number_integer() && size >= 0 && size <= kMost) sections.push_back(size.get<int32_t>());
  if (sections.size() < 3) sections = {11, 11, 10};
  sections.resize(4);
  m.keys.i32s(d.key("rope.dimension_sections"), sections);
  TRY(const int64_t stated, d.integer("full_attention_interval", 4));
  const int64_t interval = std::max<int64_t>(stated, 1);
  m.keys.u32(d.key("full_attention_interval"), static_cast<uint64_t>(interval));
  std::vector<bool> recurrent = layers_of_kind(d, m.layers, "linear_attention");
  for (auto i = static_cast<int64_t>(recurrent.size()); i < m.layers; i++)
    recurrent.push_back((i + 1) % interval != 0);
  recurrent.resize(static_cast<size_t>(m.layers + m.mtp_layers));  // a prediction head is not recurrent
  m.keys.flags(d.key("attention.recurrent_layers"), recurrent);
  if (m.mtp_layers > 0) m.keys.u32(d.key("nextn_predict_layers"), static_cast<uint64_t>(m.mtp_layers));
  return {};
}

struct Family {
  std::string_view type;  // "model_type" in config.json
  const char* arch_name;
  GgufArch arch;
  bool shifted_norms;
  Result<void> (*add)(Description&);
};
constexpr Family kFamilies[] = {
    {"llama", "llama", GgufArch::llama, false, add_llama},
    {"mistral", "llama", GgufArch::llama, false, add_llama},
    {"qwen2", "qwen2", GgufArch::qwen2, false, add_llama},
    {"qwen3", "qwen3", GgufArch::qwen3, false, add_llama},
    {"qwen3_vl_text", "qwen3", GgufArch::qwen3, false, add_llama},  // without images
    {"gemma3", "gemma3", GgufArch::gemma3, true, add_gemma3},
    {"gemma3_text", "gemma3", GgufArch::gemma3, true, add_gemma3},
    {"qwen3_5", "qwen35", GgufArch::qwen35, true, add_qwen35},
    {"qwen3_5_text", "qwen35", GgufArch::qwen35, true, add_qwen35},
};

Result<const Family*> find_family(const Json& config, const std::string& path) {
  std::string type = string_at(config, "model_type"), known;
  if (const auto text = config.find("text_config"); text != config.end())
    if (const std::string own = string_at(*text, "model_type"); !own.empty()) type = own;
  for (const Family& family : kFamilies) {
    if (family.type == type) return &family;
    if (!family.type.ends_with("_text")) known += (known.empty() ? "" : ", ") + std::string(family.type);
  }
  return make_error(ErrorKind::unsupported,
                    "{}: GGUF files are not written for models of type \"{}\", only for {} (without experts)",
                    path, shown(type), known);
}

int64_t count_mtp_layers(const Checkpoint& source) {
  int64_t count = 0;
  while (count < kMostLayers && source.has(fmt::format("mtp.layers.{}.input_layernorm.weight", count)))
    count++;
  return count;
}

// Finds how the rows of a matrix, or the elements of a vector, differ from Hugging Face's.
class Changer {
 public:
  Changer(const GgufModel& model, const TensorInfo& info)
      : m_(model), info_(info), part_(part_of(gguf_name(model.arch, model.layers, info.name))) {}

  Result<GgufChange> change() {
    out_.shape = info_.shape;
    if (m_.shifted_norms && is_shifted_norm(info_.name) && info_.norms == NormConvention::offset)
      out_.add = 1;
    const bool query = part_.starts_with("attn_q."), key = part_.starts_with("attn_k.");
    if (turns_rows(m_.arch) && (query || key)) TRY_VOID(turn(query ? m_.heads : m_.kv_heads));
    if (is_hybrid(m_.arch)) TRY_VOID(change_recurrent());
    return std::move(out_);
  }

 private:
  static std::string part_of(const std::string& name) {
    const auto layer = split_gguf_layer(name);
    return layer ? std::string(layer->second) : name;
  }

  Error wrong_shape() const {
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\": shape {} does not fit the config", info_.file,
                      shown(info_.name), shape_text(info_.shape));
  }

  int64_t first_dimension() const { return out_.shape.empty() ? 0 : out_.shape.front(); }

  Result<void> turn(int64_t heads) {
    if (first_dimension() % (2 * heads) != 0) return wrong_shape();
    out_.rows = inverse_order(rotary_order(heads, first_dimension() / heads));
    return {};
  }

  Result<void> order_heads(std::vector<int64_t>& to, int64_t size, int64_t width, int64_t before) {
    if (size != before + m_.linear_value_heads * width) return wrong_shape();
    to = inverse_order(value_head_order(m_.linear_key_heads, m_.linear_value_heads, width, before));
    return {};
  }

  Result<void> change_recurrent() {
    out_.is_decay = part_ == "ssm_a";
    if (part_ == "ssm_conv1d.weight") {  // Hugging Face's [C, 1, k], MLX's [C, k, 1]
      const auto& s = info_.shape;
      if (s.size() == 3 && s[1] != 1 && s[2] != 1) return wrong_shape();
      if (s.size() == 3) out_.shape = {s[0], s[1] * s[2]};
    }
    if (m_.linear_key_heads == m_.linear_value_heads) return {};
    const int64_t keys = m_.linear_key_heads * m_.linear_key_dim, dim = m_.linear_value_dim;
    if (part_ == "attn_qkv.weight" || part_ == "ssm_conv1d.weight")
      return order_heads(out_.rows, first_dimension(), dim, 2 * keys);
    if (part_ == "attn_gate.weight") return order_heads(out_.rows, first_dimension(), dim, 0);
    if (part_ == "ssm_out.weight") return order_heads(out_.columns, out_.shape.back(), dim, 0);
    if (part_ == "ssm_beta.weight" || part_ == "ssm_alpha.weight" || part_ == "ssm_a" ||
        part_ == "ssm_dt.bias")
      return order_heads(out_.rows, first_dimension(), 1, 0);
    return {};
  }

  const GgufModel& m_;
  const TensorInfo& info_;
  std::string part_;  // "attn_q.weight"
  GgufChange out_;
};

}  // namespace

Result<GgufModel> describe_gguf_model(const Checkpoint& source) {
  TRY(const Family* family, find_family(source.config(), source.path()));
  GgufModel out;
  out.arch = family->arch;
  out.arch_name = family->arch_name;
  out.shifted_norms = family->shifted_norms;
  out.mtp_layers = is_hybrid(out.arch) ? count_mtp_layers(source) : 0;
  out.keys.text("general.architecture", out.arch_name).text("general.type", "model");
  Description description(source.config(), source.path(), out);
  TRY_VOID(check_activation(description));
  TRY_VOID(add_shapes(description));
  TRY_VOID(family->add(description));
  return out;
}

Result<GgufChange> gguf_change(const GgufModel& model, const TensorInfo& info) {
  return Changer(model, info).change();
}

}  // namespace anabranch
