// The last step of products that ranks split by their inputs (gemv.cu, SegmentArgs): every rank adds the sums of all
// segments, in order.
template <int LINES>
DEVICE void add_lines(const AddSegmentsArgs& a, int i) {
  const float residual = a.residual ? a.residual[i] : 0.0f;
  uint2 words[LINES];
  receive((const Line*)a.lines + i, a.count, a.epoch, a.failed, words);
  float sum = 0.0f;
#pragma unroll
  for (int l = 0; l < LINES; l++) {
    sum += __uint_as_float(words[l].x);
    if (LINES < kSegments) sum += __uint_as_float(words[l].y);
  }
  const float y = __fmul_rn(sum, a.scale);
  a.out[i] = a.residual ? __fadd_rn(y, residual) : y;
}

KERNEL add_segments_of_ranks(const __grid_constant__ AddSegmentsArgs a) {
  wait_for_previous();
  let_next_start();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x)
    if (a.lines_of == kSegments)
      add_lines<kSegments>(a, i);
    else
      add_lines<kSegments / 2>(a, i);
}
