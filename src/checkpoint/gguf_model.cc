#include "checkpoint/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "checkpoint/dense.h"
#include "checkpoint/experts.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/gguf_vision.h"
#include "checkpoint/rotary_order.h"

namespace anabranch {

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

// A reranker's: the head's rows for "yes" and "no" once more.
constexpr std::string_view kClassifier = "cls.output.weight";
constexpr NamePair kTop[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    // Gemma 4
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
};
// Within a layer: a whole name with its ".weight", or what precedes ".weight" or ".bias".
constexpr NamePair kCommon[] = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_norm", "input_layernorm"},
    // Mixtures of experts: the router, stacked matrices, the shared expert.
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
};
constexpr NamePair kLlama[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr NamePair kGemma[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    // Gemma 4
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"ffn_gate_inp.weight", "router.proj.weight"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    // Gemma 4 of Ollama
    {"ffn_gate_inp.per_expert_scale", "router.per_expert_scale"},
    {"layer_scalar", "layer_scalar"},
    {"attn_post_norm", "post_attention_layernorm"},
    {"ffn_pre_norm", "pre_feedforward_layernorm"},
    {"ffn_post_norm", "post_feedforward_layernorm"},
    {"ffn_post_norm_1", "post_feedforward_layernorm_1"},
    {"ffn_pre_norm_2", "pre_feedforward_layernorm_2"},
    {"ffn_post_norm_2", "post_feedforward_layernorm_2"},
};
constexpr NamePair kHybrid[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_dt", "linear_attn.dt_bias"},  // Ollama
    // Qwen3-Next
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"ssm_in", "linear_attn.in_proj_qkvz"},
};
constexpr NamePair kMtp[] = {
    {"nextn.eh_proj", "mtp.fc"},
    {"nextn.enorm", "mtp.pre_fc_norm_embedding"},
    {"nextn.hnorm", "mtp.pre_fc_norm_hidden"},
    {"nextn.shared_head_norm", "mtp.norm"},
    {"nextn.embed_tokens", "mtp.embed_tokens"},
    {"nextn.shared_head_head", "mtp.lm_head"},
};

std::string_view lookup(std::span<const NamePair> table, std::string_view key) {
  for (const auto& [from, to] : table)
    if (from == key) return to;
  return {};
}

// The whole name, or the name before the suffix with that suffix; empty if it is not in the table.
std::string lookup_part(std::span<const NamePair> table, std::string_view part) {
  if (const auto whole = lookup(table, part); !whole.empty()) return std::string(whole);
  const size_t dot = part.rfind('.');
  if (dot == std::string_view::npos) return "";
  const auto name = lookup(table, part.substr(0, dot));
  return name.empty() ? "" : std::string(name).append(part.substr(dot));
}

std::span<const NamePair> arch_names(GgufArch arch) {
  if (is_hybrid(arch)) return kHybrid;
  if (is_gemma(arch)) return kGemma;
  return kLlama;
}

// "blk.12.attn_q.weight" -> 12, "attn_q.weight"
std::optional<std::pair<int64_t, std::string_view>> split_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  int64_t layer = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<size_t>(end.ptr - name.data());
  if (end.ec != std::errc() || digits == 0 || digits >= name.size() || name[digits] != '.' || layer < 0)
    return std::nullopt;
  return std::pair(layer, name.substr(digits + 1));
}

