// What loading a model has to do with images.
#pragma once

#include "engine/loader.h"

namespace anabranch {

// Loads the vision tower of a model whose files have one, and finds out how its prompts hold images. Where
// either cannot be used, the model reads text only, and the log says why.
void load_images(const Checkpoint& checkpoint, LoadedModel& model);

}  // namespace anabranch
