// Goes before a kernel's text where it is compiled for the CPU (emulator.h): what NVRTC knows without
// headers, and the functions of ops/cuda/kernels/ptx.cuh.
#pragma once

#include <bit>
#include <cstring>

#include "base/float16.h"
#include "cuda/emulated_thread.h"

#define EMULATED_DEVICE
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("emulated_shared")))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define DEVICE static inline
#define KERNEL extern "C" void

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
// Aligned as their members: the kernels read them from local arrays of words too.
struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
DEVICE uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) {
  return {x, y, z, w};
}
DEVICE float2 make_float2(float x, float y) {
  return {x, y};
}

static const auto &threadIdx = anabranch::emulator::thread_index,
                  &blockIdx = anabranch::emulator::block_index, &blockDim = anabranch::emulator::block_size,
                  &gridDim = anabranch::emulator::grid_size;

// Functions of glibc that CUDA C++ has too: <cmath> would take longer than most kernels.
extern "C" {
float erff(float), exp2f(float), expf(float), expm1f(float), fmaxf(float, float), fminf(float, float),
    log1pf(float), logf(float), sqrtf(float), tanhf(float);
void sincos(double, double*, double*);
}

// Built-in functions of CUDA C++.
DEVICE float __uint_as_float(u32 x) {
  return std::bit_cast<float>(x);
}
DEVICE u32 __float_as_uint(float x) {
  return std::bit_cast<u32>(x);
}
DEVICE float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
DEVICE float __fadd_rn(float a, float b) {
  return a + b;
}
DEVICE float __fmul_rn(float a, float b) {
  return a * b;
}
#define __expf expf  // glibc has that name
DEVICE float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
// 0 where the divisor is above 2^126, as the CUDA programming guide says.
DEVICE float __fdividef(float x, float y) {
  return __builtin_fabsf(y) > 0x1p126f && !__builtin_isinf(y) ? 0 * x : x / y;
}
DEVICE int __popc(u32 x) {
  return __builtin_popcount(x);
}
DEVICE int __ffs(u32 x) {
  return __builtin_ffs((int)x);
}
template <class T>
DEVICE T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
DEVICE T max(T a, T b) {
  return a < b ? b : a;
}

// Each lane's value. All lanes take part: the kernels have no other masks.
template <class T>
struct Lanes {
  const char* from;
  Lanes(const char* what, u32 mask, T x) {
    if (mask != ~0u) anabranch::emulator::fail("a mask without some lanes");
    from = anabranch::emulator::exchange(what, &x, sizeof(x));
  }
  T operator[](u32 lane) const {
    T x;
    std::memcpy(&x, from + lane % 32 * anabranch::emulator::kMostBytes, sizeof(x));
    return x;
  }
};
template <class T, class Join>
DEVICE T reduce(const Lanes<T>& lanes, T start, const Join& join) {
  for (u32 i = 0; i < 32; i++) start = join(start, lanes[i]);
  return start;
}
DEVICE void __syncthreads() {
  anabranch::emulator::barrier(0, 0);
}
DEVICE void __syncwarp() {
  Lanes<int>("__syncwarp", ~0u, 0);
}
template <class T>
DEVICE T __shfl_sync(u32 mask, T x, int from) {
  return Lanes<T>("__shfl_sync", mask, x)[(u32)from];
}
template <class T>
DEVICE T __shfl_xor_sync(u32 mask, T x, int by) {
  return Lanes<T>("__shfl_xor_sync", mask, x)[threadIdx.x ^ (u32)by];
}
DEVICE u32 __ballot_sync(u32 mask, bool x) {
  const Lanes<bool> lanes("__ballot_sync", mask, x);
  u32 all = 0;
  for (u32 i = 0; i < 32; i++) all |= (u32)lanes[i] << i;
  return all;
}
DEVICE bool __any_sync(u32 mask, bool x) {
  return __ballot_sync(mask, x) != 0;
}
// Blocks run one after the other.
DEVICE void atomicAdd(u64* to, u64 x) {
  *to += x;
}
DEVICE int atomicAdd(int* to, int x) {
  return (*to += x) - x;
}
DEVICE u32 __reduce_max_sync(u32 mask, u32 x) {
  return reduce(Lanes<u32>("__reduce_max_sync", mask, x), 0u, max<u32>);
}
DEVICE int __reduce_add_sync(u32 mask, int x) {
  return reduce(Lanes<int>("__reduce_add_sync", mask, x), 0, [](int a, int b) { return a + b; });
}

