#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "images/picture.h"

namespace anabranch {

struct ImageProcessor {
  enum class Kind { qwen, gemma3 };
  Kind kind = Kind::qwen;
  int patch = 16, temporal_patch = 2, merge = 2;
  int64_t min_pixels = 0, max_pixels = 0;
  int size = 896;
  int tokens = 256;
  std::array<float, 3> mean{}, std{};
};

struct ProcessedImage {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
  int rows = 0, columns = 0;  // patches
  int tokens = 0;
};

Result<ImageProcessor> read_image_processor(const Json& preprocessor_config, std::string_view path);
Result<ProcessedImage> process_image(const Picture& picture, const ImageProcessor& processor,
                                     std::optional<int64_t> most_pixels = {});
std::vector<float> patches_of(const ProcessedImage& image, const ImageProcessor& processor);

}  // namespace anabranch
