// Kernels that tests have on every processor: those of matrix units, on a unit in plain C++ (matrix_plain.h),
// and VNNI's with the other choice of CpuKernels::unpacks_int8.
#define ANABRANCH_SIMD_PORTABLE 1
#define ANABRANCH_TARGET matrix_plain
#define ANABRANCH_TARGET_NAME "matrix-plain"
#define ANABRANCH_TABLE kernels_matrix_plain
#define ANABRANCH_BASE kernels_portable()
#define ANABRANCH_MATRIX "ops/matrix_plain.h"
#define ANABRANCH_MATRIX_FROM 9
#include "ops/cpu/kernels_matrix.inl"
//
#include "base/cpu_info.h"
#include "ops/cpu/dispatch.h"
#include "ops/matrix_stand_in.h"
#include "ops/testing.h"

int64_t anabranch::ops::cpu::times_matrix_opened() {
  return matrix_plain::matrix_unit().opened;
}

namespace anabranch::ops {
namespace {

const bool registered = [] {
  const cpu::MatrixKernels& plain = *cpu::kernels_matrix_plain();
  test_kernels().emplace(plain.name, cpu::with_matrix_units(*cpu::kernels_portable(), plain));
  if (const cpu::CpuKernels* vnni = cpu::kernels_avx512_vnni(); vnni && cpu_info().avx512_vnni) {
    cpu::CpuKernels other = *vnni;
    other.name = "avx512-vnni, unpacking";
    other.unpacks_int8 = true;
    test_kernels().emplace(other.name, other);
  }
  return true;
}();

}  // namespace
}  // namespace anabranch::ops
