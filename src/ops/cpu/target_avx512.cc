#include "ops/cpu/kernels.h"

#if defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(__AVX512VNNI__) && defined(__F16C__)
#define ANABRANCH_TARGET avx512
#define ANABRANCH_TARGET_NAME "avx512"
#define ANABRANCH_TABLE kernels_avx512
#include "ops/cpu/kernels.inl"
#else
namespace anabranch::ops::cpu {
const CpuKernels* kernels_avx512() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
