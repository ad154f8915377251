#include "checkpoint/adapter_file.h"

#include <xxhash.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "checkpoint/adapter_parts.h"
#include "checkpoint/dense.h"
#include "tensor/device.h"

namespace anabranch {

namespace {

namespace fs = std::filesystem;

// The two matrices of a module.
struct AdapterHalves {
  const AdapterMatrix* down = nullptr;
  const AdapterMatrix* up = nullptr;
};

template <class... Args>
Error matrix_error(ErrorKind kind, const AdapterParts& parts, const AdapterMatrix& matrix,
                   fmt::format_string<Args...> format, Args&&... args) {
  return make_error(kind, "{}: tensor \"{}\": {}", parts.path, shown(matrix.name),
                    fmt::format(format, std::forward<Args>(args)...));
}

bool rank_is_first(const AdapterMatrix& matrix) {
  return matrix.up == matrix.transposed;
}
int64_t rank_of(const AdapterMatrix& matrix) {
  return matrix.shape[rank_is_first(matrix) ? 0 : 1];
}
int64_t width_of(const AdapterMatrix& matrix) {  // `in` or `out`
  return matrix.shape[rank_is_first(matrix) ? 1 : 0];
}

Result<void> check_matrix(const AdapterParts& parts, const AdapterMatrix& matrix) {
  if (!matrix.kind)
    return matrix_error(ErrorKind::unsupported, parts, matrix,
                        "type {} cannot be read in an adapter: convert it to F32, F16 or BF16",
                        shown(matrix.type));
  if (matrix.shape.size() != 2)
    return matrix_error(ErrorKind::unsupported, parts, matrix, "shape {} is not that of a matrix; {}",
                        shape_text(matrix.shape), kMergeAdapter);
  const int64_t rank = rank_of(matrix);
  if (rank < 1 || rank > kMaxAdapterRank || width_of(matrix) < 1)
    return matrix_error(ErrorKind::invalid, parts, matrix, "shape {} has rank {}; ranks are 1 to {}",
                        shape_text(matrix.shape), rank, kMaxAdapterRank);
  if (matrix.rank != 0 && matrix.rank != rank)
    return matrix_error(
        ErrorKind::invalid, parts, matrix,
        "shape {} has rank {}, but adapter_config.json states {}: they are not of one adapter",
        shape_text(matrix.shape), rank, matrix.rank);
  return {};
}

double scale_of(AdapterScale kind, const AdapterMatrix& matrix) {
  const auto rank = static_cast<double>(rank_of(matrix));
  if (kind == AdapterScale::alpha) return matrix.alpha;
  return matrix.alpha / (kind == AdapterScale::alpha_over_rank ? rank : std::sqrt(rank));
}

// The values times `scale`, [rank, in] or [out, rank]. Entry i of the file's `in` or `out` goes to order[i];
// an empty order changes nothing.
Result<Tensor> load_matrix(const AdapterParts& parts, const AdapterMatrix& matrix, double scale,
                           const std::vector<int64_t>& order) {
  const int64_t rank = rank_of(matrix), width = width_of(matrix);
  std::vector<float> values(static_cast<size_t>(rank * width));
  dense_to_float(*matrix.kind, matrix.data.data(), rank * width, values.data());
  const int r = static_cast<int>(rank), w = static_cast<int>(width);
  Tensor out = host_device().empty(matrix.up ? Shape{w, r} : Shape{r, w}, Dtype::f32);
  float* to = out.data<float>();
  for (int64_t k = 0; k < rank; k++)
    for (int64_t i = 0; i < width; i++) {
      const float value = values[static_cast<size_t>(rank_is_first(matrix) ? k * width + i : i * rank + k)];
      const auto scaled = static_cast<float>(value * scale);
      if (!std::isfinite(scaled))
        return matrix_error(ErrorKind::invalid, parts, matrix,
                            "the value {}, times the scale {}, is not finite", value, scale);
      const int64_t at = order.empty() ? i : order[static_cast<size_t>(i)];
      to[matrix.up ? at * rank + k : k * width + at] = scaled;
    }
  return out;
}

Result<LowRankMatrices> load_halves(const AdapterParts& parts, const AdapterHalves& halves) {
  const AdapterMatrix &down = *halves.down, &up = *halves.up;
  TRY_VOID(check_matrix(parts, up));  // first: MLX stacks only this one for experts
  TRY_VOID(check_matrix(parts, down));
  if (rank_of(down) != rank_of(up))
    return matrix_error(ErrorKind::invalid, parts, up, "its rank is {}, but {} in \"{}\"", rank_of(up),
                        rank_of(down), shown(down.name));
  GgufChange change;
  if (parts.gguf) {
    const TensorInfo weight{
        up.module + ".weight", up.type, {width_of(up), width_of(down)}, up.data.size(), parts.path};
    TRY(change, gguf_change(*parts.gguf, weight));
  }
  LowRankMatrices out;
  TRY(out.down, load_matrix(parts, down, 1, change.columns));
  TRY(out.up, load_matrix(parts, up, scale_of(parts.scale, up), change.rows));
  return out;
}

Result<std::map<std::string, AdapterHalves>> pair_matrices(const AdapterParts& parts) {
  std::map<std::string, AdapterHalves> out;
  for (const AdapterMatrix& matrix : parts.matrices) {
    AdapterHalves& halves = out[matrix.module];
    const AdapterMatrix*& half = matrix.up ? halves.up : halves.down;
    if (half)
      return matrix_error(ErrorKind::invalid, parts, matrix, "\"{}\" is the same matrix of module \"{}\"",
                          shown(half->name), shown(matrix.module));
    half = &matrix;
  }
  for (const auto& [module, halves] : out) {
    if (halves.down && halves.up) continue;
    return matrix_error(ErrorKind::invalid, parts, halves.down ? *halves.down : *halves.up,
                        "the file lacks the other matrix, {}, of module \"{}\": copy the adapter again",
                        halves.down ? "lora_B" : "lora_A", shown(module));
  }
  return out;
}

std::string digest_of(const std::map<std::string, LowRankMatrices>& modules) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const auto& [name, matrices] : modules) {
    const std::string head =
        fmt::format("{} {} {} {}\n", name.size(), name, matrices.down.shape(), matrices.up.shape());
    XXH3_128bits_update(state.get(), head.data(), head.size());
    for (const Tensor* each : {&matrices.down, &matrices.up})
      XXH3_128bits_update(state.get(), each->data<float>(), each->nbytes());
  }
  const auto hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Result<AdapterParts> read_directory(const std::string& path) {
  std::error_code code;
  const auto has = [&](const char* name) { return fs::exists(fs::path(path) / name, code); };
  const bool peft = has(kPeftTensors), mlx = has(kMlxTensors);
  if (peft && mlx)
    return make_error(ErrorKind::invalid, "{} holds two adapters, {} and {}: keep one of them", path,
                      kPeftTensors, kMlxTensors);
  if (peft) return read_peft_adapter(path);
  if (mlx) return read_mlx_adapter(path);
  if (has("adapter_model.bin"))
    return make_error(
        ErrorKind::unsupported,
        "{} holds adapter_model.bin, a pickle, which is not read because it can run programs: save "
        "the adapter as {} (PEFT: save_pretrained(DIR, safe_serialization=True))",
        path, kPeftTensors);
  return make_error(
      ErrorKind::not_found,
      "{} holds no adapter: neither {} (PEFT) nor {} (MLX). Give a .gguf adapter by its file's name", path,
      kPeftTensors, kMlxTensors);
}

Result<AdapterParts> read_parts(const std::string& path, const Json& base_config) {
  std::error_code code;
  if (!fs::exists(path, code))
    return make_error(ErrorKind::not_found, "there is no adapter at {}: neither a directory nor a file",
                      path);
  if (fs::is_directory(path, code)) return read_directory(path);
  if (fs::path(path).extension() == ".gguf") return read_gguf_adapter(path, base_config);
  return make_error(ErrorKind::unsupported,
                    "{} is neither a directory nor a .gguf file: give the directory that holds "
                    "adapter_config.json, or a .gguf adapter",
                    path);
}

}  // namespace

