#include "checkpoint/names.h"

namespace anabranch {

namespace {

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// Mixtral's module of experts has the other families' name here.
std::string common_moe_name(std::string name) {
  constexpr std::string_view kMixtral = ".block_sparse_moe.";
  if (const size_t at = name.find(kMixtral); at != std::string::npos)
    name.replace(at, kMixtral.size(), ".mlp.");
  return name;
}

}  // namespace

std::optional<std::string> fold_name(std::string_view name) {
  std::string_view rest = name;
  strip(rest, "language_model.");
  const bool in_model = strip(rest, "model.");
  if (in_model) strip(rest, "language_model.");
  for (std::string_view vision : {"visual.", "vision_tower.", "vision_model.", "multi_modal_projector."})
    if (rest.starts_with(vision)) return std::nullopt;
  // The head and the MTP module stand beside the model, wherever a conversion nested them.
  if (in_model && !rest.starts_with("mtp.") && !rest.starts_with("lm_head."))
    return common_moe_name("model." + std::string(rest));
  return std::string(rest);
}

bool is_mtp_name(std::string_view name) {
  const auto folded = fold_name(name);
  return folded && folded->starts_with("mtp.");
}

}  // namespace anabranch
