// Preparation of queries, keys and values for attention: norm, rotation, storing in the cache.
DEVICE float in_f16_range(float x) { return fminf(fmaxf(x, -65504.0f), 65504.0f); }

// Applies norm and rotation to a row's head of queries, keys or values. Executed by a warp, with `all` in
// shared memory.
enum Kind { kQuery, kKey, kValue };
DEVICE void prepare_head(const AttendArgs& a, Kind kind, int row, int head, int position, float all[D],
                         float y[D / 32]) {
  const int lane = threadIdx.x % 32;
  const bool is_q = kind == kQuery;
  const float* from = is_q ? a.q : kind == kKey ? a.k : a.v;
  const float* x = from + ((long)row * (is_q ? a.heads : a.kv_heads) + head) * D;
#pragma unroll
  for (int i = 0; i < D / 32; i++) y[i] = x[i * 32 + lane];
  const float* norm = kind == kValue ? nullptr : is_q ? a.q_norm : a.k_norm;
  if (norm) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 32; i++) sum += y[i] * y[i];
    const float factor = 1.0f / sqrtf(warp_sum(sum) / D + (is_q ? a.q_eps : a.k_eps));
#pragma unroll
    for (int i = 0; i < D / 32; i++) y[i] *= factor * norm[i * 32 + lane];
  }
  if (kind == kValue || !a.inv_freq) return;
#pragma unroll
  for (int i = 0; i < D / 32; i++) all[i * 32 + lane] = y[i];
  __syncwarp();
  const int* positions = a.positions ? a.positions + (long)row * a.axes : &position;
  const int own = positions[0];
  const float* frequencies = a.far_from > 0 && own >= a.far_from ? a.far_inv_freq : a.inv_freq;
  float factor = a.attention_factor;
  if (is_q && a.query_beta != 0.0f) factor *= 1.0f + a.query_beta * logf(1.0f + (float)(own / a.query_period));
  for (int i = lane; i < a.pairs_turned; i += 32) {
    double sine, cosine;
    const double at = a.axis ? positions[(int)a.axis[i]] : own;
    sincos(at * (double)frequencies[i], &sine, &cosine);
    const float c = (float)cosine * factor, sn = (float)sine * factor;
    const float x1 = all[i], x2 = all[i + a.pairs_turned];
    all[i] = x1 * c - x2 * sn;
    all[i + a.pairs_turned] = x2 * c + x1 * sn;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < D / 32; i++) y[i] = all[i * 32 + lane];
  __syncwarp();
}
DEVICE u16 kept(float y) { return to_f16(in_f16_range(y)); }
// Stores a row's keys or values of a head in the cache.
DEVICE void cache_head(const AttendArgs& a, const AttendSpan& s, Kind kind, int head, int position,
                       const float y[D / 32]) {
  u16* block = (u16*)block_address(a, s.first_pair + position / kBlock, kind == kValue);
  const int column = position % kBlock, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    const int d = i * 32 + lane;
    block[kind == kValue ? value_place(head, column, d) : key_place(head, column, d)] = kept(y[i]);
  }
}

// Grid: one warp for each row and head.
KERNEL prepare(const __grid_constant__ AttendArgs a) {
  __shared__ float shared[8][D];
  wait_for_previous();
  let_next_start();
  const int q_heads = a.q ? a.heads : 0, units = q_heads + (a.k ? (kInKeys ? 1 : 2) * a.kv_heads : 0), lane = threadIdx.x % 32;
  const int unit = blockIdx.x * 8 + threadIdx.x / 32, row = a.first_row + unit / units, head = unit % units;
  if (unit / units >= a.rows) return;
  const AttendSpan& s = find_span(a, &AttendSpan::row, row);
  const int position = s.length - s.count + row - s.row;
  const Kind kind = head < q_heads ? kQuery : head < q_heads + a.kv_heads ? kKey : kValue;
  const int h = kind == kQuery ? head : (head - q_heads) % a.kv_heads;
  float y[D / 32];
  prepare_head(a, kind, row, h, position, shared[threadIdx.x / 32], y);
  if (kind != kQuery) return cache_head(a, s, kind, h, position, y);
  const long to = ((long)row * a.heads + h) * D;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    if (a.q_out) a.q_out[to + i * 32 + lane] = y[i];
    if (a.q16) a.q16[to + i * 32 + lane] = kept(y[i]);
  }
}
