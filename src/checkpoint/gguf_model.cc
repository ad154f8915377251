#include "checkpoint/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "checkpoint/dense.h"
#include "checkpoint/experts.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/gguf_vision.h"
#include "checkpoint/head_order.h"
#include "checkpoint/names.h"

namespace anabranch {

namespace {

// A tensor of rerankers: a copy of the head's rows for "yes" and "no".
constexpr std::string_view kClassifier = "cls.output.weight";

bool is_rope_factors(const std::string& name) {
  return name == kRopeFactors || name == kNearRopeFactors || name == kFarRopeFactors;
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

// GGUF's norms are stored as 1 + w. Ollama adds the 1 only if the name ends in "_norm.weight"; some norms of
// an MTP module have other names.
NormConvention norms_of(const std::string& name) {
  return name.starts_with("mtp.") && !name.ends_with("_norm.weight") ? NormConvention::offset
                                                                     : NormConvention::plain;
}

const GgufTensor* find_tensor(const std::vector<GgufTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &GgufTensor::name);
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

// A matrix of NVFP4 comes with "<module>.scale", a factor for the matrix or for each expert, and
// "<module>.input_scale" for activations. Returns the matrix to which a tensor with such a name belongs, or
// null.
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

// Applies the factor of an NVFP4 matrix, or the factors of its `parts` (experts).
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
    const auto layer = split_gguf_layer(tensor.name);
    if (!layer) return entry;
    const std::string_view part = layer->second;
    const bool turned = turns_rows(config_.arch);
    if (turned && (part.starts_with("attn_q.") || part.starts_with("attn_k.")))
      return undo_rotary(tensor, part.starts_with("attn_q.") ? config_.heads : config_.kv_heads,
                         std::move(entry));
    if (is_hybrid(config_.arch)) return undo_hybrid(tensor, part, std::move(entry));
    if (has_mamba(config_.arch)) return undo_mamba(tensor, part, std::move(entry));
    return entry;
  }

 private:
  Error wrong_shape(const GgufTensor& tensor) const {
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\": shape {} does not fit the metadata", file_.path,
                      shown(tensor.name), shape_text(tensor.shape));
  }

  // Reorders the rows of a matrix, or the elements of a vector.
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

  std::vector<int64_t> heads_in_order(int64_t width, int64_t before) const {
    return value_head_order(config_.linear_key_heads, config_.linear_value_heads, width, before);
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
    // Checked before the order is made, whose length comes from the metadata.
    if (fused || part == "attn_gate.weight") {
      if (tensor.shape[0] != (fused ? 2 * keys : 0) + values) return wrong_shape(tensor);
      return reorder(tensor, heads_in_order(dim, fused ? 2 * keys : 0), std::move(entry));
    }
    if (part == "ssm_beta.weight" || part == "ssm_alpha.weight" || part == "ssm_a" ||
        part.starts_with("ssm_dt")) {
      if (tensor.shape[0] != config_.linear_value_heads) return wrong_shape(tensor);
      return reorder(tensor, heads_in_order(1, 0), std::move(entry));
    }
    return entry;
  }

  // Vectors of Mamba2 are matrices in the file: of one column, or of a row for each group.
  Result<Entry> undo_mamba(const GgufTensor& tensor, std::string_view part, Entry entry) const {
    if (part != "ssm_a" && part != "ssm_d" && part != "ssm_norm.weight") return entry;
    const int64_t size = entry.source.rows * entry.source.cols;
    entry.info.shape = {size};
    entry.source = gguf_source(*tensor.type, tensor.data.data(), 1, size, file_.keep);
    return part == "ssm_a" ? undo_decay(tensor, std::move(entry)) : std::move(entry);
  }

  // ssm_a = -exp(A_log)
  Result<Entry> undo_decay(const GgufTensor& tensor, Entry entry) const {
    const int64_t heads = config_.linear_value_heads;
    if (entry.info.shape != std::vector<int64_t>{heads} || !entry.source.read_dense)
      return wrong_shape(tensor);
    std::vector<float> values(static_cast<size_t>(heads), -1.0f);
    if (file_.extent == Extent::whole) entry.source.read_dense(0, 1, values.data());
    for (float v : values)
      if (!(v < 0) || !std::isfinite(v))
        return make_error(ErrorKind::invalid, "{}: tensor \"{}\": a decay of {} is not below zero",
                          file_.path, shown(tensor.name), v);
    entry.source.kind = WeightKind::f32;
    entry.info.type = "F32";
    entry.source.read_dense = [read = entry.source.read_dense, heads](int64_t first, int64_t count,
                                                                      float* out) {
      read(first, count, out);
      for (int64_t i = 0; i < count * heads; i++) out[i] = std::log(-out[i]);
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
    entry.source = select_column_blocks(std::move(entry.source), dim, heads_in_order(1, 0));
    return entry;
  }

  const GgufConfig& config_;
  const FileBytes& file_;
};

// A tensor that cannot be read. The model can do without it only if it is for prediction.
Result<Entry> unread_entry(const GgufConfig& config, const UnreadGgufTensor& tensor,
                           const std::string& path) {
  std::string name = hf_name(config, tensor.name);
  if (!is_mtp_name(name)) return tensor.why;
  return Entry{{std::move(name), "unknown", tensor.shape, 0, path, NormConvention::plain}, {}, tensor.why};
}

// Adds the vision tower in a model's own file. Leaves out towers that we do not support, and tensors for
// sound.
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
        "{} is an adapter (LoRA) and no model: give it with --lora to its model, or merge it into that with "
        "llama.cpp's llama-export-lora",
        parts.files.front().path);
  std::erase_if(parts.joined.unread, [](const UnreadGgufTensor& tensor) {
    return tensor.name == kClassifier || is_tower_tensor(tensor.name);
  });
  auto read = read_gguf_config(parts.joined, parts.files.front().path);
  // The config needs the sizes of some tensors.
  if (!read.ok() && !parts.joined.unread.empty()) return parts.joined.unread.front().why;
  TRY(GgufConfig config, std::move(read));
  std::vector<Entry> entries;
  entries.reserve(parts.joined.tensors.size());
  for (const UnreadGgufTensor& tensor : parts.joined.unread) {
    TRY(auto entry, unread_entry(config, tensor, parts.files.front().path));
    entries.push_back(std::move(entry));
  }
  for (const GgufTensor& tensor : parts.joined.tensors) {
    if (is_rope_factors(tensor.name) || tensor.name == kClassifier || is_tower_tensor(tensor.name)) continue;
    const auto& all = parts.joined.tensors;
    if (matrix_of_scale(all, config, tensor.name)) continue;
    const FileBytes& file = parts.files[tensor.file];
    auto translated = Translator(config, file).translate(tensor);
    if (!translated.ok())
      translated = unread_entry(config, {tensor.name, tensor.shape, translated.error()}, file.path);
    TRY(Entry entry, std::move(translated));
    const auto* scale = tensor.name.ends_with(".weight")
                            ? find_tensor(all, tensor.name.substr(0, tensor.name.size() - 6) + "scale")
                            : nullptr;
    if (scale && !entry.unreadable && matrix_of_scale(all, config, scale->name) == &tensor) {
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
