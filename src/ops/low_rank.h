// What low-rank adapters (Hu et al. 2022) add to the result of a matrix product.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace anabranch::ops {

// One adapter's part: its rows of y.
struct LowRankRows {
  Tensor z;   // [rows of y, rank] f32: every row's down-projection; only rows [begin, begin + count) are read
  Tensor up;  // [out, rank] f32
  float scale = 1;
  int begin = 0, count = 0;  // rows of y
};

// y [rows, out] f32: y[row] += scale * (up z[row]) for the rows of each part, in the order of the parts;
// parts may overlap, and the other rows keep their bits. Every device does the same operations in the same
// order and gives the same bits:
//   acc = 0;  for r = 0 .. rank - 1: acc = fma(up[o][r], z[row][r], acc);  y[row][o] = fma(scale, acc,
//   y[row][o])
// So a row's result does not depend on the other rows and parts. y is changed in place, except on the
// reference and Metal, whose arrays cannot change: there y becomes another tensor, and views of the old one
// keep its values.
// Throws std::invalid_argument if a shape or dtype does not fit, a rank is 0, a part's rows are not in y, or
// a part is on another device.
void add_low_rank(Tensor& y, std::span<const LowRankRows> parts);

}  // namespace anabranch::ops
