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

namespace {

// The text model of Qwen3-VL alone, as GGUF files have it, is written as Qwen3: without images they are the
// same.
Json without_images(Json config) {
  const std::string type = string_at(config, "model_type");
  const bool moe = type == "qwen3_vl_moe_text";
  if (type != "qwen3_vl_text" && !moe) return config;
  config["model_type"] = moe ? "qwen3_moe" : "qwen3";
  config["architectures"] = Json::array({moe ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM"});
  if (const auto rope = config.find("rope_scaling"); rope != config.end()) {
    for (const char* key : {"mrope_section", "mrope_interleaved"}) rope->erase(key);
    if (*rope == Json{{"rope_type", "default"}}) config.erase(rope);
  }
  return config;
}

}  // namespace

Result<std::unique_ptr<OutputLayout>> make_layout(const ConvertOptions& options, const Json& config,
                                                  const std::string& path) {
  const Json written = without_images(config);
  if (options.format == ConvertFormat::fp8) return Fp8Layout::make(written, path);
  return MlxLayout::make(written, path, options.dense);
}

}  // namespace anabranch
