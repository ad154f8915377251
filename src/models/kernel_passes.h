// Finds the kernels that a model needs, by passes that compute nothing (Device::prepare_kernels).
#pragma once

#include "models/model.h"
#include "models/vision_tower.h"

namespace anabranch {

// Lets the device note and compile, on its own threads, the kernels that this model will need: for prompts,
// for many sequences that decode at once, for drafts.
void prepare_kernels(const Model& model);
// The same for passes with an adapter.
void prepare_kernels(const Model& model, const nn::Adapter& adapter);
// The same for images of many sizes.
void prepare_kernels(const VisionTower& tower, const ImageProcessor& processor, Device& device);

}  // namespace anabranch
