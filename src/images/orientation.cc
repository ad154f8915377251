#include "images/orientation.h"

#include <algorithm>

namespace anabranch {

namespace {

constexpr uint32_t kOrientationTag = 0x0112, kShort = 3;
constexpr int kTile = 32;  // pixels; the cache lines of a tile stay cached while it is read across them

// The number of `size` bytes at `at`; 0 if the data ends before.
uint32_t number_at(std::string_view data, size_t at, int size, bool big_endian) {
  if (at > data.size() || data.size() - at < static_cast<size_t>(size)) return 0;
  uint32_t value = 0;
  for (int i = 0; i < size; i++) {
    const int shift = 8 * (big_endian ? size - 1 - i : i);
    value |= static_cast<uint32_t>(static_cast<uint8_t>(data[at + i])) << shift;
  }
  return value;
}

}  // namespace

int exif_orientation(std::string_view exif) {
  if (exif.starts_with(std::string_view("Exif\0\0", 6))) exif.remove_prefix(6);
  const bool big_endian = exif.starts_with("MM");
  if (!big_endian && !exif.starts_with("II")) return 1;
  const size_t directory = number_at(exif, 4, 4, big_endian);
  const uint32_t entries = number_at(exif, directory, 2, big_endian);
  for (uint32_t i = 0; i < entries; i++) {
    const size_t entry = directory + 2 + 12 * size_t{i};
    if (number_at(exif, entry, 2, big_endian) != kOrientationTag) continue;
    const uint32_t value = number_at(exif, entry + 8, 2, big_endian);
    const bool known = number_at(exif, entry + 2, 2, big_endian) == kShort && value >= 1 && value <= 8;
    return known ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture upright(Picture picture, int orientation) {
  if (orientation == 1) return picture;
  const int64_t width = picture.width, height = picture.height;
  const bool turned = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  // Steps in the stored pixels for one step to the right and one step down in the result.
  const int64_t column = from_right ? -1 : 1, row = from_bottom ? -width : width;
  const int64_t right = turned ? row : column, down = turned ? column : row;
  const int64_t start = (from_bottom ? (height - 1) * width : 0) + (from_right ? width - 1 : 0);
  Picture out{turned ? picture.height : picture.width, turned ? picture.width : picture.height, {}};
  out.rgb.resize(picture.rgb.size());
  for (int y0 = 0; y0 < out.height; y0 += kTile)
    for (int x0 = 0; x0 < out.width; x0 += kTile)
      for (int y = y0; y < std::min(y0 + kTile, out.height); y++) {
        const uint8_t* from = picture.rgb.data() + 3 * (start + y * down + x0 * right);
        uint8_t* to = out.rgb.data() + 3 * (int64_t{y} * out.width + x0);
        for (int x = x0; x < std::min(x0 + kTile, out.width); x++, from += 3 * right, to += 3)
          std::copy_n(from, 3, to);
      }
  return out;
}

}  // namespace anabranch
