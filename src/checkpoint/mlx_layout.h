// Names, shapes and descriptions of a family's tensors in an MLX directory (mlx-lm 0.32.2).
#pragma once

#include "checkpoint/output_layout.h"

namespace anabranch {

class MlxLayout : public OutputLayout {
 public:
  static Result<std::unique_ptr<OutputLayout>> make(const Json& config, const std::string& path,
                                                    TargetKind dense);

  Result<std::string> name(const std::string& hf_name) const override;
  std::vector<int64_t> shape(std::string_view hf_name, const std::vector<int64_t>& shape) const override;
  // MLX's files of hybrid models store 1 + w, those of Gemma 2 and 3 store w.
  int norm_shift(std::string_view hf_name, NormConvention norms) const override;
  bool stays_f32(std::string_view hf_name) const override;
  Target default_target(std::string_view module, const std::optional<Target>& fallback) const override;
  Result<void> check(const Target& target) const override;
  Json config(const std::map<std::string, Target>& matrices) const override;
  const char* norm_format() const override { return "mlx"; }

 private:
  Json config_;
  std::string path_;
  std::string family_;
  bool hybrid_ = false;  // Qwen3.5 and Qwen3-Next: convolutions, shifted norms
  bool nested_ = false;  // under language_model
  TargetKind dense_ = TargetKind::bf16;
};

}  // namespace anabranch
