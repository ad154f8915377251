#include "checkpoint/fp8_layout.h"

#include <algorithm>

#include "checkpoint/file_bytes.h"
#include "checkpoint/fp8_writer.h"

namespace anabranch {

struct Fp8Layout::Family {
  std::string_view type, text_type;  // as config.json has it; of the text model
  const char* architecture;
  bool hybrid;         // convolutions, and recurrent projections of a few rows
  bool shifted_norms;  // the model applies 1 + w
};

constexpr Fp8Layout::Family Fp8Layout::kFamilies[] = {
    {"llama", "llama", "LlamaForCausalLM", false, false},
    {"mistral", "mistral", "MistralForCausalLM", false, false},
    {"ministral", "ministral", "MinistralForCausalLM", false, false},
    {"ministral3", "ministral3", "Ministral3ForCausalLM", false, false},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, false},
    {"qwen3_moe", "qwen3_moe", "Qwen3MoeForCausalLM", false, false},
    {"qwen3_next", "qwen3_next", "Qwen3NextForCausalLM", true, true},
    {"qwen3_5", "qwen3_5_text", "Qwen3_5ForCausalLM", true, true},
    {"qwen3_5_text", "qwen3_5_text", "Qwen3_5ForCausalLM", true, true},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", false, true},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, true},
    {"gemma3_text", "gemma3_text", "Gemma3ForCausalLM", false, true},
};

Result<std::unique_ptr<OutputLayout>> Fp8Layout::make(const Json& config, const std::string& path) {
  auto made = std::make_unique<Fp8Layout>();
  made->path_ = path;
  made->config_ = config;
  std::string type = string_at(config, "model_type");
  if (const auto text = config.find("text_config"); text != config.end()) {
    if (!text->is_object())
      return make_error(ErrorKind::invalid, "{}: \"text_config\" is not an object", path);
    made->config_ = *text;
    for (const char* key : {"tie_word_embeddings", "eos_token_id", "bos_token_id", "pad_token_id"})
      if (config.contains(key) && !text->contains(key)) made->config_[key] = config[key];
    if (const std::string own = string_at(*text, "model_type"); !own.empty()) type = own;
  }
  const auto* family = std::ranges::find(kFamilies, std::string_view(type), &Family::type);
  if (family == std::end(kFamilies)) {
    std::string known;
    for (const Family& one : kFamilies) known += (known.empty() ? "" : ", ") + std::string(one.type);
    return make_error(ErrorKind::unsupported,
                      "{}: FP8 is not written for models of type \"{}\", only for {}; leave --format out",
                      path, shown(type), known);
  }
  made->family_ = family;
  return std::unique_ptr<OutputLayout>(std::move(made));
}

Result<std::string> Fp8Layout::name(const std::string& hf_name) const {
  const bool printable =
      std::ranges::all_of(hf_name, [](char c) { return c > 0x20 && c < 0x7f && c != '*'; });
  const bool mtp = family_->hybrid && hf_name.starts_with("mtp.");
  if (!printable || (!hf_name.starts_with("model.") && !hf_name.starts_with("lm_head.") && !mtp))
    return make_error(
        ErrorKind::unsupported,
        "{}: tensor \"{}\" has no place in a model of type {}; convert from the original weights", path_,
        shown(hf_name), family_->text_type);
  constexpr std::string_view kStack = ".switch_mlp.";
  std::string name = hf_name;
  if (const size_t at = name.find(kStack); at != std::string::npos)
    name.replace(at, kStack.size(), ".experts.*.");
  return name;
}

std::vector<int64_t> Fp8Layout::shape(std::string_view hf_name, const std::vector<int64_t>& shape) const {
  if (!family_->hybrid || !hf_name.ends_with(".conv1d.weight")) return shape;
  if (shape.size() == 3 && shape[2] == 1) return {shape[0], 1, shape[1]};  // MLX's [C, k, 1]
  if (shape.size() == 2) return {shape[0], 1, shape[1]};                   // GGUF's [C, k]
  return shape;
}

int Fp8Layout::norm_shift(std::string_view hf_name, NormConvention norms) const {
  return family_->shifted_norms && norms == NormConvention::plain && is_shifted_norm(hf_name) ? -1 : 0;
}

bool Fp8Layout::stays_f32(std::string_view hf_name) const {
  return family_->hybrid && hf_name.ends_with(".A_log");
}

// Routers and the projections of a recurrent layer's gates (a few rows) stay in bf16: they decide much and
// cost little.
Target Fp8Layout::default_target(std::string_view module, const std::optional<Target>& fallback) const {
  const bool small = std::ranges::any_of(std::array{".in_proj_a", ".in_proj_b", ".in_proj_ba"},
                                         [&](const char* end) { return module.ends_with(end); });
  const bool in_layer = module.starts_with("model.layers.");
  if (!in_layer || small || is_router(module)) return Target{TargetKind::bf16, {}};
  return fallback.value_or(Target{TargetKind::fp8, {}});
}

Result<void> Fp8Layout::check(const Target& target) const {
  if (target.kind == TargetKind::fp8 || target.kind == TargetKind::bf16) return {};
  return make_error(
      ErrorKind::invalid,
      "{}: in an FP8 model a matrix is \"fp8\" or \"bf16\": the recipe's rules can say nothing else", path_);
}

Json Fp8Layout::config(const std::map<std::string, Target>& matrices) const {
  Json out = config_;
  for (const char* key :
       {"quantization", "quantization_config", "torch_dtype", "vision_config", "audio_config"})
    out.erase(key);
  out["model_type"] = family_->text_type;
  out["architectures"] = {family_->architecture};
  out["dtype"] = "bfloat16";
  // A head that is the embedding too has no tensor, but is a module.
  Json dense = {"lm_head"};
  for (const auto& [module, target] : matrices)
    if (target.kind != TargetKind::fp8 && module != "lm_head" && !module.ends_with("embed_tokens"))
      dense.push_back(module);
  out["quantization_config"] = {{"quant_method", "fp8"},
                                {"fmt", "e4m3"},
                                {"activation_scheme", "dynamic"},
                                {"weight_block_size", {kFp8Block, kFp8Block}},
                                {"modules_to_not_convert", std::move(dense)}};
  return out;
}

}  // namespace anabranch
