// Chooses tokens (ops/choose.h) in up to four launches: the best numbers of each part of a row, those of the
// row, and for draws from all tokens the best draw of each part and of the row. The order of numbers
// (rank_of) has no ties, and sums are of integers, so the result does not depend on timing.
using namespace anabranch::ops;

constexpr int kEach = kChoosePart / kChooseThreads;  // numbers per thread

DEVICE u64 most(const u64 (&ranks)[kEach]) {
  u64 x = 0;
#pragma unroll
  for (int i = 0; i < kEach; i++) x = max(x, ranks[i]);
  return x;
}

// The maximum over all threads, returned to thread 0.
DEVICE u64 block_most(u64 x) {
  __shared__ u64 shared[kChooseThreads / 32];
  for (int i = 16; i > 0; i >>= 1) x = max(x, __shfl_xor_sync(~0u, x, i));
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  for (int i = 0; i < kChooseThreads / 32; i++) x = max(x, shared[i]);
  return x;
}

// Sorts 2^n numbers in shared memory, the largest first (Batcher's bitonic network).
DEVICE void sort(u64* list, int count) {
  for (int k = 2; k <= count; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      for (int i = threadIdx.x; i < count / 2; i += kChooseThreads) {
        const int low = 2 * i - (i & (j - 1)), high = low + j;
        const u64 a = list[low], b = list[high];
        if ((a < b) == ((low & k) == 0)) list[low] = b, list[high] = a;
      }
      __syncthreads();
    }
}

// Stores the kMostTopK largest of the block's numbers at the front of list, sorted (0: there are fewer). The
// kMostTopK-th largest of the threads' maxima is a lower bound: at least kMostTopK numbers reach it, and at
// most kEach times as many.
DEVICE void select(const u64 (&ranks)[kEach], u64* list) {
  __shared__ int count;
  list[threadIdx.x] = most(ranks);
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  sort(list, kChooseThreads);
  const u64 least = list[kChosen - 1];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kEach; i++)
    if (ranks[i] > 0 && ranks[i] >= least) list[atomicAdd(&count, 1)] = ranks[i];
  __syncthreads();
  int size = kChosen;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kChooseThreads) list[i] = 0;
  __syncthreads();
  sort(list, size);
}

// NaN becomes the largest score, so that the host finds it, too.
DEVICE float score_of(const ChooseRow& row, const float* logits, int token) {
  const float x = logits[token];
  if (x != x) return __uint_as_float(0x7F800000u);
  return row.kind == kGreedy ? x : x / row.temperature;
}
DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u; }

KERNEL choose_parts(const __grid_constant__ ChooseArgs a) {
  __shared__ u64 list[kChosen * kEach];
  wait_for_previous();
  let_next_start();
  const ChooseRow row = a.rows[blockIdx.y];
  if (row.kind == kNotHere) return;
  const float* logits = a.logits + (long)blockIdx.y * a.vocab;
  u64* out = a.ranks + ((long)blockIdx.y * gridDim.x + blockIdx.x) * kChosen;
  u64 ranks[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int token = blockIdx.x * kChoosePart + i * kChooseThreads + threadIdx.x;
    ranks[i] = token < a.vocab ? rank_of(score_of(row, logits, token), token) : 0;
  }
  if (row.kind == kTopK) {
    select(ranks, list);
    if (threadIdx.x < kChosen) out[threadIdx.x] = list[threadIdx.x];
  } else {
    const u64 best = block_most(most(ranks));
    if (threadIdx.x == 0) out[0] = best;
  }
}

// The number of sorted candidates that top_p keeps. Executed by one thread, because there are few.
DEVICE int keep_likely(const ChooseRow& row, const u64* list, const LongWord* weights, int count) {
  if (!(row.top_p < 1.0f)) return count;
  LongWord sum = 0, reached = 0;
  for (int i = 0; i < count; i++) sum += weights[i];
  const double enough = times((double)row.top_p, (double)sum);
  int keep = 0;
  while (keep < count && (keep == 0 || (double)reached < enough)) reached += weights[keep++];
  return keep;
}

DEVICE u64 draw(const ChooseRow& row, float score, int token) {
  return rank_of(score + noise_of(random_words(row.seed, row.position, (Word)token)), token);
}

