// The official FP8 layout of Qwen3 and later ("quant_method": "fp8"): Hugging Face's names and norms,
// matrices of layers as E4M3 codes with a scale for each block of 128 x 128 (fp8_writer.h), everything else
// in bf16. Only the text model is written, under its own model type.
#pragma once

#include "checkpoint/output_layout.h"

namespace anabranch {

class Fp8Layout : public OutputLayout {
 public:
  static Result<std::unique_ptr<OutputLayout>> make(const Json& config, const std::string& path);

  Result<std::string> name(const std::string& hf_name) const override;
  std::vector<int64_t> shape(std::string_view hf_name, const std::vector<int64_t>& shape) const override;
  int norm_shift(std::string_view hf_name, NormConvention norms) const override;
  bool stays_f32(std::string_view hf_name) const override;
  Target default_target(std::string_view module, const std::optional<Target>& fallback) const override;
  Result<void> check(const Target& target) const override;
  Json config(const std::map<std::string, Target>& matrices) const override;
  const char* norm_format() const override { return "pt"; }

 private:
  struct Family;
  static const Family kFamilies[];

  Json config_;  // of the text model
  std::string path_;
  const Family* family_ = nullptr;
};

}  // namespace anabranch
