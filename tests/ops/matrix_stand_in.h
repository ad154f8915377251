// The kernels of matrix units on every processor (matrix_stand_in.cc).
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {

const MatrixKernels* kernels_matrix_plain();
// How often the calling thread's stand-in has been opened.
int64_t times_matrix_opened();

}  // namespace anabranch::ops::cpu