DEVICE u64 best_of_parts(const u64* from, int parts) {
  u64 best = 0;
  for (int i = threadIdx.x; i < parts; i += kChooseThreads) best = max(best, from[i * kChosen]);
  return block_most(best);
}

KERNEL choose_rows(const __grid_constant__ ChooseArgs a) {
  __shared__ u64 list[kChosen * kEach];
  __shared__ LongWord weights[kChosen];
  __shared__ int kept;
  wait_for_previous();
  let_next_start();
  const ChooseRow row = a.rows[blockIdx.x];
  const u64* from = a.ranks + (long)blockIdx.x * a.parts * kChosen;
  if (row.kind != kTopK) {
    const u64 best = row.kind == kNotHere ? 0 : best_of_parts(from, a.parts);
    if (threadIdx.x > 0) return;
    const bool found = best > 0 && is_finite(value_of(best));
    a.chosen[blockIdx.x] = found && row.kind == kGreedy ? token_of(best) : -1;
    a.best[blockIdx.x] = found ? best : 0;
    return;
  }
  // A block can sort kChoosePart numbers at a time: the best so far and the next ones.
  const int all = a.parts * kChosen;
  for (int first = 0, held = 0; first < all; first += kChoosePart - held, held = kChosen) {
    u64 ranks[kEach];
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int at = i * kChooseThreads + threadIdx.x, next = first + at - held;
      ranks[i] = at < held ? list[at] : next < all ? from[next] : 0;
    }
    __syncthreads();
    select(ranks, list);
  }
  const float top = value_of(list[0]);
  const float score = threadIdx.x < kChosen && list[threadIdx.x] > 0 ? value_of(list[threadIdx.x]) : 0.0f;
  if (threadIdx.x < kChosen)
    weights[threadIdx.x] = list[threadIdx.x] > 0 ? weight_of((double)score - (double)top) : 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    int count = 0;
    while (count < row.top_k && list[count] > 0) count++;
    kept = keep_likely(row, list, weights, count);
  }
  __syncthreads();
  const bool drawn =
      threadIdx.x < kept && (threadIdx.x == 0 || !(score < top + row.behind_top));
  const u64 winner = block_most(drawn ? draw(row, score, token_of(list[threadIdx.x])) : 0);
  if (threadIdx.x == 0) a.chosen[blockIdx.x] = is_finite(top) ? token_of(winner) : -1;
}

KERNEL choose_noise(const __grid_constant__ ChooseArgs a) {
  wait_for_previous();
  let_next_start();
  const ChooseRow row = a.rows[blockIdx.y];
  const u64 best = a.best[blockIdx.y];
  if (row.kind != kNoise || best == 0) return;
  const float* logits = a.logits + (long)blockIdx.y * a.vocab;
  const float top = value_of(best), least = top + row.behind_top;
  u64 winner = draw(row, top, token_of(best));
  float ahead = value_of(winner);
  for (int i = 0; i < kEach; i++) {
    const int token = blockIdx.x * kChoosePart + i * kChooseThreads + threadIdx.x;
    if (token >= a.vocab) break;
    const float score = score_of(row, logits, token);
    if (score < least || score + kMostNoise < ahead) continue;
    const RandomWords words = random_words(row.seed, row.position, (Word)token);
    if (score + most_noise(words) < ahead) continue;
    winner = max(winner, (u64)rank_of(score + noise_of(words), token));
    ahead = value_of(winner);
  }
  winner = block_most(winner);
  if (threadIdx.x == 0) a.ranks[((long)blockIdx.y * a.parts + blockIdx.x) * kChosen] = winner;
}

KERNEL choose_drawn(const __grid_constant__ ChooseArgs a) {
  wait_for_previous();
  let_next_start();
  if (a.rows[blockIdx.x].kind != kNoise || a.best[blockIdx.x] == 0) return;
  const u64* from = a.ranks + (long)blockIdx.x * a.parts * kChosen;
  const u64 winner = best_of_parts(from, a.parts);
  if (threadIdx.x == 0) a.chosen[blockIdx.x] = token_of(winner);
}
