// Joins parts that different blocks have stored: in order, just as one block joins its own.

// The index of a row's results for a part in a.sums and a.largest.
DEVICE long slot_of(const AttendArgs& a, const AttendSpan& s, int tile, int part, int kv_head, int row) {
  const int parts = (s.length - 1) / kPart + 1 - s.begin;
  return ((long)(s.first_slot + tile * parts + part - s.begin) * a.kv_heads + kv_head) * a.slot_rows + row;
}

// How a part is joined: the previous total is multiplied by `keep`, the part's numbers by `add`.
struct PartJoint {
  float keep, add, sum, unused;
};

// The maximum over this lane and the lanes before it.
DEVICE float largest_upto(float x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 1; i < 32; i *= 2) {
    const float left = __shfl_sync(~0u, x, lane - i);
    if (lane >= i) x = fmaxf(x, left);
  }
  return x;
}

// A group of 128 threads has 32 dimensions of a query row and head. It loads parts into shared memory,
// kTogether at a time and a.joined_ahead such batches ahead, and joins them in order.
constexpr int kRound = 1024, kTogether = 64;
struct Joining {
  float warp_largest[4], sum, unused[3];
  PartJoint joints[kRound];  // the launch allocates only as many as there are parts
};

// Computes the joints of `count` parts (at most kRound), 8 in each thread. of: the parts' largest scores and
// sums, `next` apart.
DEVICE void weigh_parts(Joining& to, const float2* of, long next, int count, float& largest, int thread, int barrier) {
  const int lane = thread % 32, warp = thread / 32;
  float2 own[8];
  float upto = nothing();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    own[i] = thread * 8 + i < count ? of[(thread * 8 + i) * next] : make_float2(nothing(), 0.0f);
    upto = fmaxf(upto, own[i].x);
  }
  upto = largest_upto(upto);
  barrier_sync(barrier, 128);  // the previous round has ended
  if (lane == 31) to.warp_largest[warp] = upto;
  barrier_sync(barrier, 128);
  float before = largest;
  const float left = __shfl_sync(~0u, upto, lane - 1);
  if (lane > 0) before = fmaxf(before, left);
  for (int w = 0; w < 4; w++) {
    if (w < warp) before = fmaxf(before, to.warp_largest[w]);
    largest = fmaxf(largest, to.warp_largest[w]);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    if (thread * 8 + i >= count) continue;
    const Joint j = join(before, own[i].x);
    to.joints[thread * 8 + i] = {j.keep, j.add, own[i].y, 0.0f};
  }
}

// Joins `count` parts to `total`; of(i) is the number of part i. KEPT: the total is never scaled, so products
// with 1 are left out.
template <bool KEPT, class Of>
DEVICE void join_parts(const PartJoint* joints, int count, float& total, const Of& of) {
#pragma unroll 16
  for (int i = 0; i < count; i++) {
    const float2 keep_add = *(const float2*)(joints + i);
    const Joint j = {keep_add.x, keep_add.y};
    total = KEPT ? __fmaf_rn(of(i), j.add, total) : joined(j, total, of(i));
  }
}

template <class Of>
DEVICE void join_parts(bool kept, const PartJoint* joints, int count, float& total, const Of& of) {
  if (kept)
    join_parts<true>(joints, count, total, of);
  else
    join_parts<false>(joints, count, total, of);
}

DEVICE void combine_unit(const AttendArgs& a, int row, int head, int d, u8* shared, int thread, int barrier) {
  const AttendSpan& s = find_span(a, &AttendSpan::row, row);
  if (s.splits <= 1 || row >= s.row + s.count) return;
  const int group = a.heads / a.kv_heads, index = (row - s.row) * group + head % group, lane = thread % 32;
  const int position = s.length - s.count + row - s.row;
  const int begin = a.window > 0 ? max(0, position - a.window + 1) / kPart : 0, count = max(position, seen_by_all(s)) / kPart + 1 - begin;
  const long slot = slot_of(a, s, index / 16, begin, head / group, index % 16), next = a.kv_heads * a.slot_rows;
  float(*ring)[kTogether][32] = (float(*)[kTogether][32])shared;
  Joining& joining = *(Joining*)(ring + a.joined_ahead);
  const float* from = a.sums + (slot + thread / 8 * next) * D + d + thread % 8 * 4;
  int asked = thread / 8;
  const auto ask = [&](int stage) {
#pragma unroll
    for (int i = 0; i < kTogether; i += 16) {
      copy16_async(shared_address(&ring[stage][i + thread / 8][thread % 8 * 4]), from, asked < count);
      from += 16 * next * D;
      asked += 16;
    }
    commit_copies();
  };
  for (int i = 0; i < a.joined_ahead; i++) ask(i);
  float largest = nothing(), total = 0.0f;
  int stage = 0;
  for (int first = 0; first < count; first += kTogether) {
    if (first % kRound == 0)
      weigh_parts(joining, (const float2*)a.largest + slot + first * next, next, min(kRound, count - first), largest,
                  thread, barrier);
    if (a.joined_ahead == kJoinedAhead)
      wait_copies<kJoinedAhead - 2>();
    else
      wait_copies<0>();
    barrier_sync(barrier, 128);
    if (first > 0) ask(stage > 0 ? stage - 1 : a.joined_ahead - 1);
    // The first warp joins values, the second warp the sums of weights.
    if (thread < 64) {
      const int here = min(kTogether, count - first);
      const PartJoint* joints = joining.joints + first % kRound;
      const bool changed =
          (lane < here && joints[lane].keep != 1.0f) || (lane + 32 < here && joints[lane + 32].keep != 1.0f);
      const bool kept = !__any_sync(~0u, changed);
      if (thread < 32)
        join_parts(kept, joints, here, total, [&](int i) { return ring[stage][i][lane]; });
      else
        join_parts(kept, joints, here, total, [&](int i) { return joints[i].sum; });
    }
    if (++stage == a.joined_ahead) stage = 0;
  }
  if (thread == 32) joining.sum = total;
  barrier_sync(barrier, 128);
  if (thread >= 32) return;
  float y = total * (1.0f / sum_with_sink(a, head, largest, joining.sum));
  if (a.gate) y *= sigmoid(a.gate[((long)row * a.heads + head) * D + d + lane]);
  const float other = __shfl_xor_sync(~0u, y, 1);
  if (lane % 2 == 0) store(a, row, head, d + lane, make_float2(y, other));
}

// Grid: D / 32, heads, rows.
KERNEL __launch_bounds__(128) combine(const __grid_constant__ AttendArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  wait_for_previous();
  let_next_start();
  combine_unit(a, a.first_row + blockIdx.z, blockIdx.y, blockIdx.x * 32, shared, threadIdx.x, 1);
}
