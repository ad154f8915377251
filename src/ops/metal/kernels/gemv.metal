// y [M, N] = x [M, K] W^T for a weight in MLX's affine format: codes [N, K * BITS / 32] words, least significant
// code first, scales and biases [N, K / GROUP]. A simdgroup makes OUTS outputs of ROWS rows and reads their codes
// once. A row's sum is made in one order, whatever stands beside it.
// BITS: 2, 4 or 8; GROUP: a multiple of 32 / BITS; ROWS: at most 16.
constexpr int OUTS = 4;
const int PER = 32 / BITS, WORDS = K / PER, GROUPS = K / GROUP, M = x_shape[0];
const uint MASK = (1u << BITS) - 1;
const int lane = thread_position_in_grid.x;
const int first_out = thread_position_in_grid.y * OUTS, first_row = thread_position_in_grid.z * ROWS;

float sums[16][OUTS];
for (int m = 0; m < ROWS; m++)
  for (int o = 0; o < OUTS; o++) sums[m][o] = 0;

for (int w = lane; w < WORDS; w += 32) {
  uint words[OUTS];
  float scale[OUTS], bias[OUTS];
  for (int o = 0; o < OUTS; o++) {
    const int n = min(first_out + o, N - 1), g = w * PER / GROUP;
    words[o] = codes[n * WORDS + w];
    scale[o] = scales[n * GROUPS + g];
    bias[o] = biases[n * GROUPS + g];
  }
  for (int m = 0; m < ROWS; m++) {
    const int at = min(first_row + m, M - 1) * K + w * PER;
    float all = 0, products[OUTS] = {0, 0, 0, 0};
    for (int j = 0; j < PER; j++) {
      const float value = x[at + j];
      all += value;
      for (int o = 0; o < OUTS; o++) products[o] += value * float((words[o] >> (BITS * j)) & MASK);
    }
    for (int o = 0; o < OUTS; o++) sums[m][o] += scale[o] * products[o] + bias[o] * all;
  }
}
for (int m = 0; m < ROWS; m++)
  for (int o = 0; o < OUTS; o++) {
    const float total = simd_sum(sums[m][o]);
    if (lane == 0 && first_row + m < M && first_out + o < N) y[(first_row + m) * N + first_out + o] = total;
  }
