// Matrix products with a stored weight, and rows of an embedding table.
#pragma once

#include <span>
#include <vector>

#include "ops/weight.h"

namespace anabranch::ops {

// x [M, in] f32 -> y [M, out] f32, y = x W^T, for each weight (all with the same `in`). The input is prepared
// (rounded to int8 per group, once per group size) one time for all of them. A row's result does not depend
// on M. Throws std::invalid_argument on a shape or dtype that does not fit.
std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights);
mx::array linear(const mx::array& x, const Weight& weight);

// Rows `ids` of a table [vocab, K], dequantised -> [ids.size(), K] f32. Throws if an id is out of range.
mx::array embed(std::span<const int> ids, const Weight& table);

}  // namespace anabranch::ops
