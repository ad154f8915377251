// From a prepared request to the engine's: the only place where one becomes the other.
#pragma once

#include <cstdint>

#include "chat/preparer.h"
#include "engine/engine.h"

namespace anabranch {

// prompt: which of prepared.prompts. seed: of this answer's sampling.
Request engine_request(const Prepared& prepared, size_t prompt, uint64_t seed);

}  // namespace anabranch
