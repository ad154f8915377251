#include "checkpoint/quantized/layouts.h"

#include <algorithm>

namespace anabranch {

std::span<const QuantizedLayout* const> quantized_layouts() {
  static constexpr const QuantizedLayout* kAll[] = {
      &kMlxLayout,          &kFp8Layout,    &kGptqLayout,   &kAwqLayout,  &kPackedIntLayout, &kInt8Layout,
      &kPackedFloat4Layout, &kFloat4Layout, &kBlocksLayout, &kBnb4Layout, &kBnb8Layout};
  return kAll;
}

std::optional<FoundLayout> find_layout(const RawTensors& all, std::string_view name,
                                       const RawTensor& tensor) {
  for (const QuantizedLayout* layout : quantized_layouts()) {
    if (!name.ends_with(layout->main)) continue;
    const std::string_view stem = name.substr(0, name.size() - layout->main.size());
    if (layout->matches(QuantizedModule(all, stem, tensor))) return FoundLayout{layout, stem};
  }
  return std::nullopt;
}

bool is_activation_scale(std::string_view name) {
  constexpr std::string_view kSuffixes[] = {
      ".input_scale",      ".activation_scale", "_activation_scale", ".input_global_scale",
      ".input_zero_point", ".output_scale",     ".k_scale",          ".v_scale",
      ".q_scale",          ".kv_scale",         ".k_zero_point",     ".v_zero_point"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace anabranch
