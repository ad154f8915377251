#include "checkpoint/write_format.h"

#include <algorithm>

#include "base/check.h"

namespace anabranch {

namespace {

constexpr WriteFormat kFormats[] = {
    {ConvertFormat::mlx, "mlx", false, true, true, true, convert_to_directory},
    {ConvertFormat::fp8, "fp8", false, false, true, false, convert_to_directory},
    {ConvertFormat::q4_k_m, "q4_k_m", true, false, false, true, convert_to_gguf},
    {ConvertFormat::iq4_xs, "iq4_xs", true, false, false, true, convert_to_gguf},
    {ConvertFormat::q8_0, "q8_0", true, false, false, false, convert_to_gguf},
    {ConvertFormat::f16, "f16", true, false, false, false, convert_to_gguf},
};

}  // namespace

std::span<const WriteFormat> write_formats() {
  return kFormats;
}

const WriteFormat& write_format(ConvertFormat format) {
  const auto* found = std::ranges::find(kFormats, format, &WriteFormat::format);
  CHECK(found != std::end(kFormats));
  return *found;
}

const WriteFormat* find_write_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &WriteFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace anabranch
