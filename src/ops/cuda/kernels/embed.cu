// Rows of a packed matrix as f32 (weights.cuh says how they lie).
KERNEL embed(const __grid_constant__ EmbedArgs a) {
  let_next_start();
  wait_for_previous();
  int id = a.ids[blockIdx.x];
  if (id < 0) id = max(a.chosen[-1 - id], 0);  // where no token was chosen, nobody asks for this row
  const int r = id % 8, high = id % 16 / 8;
  const u8* tile = a.weights + (long)(id / 16) * a.input_tiles * kRecordBytes;
  for (int k = threadIdx.x; k < a.inputs; k += blockDim.x) {
    const u8* record = tile + k / kTileK * kRecordBytes;
    const int at = k % kTileK, j = at / 16, c = at % 16 / 8, lane = r * 4 + at % 8 / 2, odd = at % 2;
    float y = 0.0f;
    if (DENSE) {
      for (int p = 0; p < PLANES; p++)
        y += from_bf16(((const u16*)(record + p * 2048 + j * 512 + lane * 16))[(c * 2 + high) * 2 + odd]);
    } else {
      int code = 0;
      for (int p = 0; p < PLANES; p++) {
        const u32 word = ((const u32*)(record + p * 512 + lane * 16))[high * 2 + j / 2];
        code += (int)(word >> ((j % 2 * 2 + c) * 4 + odd * 16) & 15u) << (4 * p);
      }
      const u32 w = ((const u32*)(record + kCodeBytes))[(at * GROUPS / kTileK * 8 + r) * 2 + high];
      constexpr float kHalf = (float)(1ull << kScaleExponent / 2), kRest = (float)(1ull << (kScaleExponent + 1) / 2);
      const float scale = from_bf16(w & 0xFFFFu) / kHalf / kRest;
      const float bias = from_bf16(w >> 16) * kSumScale;
      y = __fmaf_rn(scale, (float)code, bias);
    }
    a.out[(long)blockIdx.x * a.inputs + k] = y;
  }
}
