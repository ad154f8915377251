// The layout of a packed matrix (ops/cuda/weight.h), as all matrix products read it. Macros, by weight:
//   DENSE    1: bf16 values, 0: codes        PLANES  planes of values (high, low), or of codes (4 bits each)
//   GROUPS   groups of a tile of 64 inputs
// A scale and a bias are bf16, made smaller or larger by powers of two (kScaleExponent in ops/cuda/kernels/args.h):
// what the tensor cores multiply is a weight times 2^-kSumExponent.
constexpr int kCodeBytes = DENSE ? PLANES * 2048 : PLANES * 512;
constexpr int kRecordBytes = DENSE ? kCodeBytes : kCodeBytes + GROUPS * 64;
constexpr int kCodeWords = DENSE ? PLANES * 16 : PLANES * 4;  // of a lane
constexpr int kScaleWords = DENSE ? 0 : GROUPS * 2;           // of a lane: scale and bias of rows r, r + 8 by group
constexpr int kGroups = DENSE ? 1 : GROUPS;
// By which sums of products are multiplied in the end.
constexpr float kSumScale = DENSE ? 1.0f : (float)(1ull << kSumExponent);

// One of a record's 64 inputs by 16 rows, as a lane holds it.
struct Record {
  u32 codes[kCodeWords];
  u32 scales[DENSE ? 1 : kScaleWords];
};

// `codes`, `scales`: where the lane's parts lie (in a record: lane * 16 and kCodeBytes + lane / 4 * 8).
DEVICE void read_record(const u8* codes, const u8* scales, Record& record) {
#pragma unroll
  for (int i = 0; i < kCodeWords / 4; i++) ((uint4*)record.codes)[i] = *(const uint4*)(codes + i * 512);
#pragma unroll
  for (int g = 0; g < kScaleWords / 2; g++) ((uint2*)record.scales)[g] = *(const uint2*)(scales + g * 64);
}

// The same from addresses in shared memory.
DEVICE void read_record(u32 codes, u32 scales, Record& record) {
#pragma unroll
  for (int i = 0; i < kCodeWords / 4; i++) load_shared(codes + i * 512, record.codes + 4 * i);
#pragma unroll
  for (int g = 0; g < kScaleWords / 2; g++) load_shared_pair(scales + g * 64, record.scales + 2 * g);
}

// A group's scales of rows r, r + 8, each twice. A nibble in bits 0 to 3 or 4 to 7 of 16 is, as a bf16 number, its
// value times 2^-133 or 2^-129: each place has scales of its own.
struct Scales {
  u32 scale[PLANES + 1][2], bias[2];  // of a nibble's value, falling by 2^4: [p] and [p + 1] are those of plane p
};
DEVICE Scales scales_of(const Record& record, int group) {
  Scales s = {};
  if (DENSE) return s;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const u32 both = record.scales[group * 2 + i], scale = both_halves(both, 0);
    s.bias[i] = both_halves(both, 1);
    s.scale[PLANES - 1][i] = scale;
    s.scale[PLANES][i] = fma_bf16x2(scale, 0x3D803D80u, 0x80008000u);                  // / 16
    if (PLANES == 2) s.scale[0][i] = fma_bf16x2(scale, 0x41804180u, 0x80008000u);  // * 16
  }
  return s;
}

// Fragments of step j (16 inputs) of a plane: the first of two planes (of dense weights the second too) has what the
// tensor cores add first.
DEVICE void fragment(const Record& record, const Scales& s, int plane, int j, u32 a[4]) {
  if (DENSE) {
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = record.codes[plane * 16 + j * 4 + i];
    return;
  }
  const int stored = PLANES - 1 - plane, shift = j % 2 * 8;  // the low nibbles lie first
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const u32 word = record.codes[stored * 4 + i * 2 + j / 2] >> shift, bias = plane == 0 ? s.bias[i] : 0x80008000u;
    a[i] = fma_bf16x2(word & 0x000F000Fu, s.scale[plane][i], bias);
    a[i + 2] = fma_bf16x2(word & 0x00F000F0u, s.scale[plane + 1][i], bias);
  }
}