// Column block i of the result is block order[i] of `source`; blocks of `width` columns.
WeightSource select_column_blocks(WeightSource source, int64_t width, std::vector<int64_t> order) {
  CHECK(static_cast<int64_t>(order.size()) * width == source.cols);
  WeightSource out = source;
  const int64_t cols = source.cols;
  const auto gather = [order](const auto* from, int64_t step, auto* to) {
    for (size_t i = 0; i < order.size(); i++)
      std::memcpy(to + static_cast<int64_t>(i) * step, from + order[i] * step, sizeof(*to) * step);
  };
  if (source.read_codes) {
    CHECK(width % source.group == 0);
    out.read_block_scales = nullptr;  // columns that moved no longer share a block's factors
    const int64_t groups = cols / source.group, step = width / source.group;
    out.read_codes = [=, symmetric = source.symmetric, read = source.read_codes](
                         int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
      std::vector<uint8_t> c(cols);
      std::vector<float> s(groups), b(groups);
      for (int64_t r = 0; r < count; r++) {
        read(first + r, 1, c.data(), s.data(), b.data());
        gather(c.data(), width, codes + r * cols);
        gather(s.data(), step, scales + r * groups);
        if (!symmetric) gather(b.data(), step, biases + r * groups);
      }
    };
  }
  if (source.read_dense) {
    out.read_dense = [=, read = source.read_dense](int64_t first, int64_t count, float* values) {
      std::vector<float> v(cols);
      for (int64_t r = 0; r < count; r++) {
        read(first + r, 1, v.data());
        gather(v.data(), width, values + r * cols);
      }
    };
  }
  return out;
}

// The value heads of qwen35: Hugging Face has them by key head, (key head, j); GGUF has (j, key head). Units
// of `width` rows, after `before` rows that stay.
std::vector<int64_t> value_head_order(const GgufConfig& c, int64_t width, int64_t before) {
  std::vector<int64_t> order(before);
  std::iota(order.begin(), order.end(), 0);
  const int64_t per_key = c.linear_value_heads / c.linear_key_heads;
  for (int64_t k = 0; k < c.linear_key_heads; k++)
    for (int64_t j = 0; j < per_key; j++)
      for (int64_t d = 0; d < width; d++) order.push_back(before + (j * c.linear_key_heads + k) * width + d);
  return order;
}

// Ollama's names of the MTP module. Within a layer they are those of the trunk's layers.
std::string mtp_name(const GgufConfig& config, const std::string& name) {
  constexpr std::string_view kLayers = "mtp.layers.";
  constexpr NamePair kOwn[] = {{"mtp.shared_head.norm.weight", "mtp.norm.weight"},
                               {"mtp.shared_head.head.weight", "mtp.lm_head.weight"}};
  if (const auto own = lookup(kOwn, name); !own.empty()) return std::string(own);
  const size_t dot = name.find('.', kLayers.size());
  if (!name.starts_with(kLayers) || dot == std::string::npos) return name;
  for (const auto table : {arch_names(config.arch), std::span<const NamePair>(kCommon)})
    if (const std::string part = lookup_part(table, std::string_view(name).substr(dot + 1)); !part.empty())
      return name.substr(0, dot + 1) + part;
  return name;
}

// GGUF's norms are stored as 1 + w. Ollama adds the 1 where the name ends in "_norm.weight", which is not so
// of all that an MTP module has.
NormConvention norms_of(const std::string& name) {
  return name.starts_with("mtp.") && !name.ends_with("_norm.weight") ? NormConvention::offset
                                                                     : NormConvention::plain;
}

const GgufTensor* find_tensor(const std::vector<GgufTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &GgufTensor::name);
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

// Beside a matrix of NVFP4 stands "<module>.scale", a factor of it or of each expert, and
// "<module>.input_scale" for activations. The matrix that a tensor with such a name belongs to, or null.
const GgufTensor* matrix_of_scale(const std::vector<GgufTensor>& tensors, const GgufConfig& config,
                                  const std::string& name) {
  for (const std::string_view suffix : {".input_scale", ".scale"}) {
    if (!name.ends_with(suffix) || !hf_name(config, name).ends_with(suffix)) continue;
    const auto* matrix =
        find_tensor(tensors, name.substr(0, name.size() - suffix.size()) + std::string(".weight"));
    if (matrix && matrix->type->name == std::string_view("NVFP4")) return matrix;
  }
  return nullptr;
}

