// EXIF's orientation: a camera stores pixels as its sensor lies, and says how to turn them.
#pragma once

#include <string_view>

#include "images/picture.h"

namespace anabranch {

// From EXIF data (a TIFF header and what follows it). 1 (upright) when it says nothing or is damaged.
int exif_orientation(std::string_view exif);

// Turns and mirrors the picture. orientation: 1 to 8.
Picture upright(Picture picture, int orientation);

}  // namespace anabranch
