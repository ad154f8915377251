#pragma once

#include "base/image_ids.h"
#include "images/processor.h"

namespace anabranch {

// Names what a vision tower is given: a hash of the pixels and of their arrangement.
ImageKey image_key(const ProcessedImage& image);

}  // namespace anabranch