WeightSource scaled(WeightSource source, float factor) {
  source.scale_factor *= factor;
  source.read_codes = [read = source.read_codes, groups = source.cols / source.group, factor](
                          int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
    read(first, count, codes, scales, biases);
    for (int64_t i = 0; i < count * groups; i++) scales[i] *= factor;
  };
  return source;
}

// The matrix of NVFP4 with its factor, or those of its `parts` (experts).
Result<WeightSource> with_factors(WeightSource source, int64_t parts, const GgufTensor& scale,
                                  const std::string& path) {
  const auto [lines, last] = rows_and_cols(scale.shape);
  const int64_t count = lines * last;
  if (is_coded(scale.type->kind) || (count != 1 && count != parts))
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\": {} factors of {} for {} rows", path,
                      shown(scale.name), count, scale.type->name, source.rows);
  std::vector<float> factors(static_cast<size_t>(count));
  dense_to_float(scale.type->kind, scale.data.data(), count, factors.data());
  if (count == 1) return scaled(std::move(source), factors[0]);
  std::vector<WeightSource> experts;
  const int64_t each = source.rows / count;
  for (int64_t e = 0; e < count; e++) {
    std::vector<int64_t> rows(static_cast<size_t>(each));
    std::iota(rows.begin(), rows.end(), e * each);
    experts.push_back(scaled(select_rows(source, std::move(rows)), factors[e]));
  }
  return join_rows(std::move(experts));
}

class Translator {
 public:
  Translator(const GgufConfig& config, const FileBytes& file) : config_(config), file_(file) {}

  Result<Entry> translate(const GgufTensor& tensor) const {
    const auto [rows, cols] = rows_and_cols(tensor.shape);
    Entry entry{TensorInfo{hf_name(config_, tensor.name), tensor.type->name, tensor.shape, tensor.data.size(),
                           file_.path, norms_of(tensor.name)},
                gguf_source(*tensor.type, tensor.data.data(), rows, cols, file_.keep)};
    if (tensor.name.ends_with(".ffn_gate_inp_shexp.weight") && tensor.shape.size() == 1)
      entry.info.shape = {1, tensor.shape[0]};
    const auto layer = split_layer(tensor.name);
    if (!layer) return entry;
    const std::string_view part = layer->second;
    if (config_.arch == GgufArch::llama && (part.starts_with("attn_q.") || part.starts_with("attn_k.")))
      return undo_rotary(tensor, part.starts_with("attn_q.") ? config_.heads : config_.kv_heads,
                         std::move(entry));
    if (is_hybrid(config_.arch)) return undo_hybrid(tensor, part, std::move(entry));
    return entry;
  }

