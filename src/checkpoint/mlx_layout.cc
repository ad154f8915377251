#include "checkpoint/mlx_layout.h"

#include <algorithm>

#include "checkpoint/file_bytes.h"
#include "checkpoint/names.h"

namespace anabranch {

namespace {

Json format_json(const AffineFormat& format) {
  return Json{{"group_size", format.group}, {"bits", format.bits}, {"mode", "affine"}};
}

// The families besides Qwen3.5 and Qwen3-Next, whose layout differs.
constexpr std::string_view kPlainFamilies[] = {"llama",
                                               "mistral",
                                               "ministral",
                                               "ministral3",
                                               "mistral3",
                                               "mixtral",
                                               "qwen2",
                                               "qwen2_moe",
                                               "qwen3",
                                               "qwen3_moe",
                                               "qwen3_vl",
                                               "qwen3_vl_moe",
                                               "seed_oss",
                                               "smollm3",
                                               "phi3",
                                               "olmo2",
                                               "olmo3",
                                               "granite",
                                               "ernie4_5",
                                               "exaone4",
                                               "hunyuan_v1_dense",
                                               "cohere",
                                               "cohere2",
                                               "helium",
                                               "iquestcoder",
                                               "exaone4_5",
                                               "glm",
                                               "glm4",
                                               "starcoder2",
                                               "stablelm",
                                               "gpt_oss",
                                               "gemma2",
                                               "gemma3",
                                               "gemma3_text",
                                               "gemma4",
                                               "gemma4_text",
                                               "gemma4_unified",
                                               "gemma4_unified_text",
                                               "gemma",
                                               "vaultgemma",
                                               "arcee",
                                               "cwm",
                                               "olmo",
                                               "hyperclovax",
                                               "jais2",
                                               "nemotron",
                                               "phi",
                                               "gpt_neox"};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Result<std::unique_ptr<OutputLayout>> MlxLayout::make(const Json& config, const std::string& path,
                                                      TargetKind dense) {
  auto made = std::make_unique<MlxLayout>();
  MlxLayout& layout = *made;
  layout.config_ = config;
  layout.path_ = path;
  layout.dense_ = dense;
  const std::string family = string_at(config, "model_type");
  layout.family_ = family;
  const bool qwen35 = is_one_of(family, {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"});
  layout.hybrid_ = qwen35 || family == "qwen3_next";
  layout.nested_ = qwen35 || config.contains("text_config");
  if (!layout.hybrid_ && std::ranges::find(kPlainFamilies, family) == std::end(kPlainFamilies))
    return make_error(
        ErrorKind::unsupported,
        "{}: models of type \"{}\" cannot be converted; qwen3_5, qwen3_5_moe, qwen3_next, {} can", path,
        shown(family), fmt::join(kPlainFamilies, ", "));
  if (const auto text = config.find("text_config"); text != config.end() && !text->is_object())
    return make_error(ErrorKind::invalid, "{}: \"text_config\" is not an object", path);
  return std::unique_ptr<OutputLayout>(std::move(made));
}

Result<std::string> MlxLayout::name(const std::string& hf_name) const {
  const bool printable = std::ranges::all_of(hf_name, [](char c) { return c > 0x20 && c < 0x7f; });
  const bool mtp = hybrid_ && hf_name.starts_with("mtp.");
  if (!printable || (!hf_name.starts_with("model.") && !hf_name.starts_with("lm_head.") && !mtp))
    return make_error(ErrorKind::unsupported,
                      "{}: tensor \"{}\" has no place in an MLX directory; convert from the original weights",
                      path_, shown(hf_name));
  std::string name = hf_name;
  const auto rename = [&](std::string_view from, std::string_view to) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  if (family_ == "mixtral") rename(".mlp.", ".block_sparse_moe.");
  if (family_ == "gpt_oss") rename(".mlp.switch_mlp.", ".mlp.experts."), rename(".mlp.gate.", ".mlp.router.");
  if (family_.starts_with("gemma4")) rename(".mlp.switch_mlp.", ".experts.switch_glu.");
  return nested_ && !mtp ? "language_model." + name : name;
}

int MlxLayout::norm_shift(std::string_view hf_name, NormConvention norms) const {
  if (!is_shifted_norm(hf_name)) return 0;
  if (hybrid_) return norms == NormConvention::offset ? 1 : 0;
  const bool offset = keeps_offset_norms(family_) && !family_.starts_with("gemma4");
  return offset && norms == NormConvention::plain ? -1 : 0;
}

std::vector<int64_t> MlxLayout::shape(std::string_view hf_name, const std::vector<int64_t>& shape) const {
  if (!hybrid_ || !hf_name.ends_with(".conv1d.weight")) return shape;
  if (shape.size() == 3 && shape[1] == 1) return {shape[0], shape[2], 1};  // Hugging Face's [C, 1, k]
  if (shape.size() == 2) return {shape[0], shape[1], 1};                   // GGUF's [C, k]
  return shape;
}

bool MlxLayout::stays_f32(std::string_view hf_name) const {
  return hybrid_ && hf_name.ends_with(".A_log");
}

// Routers decide which experts run, and are small: they get 8 bits, as mlx-lm gives them.
Target MlxLayout::default_target(std::string_view module, const std::optional<Target>& fallback) const {
  if (module.starts_with("mtp.")) return Target{dense_, {}};
  const Target target = fallback.value_or(Target{});
  if (target.kind == TargetKind::affine && is_router(module)) return Target{TargetKind::affine, {8, 64}};
  return target;
}

Result<void> MlxLayout::check(const Target& target) const {
  if (target.kind != TargetKind::fp8) return {};
  return make_error(ErrorKind::invalid, "{}: the recipe asks for FP8, which is written with --format fp8",
                    path_);
}

Json MlxLayout::config(const std::map<std::string, Target>& matrices) const {
  std::map<std::string, AffineFormat> formats;
  for (const auto& [module, target] : matrices)
    if (target.kind == TargetKind::affine) formats[module] = target.format;
  Json out = config_;
  if (hybrid_ && nested_ && !out.contains("text_config")) {
    Json text = std::move(out);
    const bool moe = string_at(text, "model_type").starts_with("qwen3_5_moe");
    text["model_type"] = moe ? "qwen3_5_moe_text" : "qwen3_5_text";
    const char* architecture = moe ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration";
    out = Json{{"architectures", {architecture}}, {"model_type", moe ? "qwen3_5_moe" : "qwen3_5"}};
    for (const char* key : {"eos_token_id", "tie_word_embeddings"})
      if (text.contains(key)) out[key] = text[key];
    out["text_config"] = std::move(text);
  }
  for (const char* key : {"vision_config", "audio_config"}) out.erase(key);  // their weights are not here
  const char* dtype = dense_ == TargetKind::f16 ? "float16" : "bfloat16";
  const auto clean = [&](Json& part) {
    part.erase("quantization");
    part.erase("quantization_config");
    part.erase("torch_dtype");
    part["dtype"] = dtype;
  };
  clean(out);
  if (nested_) clean(out["text_config"]);
  if (formats.empty()) return out;

  std::map<std::pair<int, int>, int> uses;
  for (const auto& [module, format] : formats) uses[{format.bits, format.group}]++;
  const auto most = std::ranges::max_element(uses, {}, [](const auto& use) { return use.second; })->first;
  const AffineFormat defaults{most.first, most.second};
  Json quantization = format_json(defaults);
  for (const auto& [module, format] : formats)
    if (format != defaults) quantization[module] = format_json(format);
  out["quantization"] = quantization;
  out["quantization_config"] = std::move(quantization);  // mlx-lm writes both
  return out;
}

}  // namespace anabranch
