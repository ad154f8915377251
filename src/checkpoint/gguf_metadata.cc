#include "checkpoint/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // of any count or length

// Names that other programs use for the same value. The first one in a file counts.
struct Alias {
  std::string_view key, other;
};
constexpr Alias kAliases[] = {
    // Ollama
    {"rope.freq_base", "rope.global.freq_base"},
    {"rope.freq_base_swa", "rope.local.freq_base"},
    {"rope.dimension_sections", "rope.mrope_section"},
    {"rope.dimension_sections", "mrope_sections"},
    {"rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast"},
    {"rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow"},
    {"rope.scaling.yarn_log_multiplier", "rope.scaling.mscale_all_dim"},
    {"rope.scaling.yarn_ext_factor", "rope.scaling.extrapolation_factor"},
    {"attention.temperature_scale", "rope.scaling_beta"},
    {"expert_weights_norm", "norm_top_k_prob"},
    // older files of llama.cpp
    {"rope.scaling.factor", "rope.scale_linear"},
};

}  // namespace

Error GgufMetadata::error(ErrorKind kind, const char* key, const char* what) const {
  return make_error(kind, "{}: metadata \"{}{}\" {}", path_, prefix_, key, what);
}

const Json* GgufMetadata::find(std::string_view key) const {
  if (const Json* own = find_whole(prefix_ + std::string(key))) return own;
  for (const Alias& alias : kAliases)
    if (alias.key == key)
      if (const Json* found = find_whole(prefix_ + std::string(alias.other))) return found;
  return nullptr;
}

const Json* GgufMetadata::find_whole(const std::string& key) const {
  const auto at = file_.metadata.find(key);
  return at == file_.metadata.end() ? nullptr : &*at;
}

Result<int64_t> GgufMetadata::integer_of(const char* key, const Json& value, int64_t least) const {
  if (!value.is_number_integer() || value < least || value > kMost)
    return error(ErrorKind::invalid, key, "is not a sensible number");
  return value.get<int64_t>();
}

Result<int64_t> GgufMetadata::integer(const char* key, int64_t least, std::optional<int64_t> fallback) const {
  const Json* value = find(key);
  if (!value && fallback) return *fallback;
  if (!value) return error(ErrorKind::invalid, key, "is missing");
  if (!value->is_array()) return integer_of(key, *value, least);
  if (value->empty()) return error(ErrorKind::invalid, key, "is an empty list");
  if (std::ranges::any_of(*value, [&](const Json& v) { return v != value->front(); }))
    return error(ErrorKind::unsupported, key, "differs from layer to layer");
  return integer_of(key, value->front(), least);
}

Result<std::vector<int64_t>> GgufMetadata::integers(const char* key, int64_t layers, int64_t least,
                                                    std::optional<int64_t> fallback) const {
  const Json* value = find(key);
  if (!value || !value->is_array()) {
    TRY(const int64_t all, integer(key, least, fallback));
    return std::vector<int64_t>(layers, all);
  }
  if (static_cast<int64_t>(value->size()) != layers)
    return error(ErrorKind::invalid, key, "does not have one entry for each layer");
  std::vector<int64_t> out;
  for (const Json& entry : *value) {
    TRY(const int64_t number, integer_of(key, entry, least));
    out.push_back(number);
  }
  return out;
}

Result<bool> GgufMetadata::flag(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) return error(ErrorKind::invalid, key, "is neither true nor false");
  return value->get<bool>();
}

Result<std::vector<bool>> GgufMetadata::flags(const char* key, int64_t layers) const {
  const Json* value = find(key);
  if (!value || !value->is_array()) return std::vector<bool>();
  if (static_cast<int64_t>(value->size()) != layers)
    return error(ErrorKind::invalid, key, "does not have one entry for each layer");
  std::vector<bool> out;
  for (const Json& entry : *value) {
    if (!entry.is_boolean()) return error(ErrorKind::invalid, key, "is not a list of true and false");
    out.push_back(entry.get<bool>());
  }
  return out;
}

Result<double> GgufMetadata::real(const char* key, double fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_number() || !(value->get<double>() > 0) || !(value->get<double>() < 1e30))
    return error(ErrorKind::invalid, key, "is not a positive number");
  return value->get<double>();
}

bool GgufMetadata::has_tensor_of(std::string_view prefix) const {
  const auto at = std::ranges::lower_bound(file_.tensors, prefix, {}, &GgufTensor::name);
  return at != file_.tensors.end() && at->name.starts_with(prefix);
}

const GgufTensor* GgufMetadata::tensor(std::string_view name) const {
  const auto at = std::ranges::lower_bound(file_.tensors, name, {}, &GgufTensor::name);
  return at != file_.tensors.end() && at->name == name ? &*at : nullptr;
}

Result<std::vector<float>> GgufMetadata::positive_vector(std::string_view name, int64_t count) const {
  const GgufTensor* found = tensor(name);
  if (!found || is_coded(found->type->kind) || found->shape != std::vector<int64_t>{count})
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is missing or no vector of {} numbers", path_,
                      name, count);
  std::vector<float> out(count, 1.0f);
  if (file_.extent != Extent::whole) return out;
  dense_to_float(found->type->kind, found->data.data(), count, out.data());
  if (!std::ranges::all_of(out, [](float v) { return v > 0 && std::isfinite(v); }))
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\" has a value that is not above zero", path_,
                      name);
  return out;
}

}  // namespace anabranch
