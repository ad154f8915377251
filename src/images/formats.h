// The decoders behind decode_picture.
#pragma once

#include "images/picture.h"

namespace anabranch {

struct DecodedFile {
  Picture picture;      // in the stored orientation
  int orientation = 1;  // EXIF's number: 1 = upright, up to 8
};

// Each takes a whole file of its type.
Result<DecodedFile> decode_jpeg(std::string_view bytes, const PictureLimits& limits);
Result<DecodedFile> decode_png(std::string_view bytes, const PictureLimits& limits);
Result<DecodedFile> decode_webp(std::string_view bytes, const PictureLimits& limits);

// Errors: exhausted (the size in the header exceeds the limits).
Result<void> check_size(const char* type, int64_t width, int64_t height, const PictureLimits& limits);
// An error for a damaged file. `reason` is the library's text.
Error damaged(const char* type, std::string_view reason);
Error cut_short(const char* type);

// Converts RGBA [pixels, 4] to [pixels, 3] on a white background. The rounding is Pillow's.
void lay_on_white(std::vector<uint8_t>& pixels);

}  // namespace anabranch
