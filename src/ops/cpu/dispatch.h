// The instruction sets of the CPU kernels. All of them give the same bits: every output element is computed
// by the same operations in the same order, whatever the vector width.
#pragma once

#include <string>
#include <vector>

#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {

// These kernels, with products on matrix units.
CpuKernels with_matrix_units(CpuKernels kernels, const MatrixKernels& matrix);

// The targets that this build has and this machine can run, best first: "avx512-amx", "avx512-vnni",
// "avx512", "avx2", "neon-dotprod", "neon", "portable".
std::vector<std::string> runnable_targets();
// name: one of these, or empty for the best one. Null if it is none of them.
const CpuKernels* find_target(const std::string& name);

}  // namespace anabranch::ops::cpu
