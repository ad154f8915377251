#include "ops/cpu/kernels.h"

// Clang 14 defines __AMXINT8__ instead of __AMX_INT8__.
#if (defined(__AMX_INT8__) || defined(__AMXINT8__)) && defined(__AVX512VNNI__) && defined(__AVX512BW__) && \
    defined(__F16C__)
#define ANABRANCH_TARGET avx512_amx
#define ANABRANCH_TARGET_NAME "avx512-amx"
#define ANABRANCH_TABLE kernels_avx512_amx
#define ANABRANCH_BASE kernels_avx512_vnni()
#define ANABRANCH_MATRIX "ops/cpu/matrix_amx.h"
#define ANABRANCH_MATRIX_FROM 32
#include "ops/cpu/kernels_matrix.inl"
#else
namespace anabranch::ops::cpu {
const MatrixKernels* kernels_avx512_amx() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