 private:
  Error wrong_shape(const GgufTensor& tensor) const {
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\": shape {} does not fit the metadata", file_.path,
                      shown(tensor.name), shape_text(tensor.shape));
  }

  // Rows of a matrix, elements of a vector.
  Result<Entry> reorder(const GgufTensor& tensor, std::vector<int64_t> order, Entry entry) const {
    if (static_cast<int64_t>(order.size()) != tensor.shape[0]) return wrong_shape(tensor);
    if (tensor.shape.size() == 1) {
      if (!entry.source.read_dense) return wrong_shape(tensor);
      entry.source = select_column_blocks(std::move(entry.source), 1, std::move(order));
    } else {
      if (tensor.shape.size() != 2) return wrong_shape(tensor);
      entry.source = select_rows(std::move(entry.source), std::move(order));
    }
    return entry;
  }

  Result<Entry> undo_rotary(const GgufTensor& tensor, int64_t heads, Entry entry) const {
    if (tensor.shape[0] % (2 * heads) != 0) return wrong_shape(tensor);
    return reorder(tensor, rotary_order(heads, tensor.shape[0] / heads), std::move(entry));
  }

  Result<Entry> undo_hybrid(const GgufTensor& tensor, std::string_view part, Entry entry) const {
    if (part == "ssm_a") {
      TRY(entry, undo_decay(tensor, std::move(entry)));
    }
    if (!config_.value_heads_by_turns || config_.linear_value_heads == config_.linear_key_heads) return entry;
    const int64_t keys = config_.linear_key_heads * config_.linear_key_dim, dim = config_.linear_value_dim;
    const int64_t values = config_.linear_value_heads * dim;
    if (part == "ssm_out.weight") return undo_output(tensor, std::move(entry));
    const bool fused = part == "attn_qkv.weight" || part == "ssm_conv1d.weight";
    if (fused ||
        part == "attn_gate.weight") {  // before the order is made: it is as long as the metadata says
      if (tensor.shape[0] != (fused ? 2 * keys : 0) + values) return wrong_shape(tensor);
      return reorder(tensor, value_head_order(config_, dim, fused ? 2 * keys : 0), std::move(entry));
    }
    if (part == "ssm_beta.weight" || part == "ssm_alpha.weight" || part == "ssm_a" ||
        part.starts_with("ssm_dt")) {
      if (tensor.shape[0] != config_.linear_value_heads) return wrong_shape(tensor);
      return reorder(tensor, value_head_order(config_, 1, 0), std::move(entry));
    }
    return entry;
  }

  // ssm_a = -exp(A_log)
  Result<Entry> undo_decay(const GgufTensor& tensor, Entry entry) const {
    if (tensor.shape.size() != 1 || tensor.shape[0] != config_.linear_value_heads || !entry.source.read_dense)
      return wrong_shape(tensor);
    std::vector<float> values(tensor.shape[0], -1.0f);
    if (file_.extent == Extent::whole) entry.source.read_dense(0, 1, values.data());
    for (float v : values)
      if (!(v < 0) || !std::isfinite(v))
        return make_error(ErrorKind::invalid, "{}: tensor \"{}\": a decay of {} is not below zero",
                          file_.path, shown(tensor.name), v);
    entry.source.kind = WeightKind::f32;
    entry.info.type = "F32";
    entry.source.read_dense = [read = entry.source.read_dense, n = tensor.shape[0]](
                                  int64_t first, int64_t count, float* out) {
      read(first, count, out);
      for (int64_t i = 0; i < count * n; i++) out[i] = std::log(-out[i]);
    };
    return entry;
  }

  Result<Entry> undo_output(const GgufTensor& tensor, Entry entry) const {
    const int64_t dim = config_.linear_value_dim;
    if (tensor.shape.size() != 2 || tensor.shape[1] != config_.linear_value_heads * dim)
      return wrong_shape(tensor);
    if (entry.source.read_codes && dim % entry.source.group != 0)
      return make_error(ErrorKind::unsupported, "{}: tensor \"{}\": groups of {} straddle heads of {}",
                        file_.path, shown(tensor.name), entry.source.group, dim);
    entry.source = select_column_blocks(std::move(entry.source), dim, value_head_order(config_, 1, 0));
    return entry;
  }

  const GgufConfig& config_;
  const FileBytes& file_;
};

}  // namespace

std::string hf_name(const GgufConfig& config, const std::string& gguf_name) {
  if (const auto name = lookup(kTop, gguf_name); !name.empty()) return std::string(name);
  if (gguf_name.starts_with("mtp.")) return mtp_name(config, gguf_name);
  const auto layer = split_layer(gguf_name);
  if (!layer) return gguf_name;
  const std::string_view part = layer->second;
  const bool mtp = layer->first >= config.layers;
  const std::string module = mtp ? "mtp.layers." + std::to_string(layer->first - config.layers) + "."
                                 : "model.layers." + std::to_string(layer->first) + ".";
  if (std::string name = mtp ? lookup_part(kMtp, part) : ""; !name.empty()) return name;
  for (const auto table : {arch_names(config.arch), std::span<const NamePair>(kCommon)})
    if (const std::string name = lookup_part(table, part); !name.empty()) return module + name;
  // Older files: "ffn_up.3.weight".
  const size_t first = part.find('.'), last = part.rfind('.');
  if (first == last) return gguf_name;
  const auto matrix = lookup(kCommon, part.substr(0, first));
  if (!matrix.starts_with("mlp.")) return gguf_name;
  return fmt::format("{}mlp.experts.{}.{}{}", module, part.substr(first + 1, last - first - 1),
                     matrix.substr(4), part.substr(last));
}

