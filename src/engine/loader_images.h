// Loads what a model needs to read images.
#pragma once

#include "engine/loader.h"

namespace anabranch {

// Loads the vision tower of a model whose files have one, and determines how prompts represent images. If
// either is unusable, the model reads text only, and the log says why.
void load_images(const Checkpoint& checkpoint, LoadedModel& model);

}  // namespace anabranch
