// The input of a matrix product.
#pragma once

#include "tensor/tensor.h"

namespace anabranch::ops {

// Rows [rows, inputs], f32: either a plain tensor, or packed in a layout that only the matrix products of its
// device read (see the backend's linear.h). Ops whose result always goes into a product return it packed if
// that saves a pass over the memory.
struct MatmulInput {
  MatmulInput(Tensor x)  // NOLINT: every tensor [M, K] is an input
      : values(std::move(x)), rows(values.shape(0)), inputs(values.shape(1)) {}
  MatmulInput(Tensor memory, int rows, int inputs)
      : values(std::move(memory)), rows(rows), inputs(inputs), packed(true) {}

  Tensor values;  // packed: u8
  int rows = 0, inputs = 0;
  bool packed = false;
};

}  // namespace anabranch::ops
