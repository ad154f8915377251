// One rank's part of an exchange between devices (ops/collective.h): writes its pieces of rows to every
// rank's memory, signals the other ranks, and waits for their signals. The next kernel finds all pieces.
DEVICE void tell(unsigned* flag, unsigned epoch) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(epoch) : "memory");
}
DEVICE unsigned told(const unsigned* flag) {
  unsigned epoch;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(epoch) : "l"(flag) : "memory");
  return epoch;
}

// Waits for another rank.
DEVICE void wait_for(const unsigned* flag, unsigned epoch, const unsigned* failed) {
  const u64 begin = nanoseconds();
  for (int i = 1; (int)(told(flag) - epoch) < 0; i++)
    if (i % 4096 == 0) check_time(begin, failed);
}

DEVICE float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// The same as exchange() for few bytes: the other ranks send lines, and each rank copies them into its own
// `to`.
KERNEL exchange_few(const __grid_constant__ ExchangeArgs a) {
  wait_for_previous();
  let_next_start();
  const unsigned step = gridDim.x * blockDim.x, begin = blockIdx.x * blockDim.x + threadIdx.x;
  uint4* own = (uint4*)a.to[a.rank];
  for (unsigned i = begin; i < a.rows * a.row_pieces; i += step) {
    const long to = (long)(i / a.row_pieces) * a.all_pieces + a.first_piece + i % a.row_pieces;
    uint4 piece = ((const uint4*)a.from)[i];
    if (a.residual) {
      const float4 sum = plus(*(float4*)&piece, ((const float4*)a.residual)[to]);
      piece = *(const uint4*)&sum;
    }
    own[to] = piece;
    for (int r = 0; r < a.ranks; r++) {
      if (r == a.rank) continue;
      Line* lines = (Line*)a.lines[r] + 2 * to;
      send(lines, piece.x, piece.y, a.epoch), send(lines + 1, piece.z, piece.w, a.epoch);
    }
  }
  const Line* lines = (const Line*)a.lines[a.rank];
  for (unsigned to = begin; to < a.all_rows * a.all_pieces; to += step) {
    const unsigned at = to % a.all_pieces - a.first_piece;  // a huge number if `to` is before the rank's pieces
    if (a.rows > 0 && at < a.row_pieces) continue;
    uint2 words[2];
    receive(lines + 2 * to, 1, a.epoch, a.failed, words);
    own[to] = make_uint4(words[0].x, words[0].y, words[1].x, words[1].y);
  }
}

KERNEL exchange(const __grid_constant__ ExchangeArgs a) {
  constexpr int kHeld = 4;  // pieces per thread that are in flight together
  wait_for_previous();
  let_next_start();
  const unsigned count = a.rows * a.row_pieces, step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += kHeld * step) {
    float4 piece[kHeld], more[kHeld];
    long to[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; h++) {
      const unsigned at = min(i + h * step, count - 1);
      to[h] = (long)(at / a.row_pieces) * a.all_pieces + a.first_piece + at % a.row_pieces;
      piece[h] = ((const float4*)a.from)[at];
      if (a.residual) more[h] = ((const float4*)a.residual)[to[h]];
    }
#pragma unroll
    for (int h = 0; h < kHeld; h++) {
      if (i + h * step >= count) break;
      if (a.residual) piece[h] = plus(piece[h], more[h]);
      for (int r = 0; r < a.ranks; r++) ((float4*)a.to[r])[to[h]] = piece[h];
    }
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
