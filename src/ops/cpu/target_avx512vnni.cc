#include "ops/cpu/kernels.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__F16C__)
#define ANABRANCH_TARGET avx512_vnni
#define ANABRANCH_TARGET_NAME "avx512-vnni"
#define ANABRANCH_TABLE kernels_avx512_vnni
#include "ops/cpu/kernels.inl"
#else
namespace anabranch::ops::cpu {
const CpuKernels* kernels_avx512_vnni() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
