// EXIF's orientation: a camera stores pixels in the order of its sensor, and states how to rotate them.
#pragma once

#include <string_view>

#include "images/picture.h"

namespace anabranch {

// Reads EXIF data (a TIFF header and the data after it). Returns 1 (upright) if there is no orientation or
// the data is damaged.
int exif_orientation(std::string_view exif);

// Rotates and mirrors the image. orientation: 1 to 8.
Picture upright(Picture picture, int orientation);

}  // namespace anabranch
