// Pictures from files: JPEG, PNG and WebP to rows of RGB.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3], upright
};

struct PictureLimits {
  size_t bytes = size_t{20} << 20;
  int side = 16384;
  int64_t pixels = 50'000'000;
};

Result<Picture> decode_picture(std::string_view bytes, const PictureLimits& limits = {});

}  // namespace anabranch
