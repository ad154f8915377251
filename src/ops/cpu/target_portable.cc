#include "ops/cpu/kernels.h"

#define ANABRANCH_SIMD_PORTABLE 1
#define ANABRANCH_TARGET portable
#define ANABRANCH_TARGET_NAME "portable"
#define ANABRANCH_TABLE kernels_portable
#include "ops/cpu/kernels.inl"
