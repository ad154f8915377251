// One rank's part of an exchange between devices (ops/collective.h): its pieces of rows go to every rank's memory, then it
// tells the others so, and waits until they have told the same. The kernel after it finds all pieces.
DEVICE void tell(unsigned* flag, unsigned epoch) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(epoch) : "memory");
}
DEVICE unsigned told(const unsigned* flag) {
  unsigned epoch;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(epoch) : "l"(flag) : "memory");
  return epoch;
}
DEVICE u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
DEVICE unsigned seen(const unsigned* p) { return *(const volatile unsigned*)p; }

// Waits for another rank. When that has failed, or says nothing for a minute, so must this one: what follows would be
// wrong.
DEVICE void wait_for(const unsigned* flag, unsigned epoch, const unsigned* failed) {
  const u64 begin = now();
  for (int i = 1; (int)(told(flag) - epoch) < 0; i++) {
    if (i % 4096 == 0 && (seen(failed) || now() - begin > 60000000000ull)) asm volatile("trap;");
  }
}

KERNEL exchange(const __grid_constant__ ExchangeArgs a) {
  wait_for_previous();
  let_next_start();
  const unsigned count = a.rows * a.row_pieces, step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const long to = (long)(i / a.row_pieces) * a.all_pieces + a.first_piece + i % a.row_pieces;
    float4 piece = ((const float4*)a.from)[i];
    if (a.residual) {
      const float4 more = ((const float4*)a.residual)[to];
      piece.x += more.x, piece.y += more.y, piece.z += more.z, piece.w += more.w;
    }
    for (int r = 0; r < a.ranks; r++) ((float4*)a.to[r])[to] = piece;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(a.counter, 1) == gridDim.x - 1) {
    *a.counter = 0;
    __threadfence_system();
    for (int r = 0; r < a.ranks; r++)
      if (r != a.rank) tell(a.flags[r] + a.rank, a.epoch);
  }
  if (blockIdx.x == 0 && threadIdx.x < a.ranks && threadIdx.x != a.rank)
    wait_for(a.flags[a.rank] + threadIdx.x, a.epoch, a.failed);
}
