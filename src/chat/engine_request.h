// Converts a prepared request to the engine's request. Nothing else does.
#pragma once

#include <cstdint>

#include "chat/preparer.h"
#include "engine/engine.h"

namespace anabranch {

// prompt: index into prepared.prompts. seed: for the sampling of this answer.
Request engine_request(const Prepared& prepared, size_t prompt, uint64_t seed);

}  // namespace anabranch
