// Decodes images from outside: JPEG, PNG and WebP.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

// 8-bit RGB, upright: the orientation in the file's EXIF data has been applied.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// Limits of an image file; its size is checked in the file's header before memory for pixels is allocated.
struct PictureLimits {
  size_t bytes = 20u << 20;  // of the file
  int side = 16384;          // width and height
  int64_t pixels = 50'000'000;
};

// The type is detected from the bytes. Transparent pixels are composited on white, like the image processors
// of Transformers (since 5.x) and vLLM: drawings with a transparent background often have black behind it,
// which would hide them. Errors: invalid (not an image, cut short, damaged), unsupported (another type, an
// animation), exhausted (a limit).
Result<Picture> decode_picture(std::string_view bytes, const PictureLimits& limits = {});

}  // namespace anabranch
