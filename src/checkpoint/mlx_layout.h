// How an MLX directory (mlx-lm 0.32.2) names, shapes and describes the tensors of a family.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/convert.h"

namespace anabranch {

// Whether a hybrid's model applies this norm as 1 + w in Hugging Face's files and as w in MLX's.
bool is_shifted_norm(std::string_view hf_name);

class MlxLayout {
 public:
  // Errors: unsupported (a family whose layout we do not know).
  static Result<MlxLayout> make(const Json& config, const std::string& path, TargetKind dense);

  // Of a Hugging Face name. Errors: unsupported (not a tensor of this family).
  Result<std::string> name(const std::string& hf_name) const;
  std::vector<int64_t> shape(std::string_view hf_name, const std::vector<int64_t>& shape) const;
  bool shifts(std::string_view hf_name) const { return hybrid_ && is_shifted_norm(hf_name); }
  bool stays_f32(std::string_view hf_name) const;
  // config.json; formats by module name in the directory.
  Json config(const std::map<std::string, AffineFormat>& formats) const;

 private:
  Json config_;
  std::string path_;
  bool hybrid_ = false;   // Qwen3.5 and Qwen3-Next: shifted norms, convolutions
  bool nested_ = false;   // Qwen3.5: under language_model
  bool mixtral_ = false;  // experts under block_sparse_moe
  TargetKind dense_ = TargetKind::bf16;
};

}  // namespace anabranch
