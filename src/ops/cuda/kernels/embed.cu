// Decodes rows of a packed matrix to f32 (layout: weights.cuh).
DEVICE float true_scale(u32 bits) {
  constexpr float kHalf = (float)(1ull << kOwnExponent / 2), kRest = (float)(1ull << (kOwnExponent + 1) / 2);
  return from_bf16(bits) / kHalf / kRest;
}

// The value of the code of step j, half c, odd or even input, upper or lower rows; not for integer codes.
DEVICE float code_value(const u8* record, int lane, int j, int c, int odd, int high) {
  if (KIND == kE4m3) {
    const int word = j * 2 + high;
    const u32 byte = record[word / 4 * 512 + lane * 16 + word % 4 * 4 + c * 2 + odd];
    return __uint_as_float((byte & 0x80u) << 24 | (byte & 0x7Fu) << 20) * 0x1p120f;
  }
  const u32 word = ((const u32*)(record + lane * 16))[high * 2 + j / 2], code = word >> (j % 2 * 16 + c * 8 + odd * 4) & 15;
  if (kSigned) {
    const float magnitude = (float)((code % 8 < 4 ? kWord0 : kWord1) >> code % 4 * 8 & 255u);
    return word >> (c * 2 + odd) * 8 << j % 2 * 4 & 128u ? -magnitude : magnitude;
  }
  const u32 four = code < 4 ? kWord0 : code < 8 ? kWord1 : code < 12 ? kWord2 : kWord3;
  return (float)((int)(four >> code % 4 * 8 & 255) - 128);
}

KERNEL embed(const __grid_constant__ EmbedArgs a) {
  let_next_start();
  wait_for_previous();
  int id = a.ids[blockIdx.x];
  if (id < 0) id = max(a.chosen[-1 - id], 0);  // if no token was chosen, the row is not used
  const int r = id % 8, high = id % 16 / 8;
  const u8* tile = a.weights + (long)(id / 16) * a.input_tiles * kRecordBytes;
  for (int k = threadIdx.x; k < a.inputs; k += blockDim.x) {
    const u8* record = tile + k / kTileK * kRecordBytes;
    const int at = k % kTileK, j = at / 16, c = at % 16 / 8, lane = r * 4 + at % 8 / 2, odd = at % 2;
    float y = 0.0f;
    if (kDense) {
      for (int p = 0; p < PLANES; p++)
        y += from_bf16(((const u16*)(record + p * 2048 + j * 512 + lane * 16))[(c * 2 + high) * 2 + odd]);
    } else if (!kBiased) {
      const u16 bits = ((const u16*)(record + kCodeBytes))[(at * GROUPS / kTileK * 8 + r) * 2 + high];
      y = __fmul_rn(true_scale(bits), code_value(record, lane, j, c, odd, high));
    } else {
      int code = 0;
      for (int p = 0; p < PLANES; p++) {
        const u32 word = ((const u32*)(record + p * 512 + lane * 16))[high * 2 + j / 2];
        code += (int)(word >> ((j % 2 * 2 + c) * 4 + odd * 16) & 15u) << (4 * p);
      }
      const u32 w = ((const u32*)(record + kCodeBytes))[(at * GROUPS / kTileK * 8 + r) * 2 + high];
      y = __fmaf_rn(true_scale(w & 0xFFFFu), (float)code, from_bf16(w >> 16) * kSumScale);
    }
    a.out[(long)blockIdx.x * a.inputs + k] = y;
  }
}
