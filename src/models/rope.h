// Rotary positions as configs describe them.
#pragma once

#include "models/config.h"
#include "ops/rope.h"

namespace anabranch {

struct RopeConfig {
  ops::Rope rope;
  int context_length = 0;  // that it reaches, where that is more than max_position_embeddings; else 0
};

// From "rope_parameters" or "rope_scaling" + "rope_theta": default, linear, llama3, yarn, longrope and
// dynamic. rotated_dims is how many of a head's dimensions turn. Reference: Transformers'
// modeling_rope_utils.py; what depends on the length of the sequence there (longrope, dynamic) depends on the
// position here: a position has the frequencies of a sequence that ends with it.
RopeConfig read_rope(ConfigReader& config, int rotated_dims, double default_theta);

}  // namespace anabranch
