// Mixtures of experts: one name and shape for the matrices of all experts, however a checkpoint stores them.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/store.h"

namespace anabranch {

// Stacks sources of the same columns and format (kind, width, group and table). If their scales differ
// in type or factor, the result has fp32 scales; if their zero points differ, or only some have biases, it
// also has biases. parts: not empty.
WeightSource join_rows(std::vector<WeightSource> parts);
bool same_format(const Entry& a, const Entry& b);

// Names are those after fold_name(). Joins "<p>.mlp.experts.<e>.{gate,up,down}_proj.weight" of every expert
// e, and cuts Hugging Face's fused "<p>.mlp.experts.gate_up_proj" [E, 2I, H] (gates first), or ".up_proj"
// [E, I, H], and ".down_proj" [E, H, I], into MLX's "<p>.mlp.switch_mlp.{gate,up,down}_proj.weight"
// [E, rows, cols]. gpt-oss' experts have biases "<p>.mlp.experts.gate_up_proj_bias" [E, 2I] and
// ".down_proj_bias" beside the matrices; then the rows of gates and ups alternate. Nothing is copied. Experts
// that do not go together, or are not all there, give an entry that cannot be read.
std::vector<Entry> stack_experts(std::vector<Entry> entries);

// Whether a name without ".weight" is such a stack of matrices.
bool is_expert_module(std::string_view module);

}  // namespace anabranch