namespace {

// What a model's own file has of a tower for images; what is for sound, and towers that we do not have, are
// left out.
void add_inner_tower(const GgufParts& parts, const GgufConfig& config, StoreParts& out) {
  const auto count = std::ranges::count_if(
      parts.joined.tensors, [](const GgufTensor& tensor) { return is_tower_tensor(tensor.name); });
  if (count == 0) return;
  auto tower = read_inner_tower(parts, config);
  out.left_out = static_cast<size_t>(count);
  if (!tower.ok()) {
    log_info("{}: {} tensors for images or sound are left aside: {}", out.path, count, tower.error().message);
    return;
  }
  out.vision = std::make_shared<StoreParts>(std::move(*tower));
}

Result<StoreParts> translate(GgufParts parts) {
  if (string_at(parts.joined.metadata, "general.type") == "adapter")
    return make_error(
        ErrorKind::unsupported,
        "{} is an adapter (LoRA) and no model, and adapters are not supported: merge it into its "
        "model with llama.cpp's llama-export-lora",
        parts.files.front().path);
  TRY(GgufConfig config, read_gguf_config(parts.joined, parts.files.front().path));
  std::vector<Entry> entries;
  entries.reserve(parts.joined.tensors.size());
  for (const GgufTensor& tensor : parts.joined.tensors) {
    if (tensor.name == kRopeFactors || tensor.name == kClassifier || is_tower_tensor(tensor.name)) continue;
    const auto& all = parts.joined.tensors;
    if (matrix_of_scale(all, config, tensor.name)) continue;
    TRY(auto entry, Translator(config, parts.files[tensor.file]).translate(tensor));
    const auto* scale = tensor.name.ends_with(".weight")
                            ? find_tensor(all, tensor.name.substr(0, tensor.name.size() - 6) + "scale")
                            : nullptr;
    if (scale && matrix_of_scale(all, config, scale->name) == &tensor) {
      TRY(entry.source, with_factors(std::move(entry.source), tensor.shape.size() == 3 ? tensor.shape[0] : 1,
                                     *scale, parts.files[scale->file].path));
    }
    entries.push_back(std::move(entry));
  }
  StoreParts out{parts.files.front().path, "", Json(), Json(), stack_experts(std::move(entries))};
  add_inner_tower(parts, config, out);
  out.config = std::move(config.config);
  out.gguf_metadata = std::move(parts.joined.metadata);
  out.gguf_texts = std::move(parts.joined.texts);
  for (const FileBytes& file : parts.files)
    if (file.map) out.maps.push_back(file.map);
  return out;
}

}  // namespace

Result<StoreParts> read_gguf(std::vector<FileBytes> files) {
  TRY(auto parts, join_gguf(std::move(files)));
  return translate(std::move(parts));
}

Result<StoreParts> open_gguf(const std::string& path, Extent extent) {
  TRY(auto files, open_gguf_parts(path, extent));
  TRY(auto parts, translate(std::move(files)));
  const auto tower = parts.vision ? std::nullopt : find_mmproj(path);
  if (!tower) return parts;
  auto vision = open_mmproj(*tower);
  if (vision.ok())
    parts.vision = std::make_shared<StoreParts>(std::move(*vision));
  else
    log_warning("{}: pictures cannot be used: {}", path, vision.error().message);
  return parts;
}

}  // namespace anabranch
