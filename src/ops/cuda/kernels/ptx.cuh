// Included first by every kernel file: short names, and functions for the few PTX instructions that we use.
// NVRTC gets no headers. tests/cuda/emulated_device.h has the same functions for a CPU.
#ifndef EMULATED_DEVICE
#pragma nv_diag_suppress 128, 177  // unreachable loops, unused functions
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void

// Programmatic dependent launch: a kernel's blocks may start before the previous kernel has ended, and wait
// here before they read or write anything except weights.
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Stores and loads of 16 bytes that are exchanged with other devices. Each half of 8 bytes arrives as
// a whole.
DEVICE void store_shared_line(void* to, uint4 x) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
DEVICE uint4 load_shared_line(const void* from) {
  uint4 x;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from)
               : "memory");
  return x;
}
DEVICE u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
DEVICE void trap() { asm volatile("trap;"); }

// Prefetches data that will be read after the wait, so that memory latency passes while the previous kernel
// ends.
DEVICE void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEVICE void copy16_async(u32 to, const void* from, bool wanted) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n}" ::"r"(to),
      "l"(from), "r"((int)wanted)
      : "memory");
}
DEVICE void copy8_async(u32 to, const void* from, bool wanted) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p cp.async.ca.shared.global [%0], [%1], 8;\n}" ::"r"(to),
               "l"(from), "r"((int)wanted)
               : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int N>
DEVICE void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Loads four matrices of 8 rows of 16 bytes: lane 8 i + j has the address of row j of matrix i, and receives
// from each matrix the 4 bytes for its mma fragment.
DEVICE void load_matrices(u32 row, u32 to[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
// The same of the transposed matrices.
DEVICE void load_transposed(u32 row, u32 to[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// Barriers in shared memory, which also count the bytes of bulk copies (Hopper).
DEVICE void barrier_init(u64* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
DEVICE void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
// Arrives when the thread's earlier copy16_async() copies have ended; the barrier counts this arrival.
DEVICE void barrier_arrive_after_copies(u64* b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}
DEVICE void barrier_expect(u64* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
DEVICE void barrier_wait(u64* b, int phase) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\n"
      "done:\n}" ::"r"(shared_address(b)),
      "r"(phase)
      : "memory");
}
DEVICE void copy_bulk(void* to, const void* from, int bytes, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b))
               : "memory");
}DEVICE void prefetch_bulk(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
// Makes the thread's writes visible to copies that are requested after the next barrier.
DEVICE void other_proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }

// copy_bulk() for data that is read once: it does not displace other data from the L2 cache.
DEVICE void copy_bulk_once(void* to, const void* from, int bytes, u64* b) {
  asm volatile(
      "{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy;\n}" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(b))
      : "memory");
}

DEVICE u32 load_acquire(const u32* p) {
  u32 x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}

// Waits until `threads` threads of the block have reached barrier `id`; 0 is the barrier of __syncthreads().
DEVICE void barrier_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// For two bf16 numbers each: a b + c, rounded once; denormals below 2^-126 are kept.
DEVICE u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
// Selects bytes of a (0 to 3) and b (4 to 7) by the lower 4 nibbles of `which`.
DEVICE u32 byte_perm(u32 a, u32 b, u32 which) { return __byte_perm(a, b, which); }
// One half (16 bits) of x, in both halves of the result.
DEVICE u32 both_halves(u32 x, int half) { return __byte_perm(x, x, half ? 0x3232 : 0x1010); }

// d += a b: a [16, 16], b [16, 8] bf16 (or f16), d [16, 8] f32. Lane (r = lane / 4, q = lane % 4) has of a
// rows r and r + 8 at inputs 2q, 2q + 1 (a0, a1) and 8 more (a2, a3), of b column r at the same inputs, of d
// rows r and r + 8 at columns 2q, 2q + 1.
DEVICE void mma_bf16(float d[4], const u32 a[4], u32 b0, u32 b1) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void mma_f16(float d[4], const u32 a[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE float from_f16(u32 bits) {
  float f;
  u16 h = (u16)bits;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
#endif
