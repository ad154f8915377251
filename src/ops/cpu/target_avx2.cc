#include "ops/cpu/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__AVX512F__)
#define ANABRANCH_TARGET avx2
#define ANABRANCH_TARGET_NAME "avx2"
#define ANABRANCH_TABLE kernels_avx2
#include "ops/cpu/kernels.inl"
#else
namespace anabranch::ops::cpu {
const CpuKernels* kernels_avx2() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
