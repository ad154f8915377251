#include "ops/cpu/kernels.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define ANABRANCH_TARGET neon_dotprod
#define ANABRANCH_TARGET_NAME "neon-dotprod"
#define ANABRANCH_TABLE kernels_neon_dotprod
#include "ops/cpu/kernels.inl"
#else
namespace anabranch::ops::cpu {
const CpuKernels* kernels_neon_dotprod() {
  return nullptr;
}
}  // namespace anabranch::ops::cpu
#endif
