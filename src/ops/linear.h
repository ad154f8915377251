// Matrix products with a stored weight, and rows of an embedding table.
#pragma once

#include <span>
#include <vector>

#include "ops/elementwise.h"
#include "ops/matmul_input.h"
#include "ops/weight.h"

namespace anabranch::ops {

// RMSNorm (ops/elementwise.h) of the rows of x before a product; weight [in] f32.
struct RowNorm {
  Tensor weight;
  float eps = 1e-6f;
};

// x [M, in] -> y [M, out] f32, y = x W^T, for each weight (at most kMaxLinearWeights, all with the same
// `in`). With a norm, norm(x) is multiplied (x must be plain then). The input is prepared once for all
// weights (rounded to int8 per group, once per group size). A row's result does not depend on M. Throws
// std::invalid_argument on a shape or dtype that does not fit.
constexpr size_t kMaxLinearWeights = 8;
std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights,
                           const RowNorm* norm = nullptr);
Tensor linear(const MatmulInput& x, const Weight& weight);

// x, or norm(x) (x must be plain then), as the input of several products: what they do with an input each is
// done once. They have the same bits as with x and the norm.
MatmulInput pack(const MatmulInput& x, const RowNorm* norm = nullptr);

// residual + x W^T, residual [M, out]. The same bits as linear() and add().
Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual);

// activation(n gate^T) * (n up^T) with n = norm(x) -> [M, out]. The same bits as rms_norm(), linear() and
// swiglu().
MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation = Activation::silu);

// Rows `ids` of a table [vocab, K], dequantised -> [ids.size(), K] f32. Throws if an id is out of range.
// chosen (ops/choose.h): an id of -1 - i stands for element i of `chosen`; if that element is not a token,
// the row is undefined.
Tensor embed(std::span<const int> ids, const Weight& table, const Tensor* chosen = nullptr);

}  // namespace anabranch::ops
