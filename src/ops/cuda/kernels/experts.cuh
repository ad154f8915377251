// Products of tiles of 16 weight rows with rows of x, one input tile at a time: the same sums in the same
// order as gemv.cu, so the same bits. Weights and activations are loaded directly to registers.

// A lane's part of the operands for one input tile: records of WEIGHT_TILES tiles, and 8 * ROW_TILES rows
// of x.
template <int WEIGHT_TILES, int ROW_TILES>
struct Step {
  Record record[WEIGHT_TILES];
  u32 x[ROW_TILES][8];
  static constexpr int kHeldWords =
      WEIGHT_TILES * (kCodeWords + kScaleWords) + ROW_TILES * 8;

  // Loads a lane's part of tile i, whose first record is at `weights`.
  __device__ void read_weights(int i, const u8* weights, int k) {
    read_record(weights + (long)k * kRecordBytes, record[i]);
  }
  // at: the lane's numbers in its row of x.
  __device__ void read_x(int t, const u8* at) {
#pragma unroll
    for (int i = 0; i < 2; i++) *(uint4*)&x[t][4 * i] = *(const uint4*)(at + i * 16);
  }
  __device__ void multiply_into(float (&acc)[WEIGHT_TILES][ROW_TILES][4]) const { multiply(record, x, acc); }
};

// The address of an expert's records: from `table`, or if that is null, experts are `bytes` apart from
// `weights` on.
DEVICE const u8* records_of(int expert, const u8* weights, const u64* table, long bytes) {
  return table ? (const u8*)table[expert] : weights + expert * bytes;
}
