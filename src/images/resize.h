// Resizing with antialiasing, to the same bits as torchvision's (which Transformers' image processors use) on
// 8-bit pictures. Pillow's results differ by one step of 255 here and there, and by more in noise with
// bicubic filters.
#pragma once

#include "images/picture.h"

namespace anabranch {

enum class ResizeFilter { bilinear, bicubic };

Picture resize(const Picture& picture, int width, int height, ResizeFilter filter);

}  // namespace anabranch
