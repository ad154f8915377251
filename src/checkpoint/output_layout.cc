#include "checkpoint/output_layout.h"

#include "checkpoint/fp8_layout.h"
#include "checkpoint/mlx_layout.h"

namespace anabranch {

bool is_shifted_norm(std::string_view hf_name) {
  return (hf_name.ends_with("norm.weight") || hf_name.find(".pre_fc_norm_") != std::string_view::npos) &&
         hf_name.find(".linear_attn.") == std::string_view::npos;
}

bool is_router(std::string_view module) {
  return module.ends_with(".mlp.gate") || module.ends_with(".shared_expert_gate");
}

Result<std::unique_ptr<OutputLayout>> make_layout(const ConvertOptions& options, const Json& config,
                                                  const std::string& path) {
  if (options.format == ConvertFormat::fp8) return Fp8Layout::make(config, path);
  return MlxLayout::make(config, path, options.dense);
}

}  // namespace anabranch