// ptx.cuh. Copies to shared memory happen at once. What only Hopper's own kernels use is missing.
DEVICE void wait_for_previous() {}
DEVICE void let_next_start() {}
DEVICE void prefetch(const void*) {}
DEVICE void store_shared_line(void* to, uint4 x) {
  std::memcpy(to, &x, sizeof(x));
}
DEVICE uint4 load_shared_line(const void* from) {
  uint4 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
// Nothing comes while a kernel waits: it fails when it asks for the second time.
DEVICE u64 nanoseconds() {
  static u64 now;
  return now += 3600000000000ull;
}
DEVICE void trap() {
  anabranch::emulator::fail("what a kernel waits for does not come");
}
DEVICE u32 shared_address(const void* p) {
  return (u32)((const char*)p - anabranch::emulator::dynamic_shared());
}
DEVICE void copy16_async(u32 to, const void* from, bool wanted) {
  if (wanted) std::memcpy(anabranch::emulator::dynamic_shared() + to, from, 16);
}
DEVICE void copy8_async(u32 to, const void* from, bool wanted) {
  if (wanted) std::memcpy(anabranch::emulator::dynamic_shared() + to, from, 8);
}
DEVICE void load_matrices(u32 row, u32 to[4]) {
  const Lanes<u32> rows("load_matrices", ~0u, row);
  for (u32 i = 0; i < 4; i++)
    std::memcpy(
        to + i,
        anabranch::emulator::dynamic_shared() + rows[8 * i + threadIdx.x % 32 / 4] + threadIdx.x % 4 * 4, 4);
}
DEVICE void load_transposed(u32 row, u32 to[4]) {
  const Lanes<u32> rows("load_transposed", ~0u, row);
  for (u32 i = 0; i < 4; i++)
    for (u32 e = 0; e < 2; e++)
      std::memcpy((char*)(to + i) + 2 * e,
                  anabranch::emulator::dynamic_shared() + rows[8 * i + threadIdx.x % 4 * 2 + e] +
                      threadIdx.x % 32 / 4 * 2,
                  2);
}
DEVICE void commit_copies() {}
template <int N>
DEVICE void wait_copies() {}
DEVICE void barrier_sync(int id, int threads) {
  anabranch::emulator::barrier(id, threads);
}
DEVICE void mma_bf16(float d[4], const u32 a[4], u32 b0, u32 b1) {
  anabranch::emulator::mma(d, a, b0, b1, false);
}
// Rounded once: a product of two bf16 numbers is exact in double; its sum with c is rounded to odd there, and
// to odd in float, which leaves the last rounding what one of the exact sum is.
DEVICE u16 fma_bf16(u16 a, u16 b, u16 c) {
  const double x = (double)anabranch::bf16_to_float(a) * anabranch::bf16_to_float(b),
               y = anabranch::bf16_to_float(c), sum = x + y;
  const double part = sum - x, rest = (x - (sum - part)) + (y - part);  // sum + rest is exact
  u64 bits = std::bit_cast<u64>(sum);
  if (rest != 0 && bits % 2 == 0) bits += (rest > 0) == (sum > 0) ? 1 : -1;
  const double odd = std::bit_cast<double>(bits);
  u32 shorter = std::bit_cast<u32>((float)odd);
  const double back = std::bit_cast<float>(shorter);
  if (back != odd && !__builtin_isinf(back))
    shorter = (shorter - (__builtin_fabs(back) > __builtin_fabs(odd))) | 1;
  return anabranch::float_to_bf16(std::bit_cast<float>(shorter));
}
DEVICE u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  return fma_bf16(a, b, c) | (u32)fma_bf16(a >> 16, b >> 16, c >> 16) << 16;
}
DEVICE u32 byte_perm(u32 a, u32 b, u32 which) {
  const u64 bytes = (u64)b << 32 | a;
  u32 out = 0;
  for (int i = 0; i < 4; i++) {
    const u32 at = which >> 4 * i & 15;
    if (at > 7) anabranch::emulator::fail("byte_perm() with a place beyond 7 copies a sign");
    out |= (u32)(bytes >> 8 * at & 255) << 8 * i;
  }
  return out;
}
DEVICE u32 both_halves(u32 x, int half) {
  return (x >> 16 * half & 0xFFFF) * 0x10001u;
}
DEVICE void mma_f16(float d[4], const u32 a[4], u32 b0, u32 b1) {
  anabranch::emulator::mma(d, a, b0, b1, true);
}
DEVICE u32 pack_bf16(float low, float high) {
  return (u32)anabranch::float_to_bf16(high) << 16 | anabranch::float_to_bf16(low);
}
DEVICE u32 pack_f16(float low, float high) {
  return (u32)anabranch::float_to_f16(high) << 16 | anabranch::float_to_f16(low);
}
DEVICE float exp2_fast(float x) {
  return exp2f(x);
}
DEVICE float from_f16(u32 bits) {
  return anabranch::f16_to_float((u16)bits);
}
