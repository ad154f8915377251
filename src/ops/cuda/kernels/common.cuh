// Constants, layouts and arithmetic that all kernels share.
using namespace anabranch::ops::cuda;

constexpr int kTileK = 64;     // inputs of a tile of activations or weights

// Layout of x's tiles: 8 rows by 16 bytes are contiguous; the next 16 bytes of inputs are at +128 bytes, the
// next 8 rows at +1024.
constexpr u32 kDescriptorHigh = 1024 >> 4;
DEVICE u64 descriptor(u32 address) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)(128 >> 4) << 16 | (u64)kDescriptorHigh << 32;
}

DEVICE float from_bf16(u32 bits) { return __uint_as_float(bits << 16); }
DEVICE u16 to_bf16(float x) { return (u16)pack_bf16(x, 0.0f); }
DEVICE u16 to_f16(float x) { return (u16)pack_f16(x, 0.0f); }

DEVICE float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
// If exp overflows, __fdividef returns 0, which is silu's value there.
DEVICE float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
DEVICE float gelu_tanh(float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
DEVICE float activation(float x, int gelu) { return gelu ? gelu_tanh(x) : silu(x); }

DEVICE float warp_sum(float x) {
#pragma unroll
  for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
  return x;
}

// The RMSNorm factor of a row, given the sum of its squares.
DEVICE float row_factor(float sum, int inputs, float eps) { return 1.0f / sqrtf(sum / inputs + eps); }
DEVICE float row_norm(float x, float factor, float weight) { return __fmul_rn(x, __fmul_rn(factor, weight)); }

// The same for a head of the gated delta rule's output. sum: the lane's sum of squares of its numbers of the
// head.
DEVICE float head_factor(float sum, int width, float eps) { return 1.0f / sqrtf(warp_sum(sum) / width + eps); }
DEVICE float head_norm(float x, float factor, float weight, float gate) {
  return __fmul_rn(__fmul_rn(__fmul_rn(x, factor), weight), gate);
}
DEVICE float output_gate(float z, int by_sigmoid) { return by_sigmoid ? sigmoid(z) : silu(z); }

// The layout of activations for matrix products: bf16, [input tile][rows][kTileK] with the number of rows
// from layout_rows() (ops/cuda/linear.h). A row's numbers are ordered by lanes of a warp, 16 for each lane;
// for wgmma (many rows) every 8 rows are stored as [8 chunks][8 rows][8 inputs]. -> the index of (row,
// input).
DEVICE int lane_input(int k) { return k % 8 / 2 * 16 + k / 8 * 2 + k % 2; }
DEVICE long tile_index(int row, int input, int rows) {
  const long tile = (long)(input / kTileK) * rows;
  const int k = input % kTileK;
#if __CUDA_ARCH__ == 900
  if (rows > kMostLaneRows) return (tile + row / 8 * 8) * kTileK + k / 8 * 64 + row % 8 * 8 + k % 8;
#endif
  return (tile + row) * kTileK + lane_input(k);
}
// The same for rows stored by lanes, for any number of rows.
DEVICE long lane_index(int row, int input, int rows) {
  return ((long)(input / kTileK) * rows + row) * kTileK + lane_input(input % kTileK);
}
