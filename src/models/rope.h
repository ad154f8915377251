// Rotary positions as configs describe them.
#pragma once

#include "base/json.h"
#include "models/config.h"
#include "ops/rope.h"

namespace anabranch {

struct RopeConfig {
  ops::Rope rope;
  int context_length = 0;  // that it reaches, where that is more than max_position_embeddings; else 0
};

// The keys of the rope of layers of a kind ("full_attention", ...): "rope_parameters", which may have one for
// each kind, and "rope_scaling", which older configs have instead. An object; wrong ones are remembered in
// `config`.
Json rope_parameters_of(ConfigReader& config, const char* kind);

// From these keys + "rope_theta": default, linear, llama3, yarn, longrope and dynamic. rotated_dims is how
// many of a head's dimensions turn. Reference: Transformers' modeling_rope_utils.py; what depends on the
// length of the sequence there (longrope, dynamic) depends on the position here: a position has the
// frequencies of a sequence that ends with it.
RopeConfig read_rope(ConfigReader& config, const Json& parameters, int rotated_dims, double default_theta);

// Remembers an error in `config` if only a part of each head turns.
void require_whole_heads(ConfigReader& config, const Json& parameters);

}  // namespace anabranch
