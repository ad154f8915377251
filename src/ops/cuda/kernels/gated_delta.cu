// The gated delta rule: one block for COLUMNS columns of a value head of a span.
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
    if (MAKERS || gridDim.z > 1) let_next_start();
  };
#if MAKERS
  wait();
  if (thread < kAppliers)
    apply_all(a, s, p, thread, shared);
  else
    make_all(a, s, p, thread - kAppliers, shared);
#else
  prefetch_state(s, p.head, p.column0, thread);
  few_tokens(a, s, p, thread, shared, wait);
#endif
  if (a.beside) wait_for_previous();
}
