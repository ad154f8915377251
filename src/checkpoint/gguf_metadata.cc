#include "checkpoint/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // of any count or length

}  // namespace

Error GgufMetadata::error(ErrorKind kind, const char* key, const char* what) const {
  return make_error(kind, "{}: metadata \"{}{}\" {}", path_, prefix_, key, what);
}

const Json* GgufMetadata::find(std::string_view key) const {
  const auto at = file_.metadata.find(prefix_ + std::string(key));
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

const GgufTensor* GgufMetadata::tensor(std::string_view name) const {
  const auto at = std::ranges::lower_bound(file_.tensors, name, {}, &GgufTensor::name);
  return at != file_.tensors.end() && at->name == name ? &*at : nullptr;
}

Result<std::vector<float>> GgufMetadata::positive_vector(std::string_view name, int64_t count) const {
  const GgufTensor* found = tensor(name);
  if (!found || is_coded(found->type->kind) || found->shape != std::vector<int64_t>{count})
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is missing or no vector of {} numbers", path_,
                      name, count);
  std::vector<float> out(count);
  dense_to_float(found->type->kind, found->data.data(), count, out.data());
  if (!std::ranges::all_of(out, [](float v) { return v > 0 && std::isfinite(v); }))
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\" has a value that is not above zero", path_,
                      name);
  return out;
}

}  // namespace anabranch
