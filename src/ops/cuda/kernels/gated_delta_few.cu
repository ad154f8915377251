// The gated delta rule for few tokens: one block for COLUMNS columns of a value head of a span, whose threads
// all make tokens and then apply them.
namespace delta_rule {

struct Shared {
  Tokens tokens;
  float y[kTokens][COLUMNS], gate[kTokens][COLUMNS];  // inputs of the output norm: y and output_gate()
};

// The output norm of the block's head, the same as norm_heads (rows.cu).
DEVICE void read_gate(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, Shared& m) {
  for (int i = kThreads - 1 - thread; i < s.count * COLUMNS; i += kThreads)
    m.gate[i / COLUMNS][i % COLUMNS] =
        output_gate(a.gate[(long)(s.row + i / COLUMNS) * a.value_heads * DV + p.head * DV + i % COLUMNS],
                    a.sigmoid_gate);
}
DEVICE void norm_output(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, const Shared& m) {
  constexpr int kLane = (COLUMNS + 31) / 32;
  const int lane = thread % 32;
  for (int first = 0; first < kTokens; first += kThreads / 32) {
    const int t = first + thread / 32;
    if (t >= s.count) break;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kLane; i++) sum = __fmaf_rn(m.y[t][lane + i * 32], m.y[t][lane + i * 32], sum);
    const float factor = head_factor(sum, DV, a.eps);
    const long row = s.row + t;
#pragma unroll
    for (int i = 0; i < kLane; i++) {
      const int own = lane + i * 32, at = p.head * DV + own;
      const float y = head_norm(m.y[t][own], factor, a.norm_weight[own], m.gate[t][own]);
      if (a.tiles) a.tiles[tile_index(row, at, a.tiles_rows)] = to_bf16(y);
      if (a.out) a.out[row * a.value_heads * DV + at] = y;
    }
  }
}

// Prefetches the block's part of the state, to hide memory latency.
DEVICE void prefetch_state(const DeltaSpan& s, int head, int column0, int thread) {
  constexpr int kLine = 32;
  for (int i = thread; i < DK * COLUMNS / kLine; i += kThreads)
    prefetch(s.s_in + (long)(head * DK + i / (COLUMNS / kLine)) * DV + column0 + i % (COLUMNS / kLine) * kLine);
}

// Processes up to kTokens tokens of a span with all kThreads threads. Before wait() it only reads weights,
// and prefetches other memory.
template <class Wait>
DEVICE void few_tokens(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, Shared& m, const Wait& wait) {
  Tokens& made = m.tokens;
  const int warp = thread / 32, lane = thread % 32;
  Channel channel[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) read_taps(a, p, thread + i * kThreads, channel[i]);
  wait();
  State state;
  Gates gates;
  if (warp == kThreads / 32 - 1) read_gates(a, s, p, lane, gates);
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    float rows[kTokens];
    read_rows(a, s, p, channel[i], 0, rows);
    read_before(s, p, channel[i]);
    if (p.draft && s.fold) write_before(s, p, channel[i]);
    convolve(s, p, channel[i], rows, 0, made);
    if (!p.draft) write_before(s, p, channel[i]);
  }
  if (a.gate) read_gate(a, s, p, thread, m);
  if (warp == kThreads / 32 - 1) make_gates(a, s, p, gates, 0, lane, made);
  load_state(a, s, p, thread, state);
  barrier_sync(0, kThreads);
  if (gridDim.z == 1) let_next_start();  // not earlier: the next launch's weights would delay these loads
  make_norms(s, p, thread, 0, made);
  barrier_sync(0, kThreads);
  for (int t = 0; t < s.count; t++) {
    Operands o;
    float d[kLaneColumns], y[kLaneColumns];
    read_operands(made, thread, t, o);
    apply_token(o, state, d, y, [] {});
    add_parts(y);
    if (own_part(thread) > 0) continue;
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) y[c] = output(y[c], d[c], made.gates[t]);
    const int own = own_column(thread), column = p.head * DV + p.column0 + own;
    write<kLaneColumns>(y, a.gate ? &m.y[t][own] : a.y + (long)(s.row + t) * a.value_heads * DV + column);
    if (p.draft) write<kLaneColumns>(d, s.to.delta + (long)(s.entry + t) * a.value_heads * DV + column);
  }
  if (a.gate) {
    barrier_sync(0, kThreads);
    norm_output(a, s, p, thread, m);
  }
  if (!p.draft) store_state(s, p, thread, state);
}

}  // namespace delta_rule
using namespace delta_rule;

KERNEL __launch_bounds__(kThreads, kBlocks) delta(const __grid_constant__ DeltaArgs a) {
  __shared__ __align__(16) Shared shared;
  const DeltaSpan& s = a.span[blockIdx.z];
  const Place p = place_of(a, s, blockIdx.y, blockIdx.x * COLUMNS);
  const int thread = threadIdx.x;
  // If the previous launch was for other states, the two run concurrently, and end in order. With a single
  // span, the next launch starts later (few_tokens()).
  const auto wait = [&] {
    if (!a.beside) wait_for_previous();
    if (gridDim.z > 1) let_next_start();
  };
  prefetch_state(s, p.head, p.column0, thread);
  few_tokens(a, s, p, thread, shared, wait);
  if (a.beside) wait_for_previous();
}
