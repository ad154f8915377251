// How an MLX directory (mlx-lm 0.32.2) names, shapes and describes the tensors of a family.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"

namespace anabranch {

// Whether a model of a family that applies 1 + w does so for this norm.
bool is_shifted_norm(std::string_view hf_name);

class MlxLayout {
 public:
  // Errors: unsupported (a family whose layout we do not know).
  static Result<MlxLayout> make(const Json& config, const std::string& path, TargetKind dense);

  // Of a Hugging Face name. Errors: unsupported (not a tensor of this family).
  Result<std::string> name(const std::string& hf_name) const;
  std::vector<int64_t> shape(std::string_view hf_name, const std::vector<int64_t>& shape) const;
  // What to add to a norm's values, which come as `norms` says: MLX's files of hybrids have 1 + w, those of
  // Gemma 2 and 3 w.
  int norm_shift(std::string_view hf_name, NormConvention norms) const;
  bool stays_f32(std::string_view hf_name) const;
  // config.json; formats by module name in the directory.
  Json config(const std::map<std::string, AffineFormat>& formats) const;

 private:
  Json config_;
  std::string path_;
  std::string family_;
  bool hybrid_ = false;  // Qwen3.5 and Qwen3-Next: convolutions, shifted norms
  bool nested_ = false;  // under language_model
  TargetKind dense_ = TargetKind::bf16;
};

}  // namespace anabranch
