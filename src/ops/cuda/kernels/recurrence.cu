// A recurrence of any rule over the tokens that recurrence_tokens.cu has made. A block has kRecurrenceColumns
// columns of one value head's state S [DK][DV] in registers: kParts lanes share kLaneColumns columns, and
// each has kRows of their rows. Tokens are applied one by one, in one order of operations, while the next
// ones are copied to shared memory. Rows and columns beyond those of the head are 0.
namespace recurrence {

constexpr int DK = kVariant.key_dim, DELTA = kVariant.delta, BY_KEY = kVariant.key_decay;
constexpr int kColumns = kRecurrenceColumns, kParts = 8, kLaneColumns = 2, kRows = DK / kParts, kGroups = 32 / kParts;
constexpr int kThreads = kColumns / kLaneColumns * kParts, kTokens = DK * (2 + BY_KEY) > 512 ? 4 : 8;

struct Tokens {
  float keys[kTokens][DK], queries[kTokens][DK], values[kTokens][kColumns];
  float decays[kTokens][BY_KEY ? DK : 4], betas[kTokens];
};
typedef float State[kRows][kLaneColumns];

struct Place {
  int head, key_head, column, left, part;  // column: the lane's first; left: columns of the head from there on
  bool draft;
};

// Row i of a lane's part is row first_row + row_offset(i) of the head.
DEVICE constexpr int row_offset(int i) { return i / 4 * 4 * kParts + i % 4; }
DEVICE int first_row(const Place& p) { return p.part * 4; }

DEVICE void read_rows(const float* from, const Place& p, float to[kRows]) {
#pragma unroll
  for (int i = 0; i < kRows; i += 4) {
    const float4 x = *(const float4*)(from + first_row(p) + row_offset(i));
    to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
  }
}
// The same of numbers in memory that are not padded.
DEVICE void read_entry_rows(const float* from, int dim, const Place& p, float to[kRows]) {
#pragma unroll
  for (int i = 0; i < kRows; i++) {
    const int row = first_row(p) + row_offset(i);
    to[i] = row < dim ? from[row] : 0.0f;
  }
}
DEVICE void read_columns(const float* from, const Place& p, bool pairs, float to[kLaneColumns]) {
  if (pairs && p.left >= 2) {
    const float2 x = *(const float2*)from;
    to[0] = x.x, to[1] = x.y;
  } else {
    to[0] = p.left > 0 ? from[0] : 0.0f;
    to[1] = p.left > 1 ? from[1] : 0.0f;
  }
}
DEVICE void write_columns(const float from[kLaneColumns], const Place& p, bool pairs, float* to) {
  if (pairs && p.left >= 2) {
    *(float2*)to = float2{from[0], from[1]};
  } else {
    if (p.left > 0) to[0] = from[0];
    if (p.left > 1) to[1] = from[1];
  }
}

// S = g S, then S = S + key d.
DEVICE void decay_state(const float* decays, State state) {
#pragma unroll
  for (int i = 0; i < kRows; i++)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) state[i][c] = __fmul_rn(decays[BY_KEY ? i : 0], state[i][c]);
}
DEVICE void add_to_state(const float keys[kRows], const float d[kLaneColumns], State state) {
#pragma unroll
  for (int i = 0; i < kRows; i++)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) state[i][c] = __fmaf_rn(keys[i], d[c], state[i][c]);
}
// x S for the lane's columns.
DEVICE void dots(const float x[kRows], const State state, float sums[kLaneColumns]) {
  float halves[2][kLaneColumns];
#pragma unroll
  for (int i = 0; i < kRows; i++)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++)
      halves[i % 2][c] = i < 2 ? __fmul_rn(x[i], state[i][c]) : __fmaf_rn(x[i], state[i][c], halves[i % 2][c]);
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) {
    sums[c] = __fadd_rn(halves[0][c], halves[1][c]);
#pragma unroll
    for (int step = kGroups; step < 32; step *= 2)
      sums[c] = __fadd_rn(sums[c], __shfl_xor_sync(~0u, sums[c], step));
  }
}

DEVICE long state_row(const RecurrenceArgs& a, const Place& p, int row) {
  return ((long)p.head * a.key_dim + row) * a.value_dim + p.column;
}
DEVICE void store_state(const RecurrenceArgs& a, const DeltaSpan& s, const Place& p, const State state) {
#pragma unroll
  for (int i = 0; i < kRows; i++) {
    const int row = first_row(p) + row_offset(i);
    if (row < a.key_dim) write_columns(state[i], p, a.value_dim % 2 == 0, s.s_out + state_row(a, p, row));
  }
}
// Loads the state and applies the replayed entries.
DEVICE void load_state(const RecurrenceArgs& a, const DeltaSpan& s, const Place& p, State state) {
  const bool pairs = a.value_dim % 2 == 0;
#pragma unroll
  for (int i = 0; i < kRows; i++) {
    const int row = first_row(p) + row_offset(i);
    state[i][0] = state[i][1] = 0.0f;
    if (row < a.key_dim) read_columns(s.s_in + state_row(a, p, row), p, pairs, state[i]);
  }
  for (long entry = 0; entry < s.replay; entry++) {
    float keys[kRows], d[kLaneColumns], decays[BY_KEY ? kRows : 1];
    const long of_head = entry * a.value_heads + p.head;
    read_entry_rows(s.from.k + (entry * a.key_heads + p.key_head) * a.key_dim, a.key_dim, p, keys);
    read_columns(s.from.delta + of_head * a.value_dim + p.column, p, pairs, d);
    if (BY_KEY)
      read_entry_rows(s.from.decay + of_head * a.key_dim, a.key_dim, p, decays);
    else
      decays[0] = s.from.decay[of_head];
    decay_state(decays, state);
    add_to_state(keys, d, state);
  }
  if (p.draft && s.fold) store_state(a, s, p, state);
}

