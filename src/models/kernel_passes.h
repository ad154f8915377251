// Finds the kernels that a model needs, by passes that compute nothing (Device::prepare_kernels).
#pragma once

#include "models/model.h"
#include "models/vision_tower.h"

namespace anabranch {

// The device notes which kernels this model will need, and compiles them on its own threads: for prompts, for
// many sequences that decode at once, for drafts.
void prepare_kernels(const Model& model);
// The same for images of many sizes.
void prepare_kernels(const VisionTower& tower, const ImageProcessor& processor, Device& device);

}  // namespace anabranch
