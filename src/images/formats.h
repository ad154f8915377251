// The decoders behind decode_picture.
#pragma once

#include "images/picture.h"

namespace anabranch {

struct DecodedFile {
  Picture picture;      // as stored
  int orientation = 1;  // as EXIF counts: 1 = upright, up to 8
};

// Each takes a whole file of its type.
Result<DecodedFile> decode_jpeg(std::string_view bytes, const PictureLimits& limits);
Result<DecodedFile> decode_png(std::string_view bytes, const PictureLimits& limits);
Result<DecodedFile> decode_webp(std::string_view bytes, const PictureLimits& limits);

// Errors: exhausted (the header promises more than the limits allow).
Result<void> check_size(const char* type, int64_t width, int64_t height, const PictureLimits& limits);
// What a decoder found wrong. `reason` is the library's text, of a damaged file.
Error damaged(const char* type, std::string_view reason);
Error cut_short(const char* type);

// Turns [pixels, 4] into [pixels, 3]: lays RGB with an alpha channel on white. The rounding is Pillow's.
void lay_on_white(std::vector<uint8_t>& pixels);

}  // namespace anabranch
