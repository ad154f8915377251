// config.json and recipes: the quantisation, the model's shape, what the converter writes back.
#include <cstdlib>
#include <string>

#include "checkpoint/convert.h"
#include "checkpoint/output_layout.h"
#include "checkpoint/quantization.h"
#include "models/family_config.h"

using namespace anabranch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ConvertOptions options;
  (void)parse_recipe(text, "recipe.json", options);
  (void)parse_target(text);
  const auto config = parse_json(text);
  if (!config.ok() || !config->is_object()) return 0;
  (void)parse_quantization(*config, "config.json");
  for (const auto read : {read_llama_config, read_qwen3_5_config, read_gemma_config})
    (void)read(*config, "config.json");
  for (const ConvertFormat format : {ConvertFormat::mlx, ConvertFormat::fp8}) {
    options.format = format;
    const auto layout = make_layout(options, *config, "model");
    if (!layout.ok()) continue;
    const Target four{TargetKind::affine, {4, 64}}, six{TargetKind::affine, {6, 32}},
        fp8{TargetKind::fp8, {}};
    if ((*layout)->config({{"a", four}, {"b", six}, {"c", four}, {"d", fp8}}).dump().empty()) std::abort();
  }
  return 0;
}
