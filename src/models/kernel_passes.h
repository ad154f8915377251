// Which kernels a model needs, found by passes that compute nothing (Device::prepare_kernels).
#pragma once

#include "models/model.h"
#include "models/vision_tower.h"

namespace anabranch {

// The device notes what answers of this model will need, and compiles it on threads of its own: for prompts,
// for many sequences that decode at once, for drafts.
void prepare_kernels(const Model& model);
// The same for pictures of many sizes.
void prepare_kernels(const VisionTower& tower, const ImageProcessor& processor, Device& device);

}  // namespace anabranch
