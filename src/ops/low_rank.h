// What low-rank adapters (Hu et al. 2022) add to the results of matrix products. The products of one input
// share a call of each function here, which on a card is one launch, or part of the products' own.
#pragma once

#include <span>
#include <vector>

#include "ops/linear.h"

namespace anabranch::ops {

// Rows of an input, and the matrix with which they are multiplied.
struct LowRankDown {
  const Weight* down;        // [columns, in]: the down-projections of one adapter, below each other
  int begin = 0, count = 0;  // rows of x
};

// Each part's rows times its matrix -> z [pieces, count, columns] f32. The down-projection is the sum of the
// pieces, in order: a card leaves the last additions to add_low_rank(). A row's bits depend on the row and
// its matrix only, on the CPU and the reference as linear()'s do.
// Throws std::invalid_argument if a width does not fit, a part's rows are not in x, or a part is on another
// device.
std::vector<Tensor> low_rank_down(const MatmulInput& x, std::span<const LowRankDown> parts);

// One adapter's part of an output: its rows of y.
struct LowRankRows {
  Tensor z;   // [pieces, count, columns] f32, of which columns [first, first + rank) are read
  Tensor up;  // [out, rank] f32
  float scale = 1;
  int begin = 0, count = 0;  // rows of y
  int first = 0;
};

// y, and what is added to it.
struct LowRankOutput {
  Tensor y;  // [rows, out] f32
  std::vector<LowRankRows> parts;
};

// y[row] += scale * (up z[row]) for the rows of each part, in the order of the parts; parts may overlap, and
// the other rows keep their bits. Every device does the same operations in the same order and gives the same
// bits:
//   z = piece 0;  for p = 1 .. pieces - 1: z = z + piece p
//   acc = 0;  for r = 0 .. rank - 1: acc = fma(up[o][r], z[row][r], acc);  y[row][o] = fma(scale, acc,
//   y[row][o])
// So a row's result does not depend on the other rows and parts. y is changed in place, except on the
// reference and Metal, whose arrays cannot change: there y becomes another tensor, and views of the old one
// keep its values.
// Throws std::invalid_argument if there are more than kMaxLinearWeights outputs, they differ in their number
// of rows, a shape or dtype does not fit, a rank is 0, a part's rows are not in y, or a part is on another
// device.
void add_low_rank(std::span<LowRankOutput> outputs);

// A product with a matrix [out, in], and what is added to it.
struct LowRankProduct {
  const Weight* weight;
  std::vector<LowRankRows> parts;
};

// x W^T for each product, x [rows, in], plus `residual` [rows, out] for a single one, and then its parts. The
// same bits as linear() or linear_add(), and add_low_rank(); throws as these do.
std::vector<Tensor> linear_low_rank(const MatmulInput& x, std::span<const LowRankProduct> products,
                                    const Tensor* residual = nullptr);

// activation(gate) * up of these two products with their parts. The same bits as linear_low_rank() and
// swiglu().
MatmulInput linear_low_rank_swiglu(const MatmulInput& x, LowRankProduct gate, LowRankProduct up,
                                   Activation activation);

}  // namespace anabranch::ops
