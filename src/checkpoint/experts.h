// Mixtures of experts: one name and shape for the matrices of all experts, however a checkpoint holds them.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/store.h"

namespace anabranch {

// Sources of as many rows each and of one format (kind, width, group and table), below one another. Where
// their scales are of different types, or some have biases, all have fp32 scales, or biases. Not empty.
WeightSource join_rows(std::vector<WeightSource> parts);
bool same_format(const Entry& a, const Entry& b);

// Names are those after fold_name(). Joins "<p>.mlp.experts.<e>.{gate,up,down}_proj.weight" of every expert
// e, and cuts Hugging Face's fused
// "<p>.mlp.experts.gate_up_proj" [E, 2I, H] (gates first) and ".down_proj" [E, H, I], into MLX's
// "<p>.mlp.switch_mlp.{gate,up,down}_proj.weight" [E, rows, cols]. Nothing is copied. Experts that do not go
// together, or are not all there, give an entry that cannot be read.
std::vector<Entry> stack_experts(std::vector<Entry> entries);

// Whether a name without ".weight" is such a stack of matrices.
bool is_expert_module(std::string_view module);

}  // namespace anabranch
