// The gated delta rule for any number of tokens: one block for COLUMNS columns of a value head of a span. Some
// threads apply tokens while the others make the next ones.
namespace delta_rule {

struct Shared {
  Tokens tokens[2];
  Applied applied[2];
};

// Processes any number of tokens: the first kAppliers threads apply them in rounds of kTokens; the makers
// prepare the tokens of the next round and finish the outputs of the previous one.
DEVICE void apply_all(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, Shared& m) {
  State state;
  load_state(a, s, p, thread, state);
  const int part = own_part(thread), own = own_column(thread);
  for (int first = 0; first < s.count; first += kTokens) {
    const Tokens& from = m.tokens[first / kTokens % 2];
    Applied& to = m.applied[first / kTokens % 2];
    const int tokens = min(kTokens, s.count - first);
    barrier_sync(0, kThreads);
    Operands now, next;
    read_operands(from, thread, 0, now);
#pragma unroll 2
    for (int t = 0; t < tokens; t++) {
      float d[kLaneColumns], asked[kLaneColumns];
      apply_token(now, state, d, asked, [&] {
        __syncwarp();
        read_operands(from, thread, min(t + 1, kTokens - 1), next);
      });
      write<kLaneColumns>(asked, &to.asked[t][part][own]);
      if (part == 0) write<kLaneColumns>(d, &to.d[t][own]);
      now = next;
    }
  }
  barrier_sync(0, kThreads);
  if (!p.draft) store_state(s, p, thread, state);
}
DEVICE void finish(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, int first, const Shared& m) {
  const Tokens& made = m.tokens[first / kTokens % 2];
  const Applied& from = m.applied[first / kTokens % 2];
  const int tokens = min(kTokens, s.count - first);
  for (int i = thread; i < tokens * COLUMNS; i += kMakers - kConvolvers) {
    const int t = i / COLUMNS, own = i % COLUMNS;
    const long values = a.value_heads * DV, column = p.head * DV + p.column0 + own;
    const float d = from.d[t][own];
    a.y[(s.row + first + t) * values + column] = output(added_parts(from.asked[t], own), d, made.gates[t]);
    if (p.draft) s.to.delta[(s.entry + first + t) * values + column] = d;
  }
}
// The makers' rounds: the outputs of the round before last are finished before its tokens are overwritten.
template <class Make>
DEVICE void make_rounds(const DeltaSpan& s, const Place& p, int maker, Shared& m, const Make& make) {
  for (int first = 0; first < s.count; first += kTokens) {
    Tokens& to = m.tokens[first / kTokens % 2];
    make(first, to);
    barrier_sync(1, kMakers);
    make_norms(s, p, maker, first, to);
    barrier_sync(0, kThreads);
  }
}
DEVICE void make_all(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int maker, Shared& m) {
  static_assert(kConvolvers + 32 <= kMakers, "a maker has one channel, some have none");
  if (maker < kConvolvers) {
    Channel channel;
    float rows[kTokens];
    read_taps(a, p, maker, channel);
    read_before(s, p, channel);
    read_rows(a, s, p, channel, 0, rows);
    if (p.draft && s.fold) write_before(s, p, channel);
    make_rounds(s, p, maker, m, [&](int first, Tokens& to) {
      convolve(s, p, channel, rows, first, to);
      read_rows(a, s, p, channel, first + kTokens, rows);
    });
    if (!p.draft) write_before(s, p, channel);
    barrier_sync(0, kThreads);
  } else {
    const int own = maker - kConvolvers, last = (s.count - 1) / kTokens * kTokens;
    Gates gates;
    read_gates(a, s, p, own, gates);
    make_rounds(s, p, maker, m, [&](int first, Tokens& to) {
      if (first >= 2 * kTokens) {
        finish(a, s, p, own, first - 2 * kTokens, m);
        barrier_sync(2, kMakers - kConvolvers);
      }
      make_gates(a, s, p, gates, first, own, to);
      if (own < kTokens) read_gates(a, s, p, first + kTokens + own, gates);
    });
    if (last >= kTokens) finish(a, s, p, own, last - kTokens, m);
    barrier_sync(0, kThreads);
    finish(a, s, p, own, last, m);
  }
}

}  // namespace delta_rule
using namespace delta_rule;

KERNEL __launch_bounds__(kThreads, kBlocks) delta(const __grid_constant__ DeltaArgs a) {
  __shared__ __align__(16) Shared shared;
  const DeltaSpan& s = a.span[blockIdx.z];
  const Place p = place_of(a, s, blockIdx.y, blockIdx.x * COLUMNS);
  const int thread = threadIdx.x;
  // If the previous launch was for other states, the two run concurrently, and end in order.
  if (!a.beside) wait_for_previous();
  let_next_start();
  if (thread < kAppliers)
    apply_all(a, s, p, thread, shared);
  else
    make_all(a, s, p, thread - kAppliers, shared);
  if (a.beside) wait_for_previous();
}
