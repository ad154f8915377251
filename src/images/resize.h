// Resizing with antialiasing, to the same bits as torchvision (which Transformers' image processors use) on
// 8-bit images. Pillow's results sometimes differ by one step of 255, and by more in noise with bicubic
// filters.
#pragma once

#include "images/picture.h"

namespace anabranch {

enum class ResizeFilter { bilinear, bicubic };

Picture resize(const Picture& picture, int width, int height, ResizeFilter filter);

}  // namespace anabranch