// Requests up to kTokens tokens from `first` on.
DEVICE void copy_numbers(float* to, int stride, const float* from, long from_stride, int width, int tokens) {
  const int pieces = width / 4;
  for (int i = threadIdx.x; i < tokens * pieces; i += kThreads)
    copy16_async(shared_address(to + i / pieces * stride + i % pieces * 4),
                 from + i / pieces * from_stride + i % pieces * 4, true);
}
DEVICE void copy_tokens(const RecurrenceArgs& a, const DeltaSpan& s, const Place& p, int first, Tokens& to) {
  const int tokens = min(s.count - first, kTokens), padded = a.padded_value;
  const long row = s.row + first, key = (row * a.key_heads + p.key_head) * DK, of_keys = (long)a.key_heads * DK;
  const long value = row * a.value_heads + p.head;
  copy_numbers(to.keys[0], DK, a.keys + key, of_keys, DK, tokens);
  copy_numbers(to.queries[0], DK, a.queries + key, of_keys, DK, tokens);
  copy_numbers(to.values[0], kColumns, a.values + value * padded + blockIdx.x * kColumns,
               (long)a.value_heads * padded, kColumns, tokens);
  if (BY_KEY) copy_numbers(to.decays[0], DK, a.decay + value * DK, (long)a.value_heads * DK, DK, tokens);
  const int t = threadIdx.x;
  if (t >= tokens) return;
  to.betas[t] = a.beta[value + t * a.value_heads];
  if (!BY_KEY) to.decays[t][0] = a.decay[value + t * a.value_heads];
}

DEVICE void apply_token(const RecurrenceArgs& a, const DeltaSpan& s, const Place& p, const Tokens& from, int t,
                        long token, float skip, State state) {
  float keys[kRows], queries[kRows], decays[BY_KEY ? kRows : 1], v[kLaneColumns], d[kLaneColumns], y[kLaneColumns];
  const int own = p.column % kColumns;
  read_rows(from.keys[t], p, keys);
  if (BY_KEY)
    read_rows(from.decays[t], p, decays);
  else
    decays[0] = from.decays[t][0];
  read_rows(from.queries[t], p, queries);
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) v[c] = d[c] = from.values[t][own + c];
  decay_state(decays, state);
  if (DELTA) {
    float read[kLaneColumns];
    dots(keys, state, read);
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) d[c] = __fadd_rn(d[c], -read[c]);
  }
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) d[c] = __fmul_rn(from.betas[t], d[c]);
  add_to_state(keys, d, state);
  dots(queries, state, y);
  if (p.part > 0) return;
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) y[c] = __fmaf_rn(skip, v[c], y[c]);
  const bool pairs = a.value_dim % 2 == 0;
  const long values = (long)a.value_heads * a.value_dim, column = (long)p.head * a.value_dim + p.column;
  write_columns(y, p, pairs, a.y + (s.row + token) * values + column);
  if (p.draft) write_columns(d, p, pairs, s.to.delta + (s.entry + token) * values + column);
}

// Prefetches the block's part of the state, to hide memory latency.
DEVICE void prefetch_state(const RecurrenceArgs& a, const DeltaSpan& s, int head) {
  for (int row = threadIdx.x; row < a.key_dim; row += kThreads)
    prefetch(s.s_in + ((long)head * a.key_dim + row) * a.value_dim + blockIdx.x * kColumns);
}

}  // namespace recurrence
using namespace recurrence;

KERNEL __launch_bounds__(kThreads) recur(const __grid_constant__ RecurrenceArgs a) {
  extern __shared__ __align__(128) u8 shared[];
  Tokens* const tokens = (Tokens*)shared;
  const DeltaSpan& s = a.span[blockIdx.z];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y;
  const int column = blockIdx.x * kColumns + (warp * kGroups + lane % kGroups) * kLaneColumns;
  const Place p = {head, head / (a.value_heads / a.key_heads), column, a.value_dim - column, lane / kGroups, s.entry >= 0};
  prefetch_state(a, s, head);
  // If the previous launch was for other states, the two run concurrently, and end in order.
  if (!a.beside) wait_for_previous();
  let_next_start();
  if (s.count > 0) copy_tokens(a, s, p, 0, tokens[0]);
  commit_copies();
  const float skip = a.skip ? a.skip[head] : 0.0f;
  State state;
  load_state(a, s, p, state);
  for (int first = 0; first < s.count; first += kTokens) {
    const int round = first / kTokens % 2;
    if (first + kTokens < s.count) copy_tokens(a, s, p, first + kTokens, tokens[1 - round]);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    for (int t = 0; t < min(s.count - first, kTokens); t++) apply_token(a, s, p, tokens[round], t, first + t, skip, state);
    __syncthreads();
  }
  if (!p.draft) store_state(a, s, p, state);
  if (a.beside) wait_for_previous();
}