std::optional<bool> strip_lora_half(std::string_view& name) {
  const bool down = name.ends_with(".lora_a"), up = name.ends_with(".lora_b");
  if (!down && !up) return std::nullopt;
  name.remove_suffix(std::string_view(".lora_a").size());
  return up;
}

Error foreign_tensors(const std::string& path, const std::vector<std::string>& names) {
  const std::string_view first = names.front();
  const auto has = [&](std::string_view part) { return first.find(part) != first.npos; };
  const char* what = "not a matrix of LoRA";
  if (has("lora_magnitude_vector") || first.ends_with(".m"))
    what = "a magnitude of DoRA";
  else if (first.ends_with(".bias"))
    what = "a bias";
  else if (has("trainable_tokens"))
    what = "rows of an embedding (trainable_token_indices)";
  else if (first.ends_with(".weight"))
    what = "a whole weight (modules_to_save)";
  return make_error(
      ErrorKind::unsupported,
      "{}: tensor \"{}\" is {}, which cannot be applied ({} of the file's tensors are not lora_A or "
      "lora_B): {}",
      path, shown(first), what, names.size(), kMergeAdapter);
}

Result<AdapterFile> read_adapter(const std::string& path, const Json& base_config) {
  auto read = read_parts(path, base_config);
  if (!read) {
    Error error = read.error();
    if (error.kind == ErrorKind::exhausted) error.kind = ErrorKind::invalid;  // no memory is short yet
    return error;
  }
  const AdapterParts parts = std::move(*read);
  if (parts.matrices.size() > kMaxAdapterTensors)
    return make_error(ErrorKind::invalid, "{} has {} tensors; at most {} are read", parts.path,
                      parts.matrices.size(), kMaxAdapterTensors);
  if (parts.matrices.empty())
    return make_error(ErrorKind::invalid, "{} changes no module: it has no tensors", parts.path);
  uint64_t bytes = 0;  // of whatever shapes; load_halves() checks them
  for (const AdapterMatrix& matrix : parts.matrices) {
    uint64_t values = 1;
    for (const int64_t size : matrix.shape) values *= std::clamp<int64_t>(size, 1, kMaxAdapterBytes / values);
    bytes += values * sizeof(float);
    if (bytes > kMaxAdapterBytes)
      return make_error(ErrorKind::invalid, "{} has more than the {} GiB of matrices that are read",
                        parts.path, kMaxAdapterBytes >> 30);
  }
  TRY(const auto pairs, pair_matrices(parts));
  AdapterFile out{path, {}, {}, 0, parts.base};
  for (const auto& [module, halves] : pairs) {
    TRY(auto matrices, load_halves(parts, halves));
    out.bytes += matrices.down.nbytes() + matrices.up.nbytes();
    out.modules.emplace(module, std::move(matrices));
  }
  out.digest = digest_of(out.modules);
  return out;
}

}  // namespace anabranch
