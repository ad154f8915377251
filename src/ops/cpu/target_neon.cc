#include "ops/cpu/kernels.h"

#if defined(__aarch64__)
#define ANABRANCH_TARGET neon
#define ANABRANCH_TARGET_NAME "neon"
#define ANABRANCH_TABLE kernels_neon
#include "ops/cpu/kernels.inl"
#else
namespace anabranch::ops::cpu {
const CpuKernels* kernels_neon() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
