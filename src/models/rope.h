// Rotary positions as configs describe them.
#pragma once

#include <array>

#include "base/json.h"
#include "models/config.h"
#include "ops/rope.h"

namespace anabranch {

struct RopeConfig {
  ops::Rope rope;
  int context_length = 0;  // context length reached by scaling, if it exceeds max_position_embeddings; else 0
};

// The object with the rope's keys for layers of a kind ("full_attention", ...): in "rope_parameters", which
// may have an entry for each kind, or in older configs "rope_scaling". Always returns an object; wrong values
// are remembered in `config`.
Json rope_parameters_of(ConfigReader& config, const char* kind);

// The entry of a kind of layers without "truncate", which Transformers reads beside such entries only, where
// it cannot be.
Json without_truncation(Json entry);

// Reads a rope from these keys and "rope_theta": default, linear, llama3, yarn, longrope and dynamic.
// rotated_dims: how many of a head's dimensions are rotated. Reference: Transformers' modeling_rope_utils.py.
// Where Transformers depends on the length of the sequence (longrope, dynamic), we depend on the position: a
// position has the frequencies of a sequence that ends with it.
RopeConfig read_rope(ConfigReader& config, const Json& parameters, int rotated_dims, double default_theta);

// A rope of whole heads, of which only the first pairs turn: the share "partial_rotary_factor" of the keys,
// or of the config. The others have frequency 0. The frequencies are those of whole heads (type
// "proportional").
ops::Rope proportional_rope(ConfigReader& config, const Json& parameters, int head_dim, double default_theta);

// How many of a head's dimensions turn: the share "partial_rotary_factor" of the rope's keys or of the
// config, or `usual` where neither states it.
int turned_dims(ConfigReader& config, const Json& parameters, int head_dim, double usual);

// Lets time, height and width rotate a rope's pairs of dimensions (Rope::axis): the axes alternate while each
// has pairs left, and time rotates the rest. `parameters` may have other sizes than the usual ones
// ("mrope_section"). Text has the same position on all axes. Ropes whose frequencies or factors depend on the
// position get no axes. Reference: Transformers' apply_interleaved_mrope.
void add_interleaved_axes(ConfigReader& parameters, std::array<int, 3> usual, ops::Rope& rope);

// Remembers an error in `config` if only a part of each head is rotated.
void require_whole_heads(ConfigReader& config, const Json& parameters);

}  // namespace anabranch
