#pragma once

#include "base/image_ids.h"
#include "images/processor.h"

namespace anabranch {

// Identifies the input of a vision tower: a hash of the pixels and of their arrangement.
ImageKey image_key(const ProcessedImage& image);

}  // namespace anabranch
