// The layout of a packed matrix (ops/cuda/weight.h), as all matrix products read it. Macros, by weight:
//   DENSE    1: bf16 values, 0: codes        PLANES  planes of values (high, low), or of codes (4 bits each)
//   GROUPS   groups of a tile of 64 inputs   SCALES  type of scales: 0 f16, 1 bf16, 2 f32
constexpr int kScaleWords = SCALES == 2 ? 4 : 2;  // of scale and bias of rows r, r + 8, for each lane and group
constexpr int kCodeBytes = DENSE ? PLANES * 2048 : PLANES * 512;
constexpr int kRecordBytes = DENSE ? kCodeBytes : kCodeBytes + GROUPS * 8 * 4 * kScaleWords;
constexpr int kCodeWords = DENSE ? PLANES * 16 : PLANES * 4;  // of a lane

// One of a record's 64 inputs by 16 rows, as a lane holds it.
struct Record {
  u32 codes[kCodeWords];
  u32 scales[DENSE ? 1 : GROUPS * kScaleWords];
};

// 0x000F000F, which the compiler must not know: it would move it to a register for every use.
template <class Args>
DEVICE u32 low_nibbles(const Args& a) { return a.units > 0 ? 0x000F000Fu : 0u; }

// Fragments of step j (16 inputs) of a plane.
DEVICE void fragment(const Record& record, int plane, int j, u32 nibbles, u32 a[4]) {
  if (DENSE) {
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = record.codes[plane * 16 + j * 4 + i];
    return;
  }
  // A nibble under the exponent of 128 is the bf16 number 128 + code.
  const u32 row0 = record.codes[plane * 4 + j / 2], row8 = record.codes[plane * 4 + 2 + j / 2];
  const int shift = j % 2 * 8;
  a[0] = ((row0 >> shift) & nibbles) | 0x43004300u;
  a[1] = ((row8 >> shift) & nibbles) | 0x43004300u;
  a[2] = ((row0 >> (shift + 4)) & nibbles) | 0x43004300u;
  a[3] = ((row8 >> (shift + 4)) & nibbles) | 0x43004300u;
}

// `codes`, `scales`: where the lane's parts lie in shared memory.
DEVICE void read_record(const u8* codes, const u8* scales, Record& record) {
#pragma unroll
  for (int i = 0; i < kCodeWords / 4; i++) ((uint4*)record.codes)[i] = *(const uint4*)(codes + i * 512);
  if (DENSE) return;
#pragma unroll
  for (int i = 0; i < GROUPS * kScaleWords / 2; i++)
    ((uint2*)record.scales)[i] =
        *(const uint2*)(scales + (i * 2 / kScaleWords) * 32 * kScaleWords + i % (kScaleWords / 2) * 8);
}

// The same from addresses in shared memory.
DEVICE void read_record(u32 codes, u32 scales, Record& record) {
#pragma unroll
  for (int i = 0; i < kCodeWords / 4; i++) load_shared(codes + i * 512, record.codes + 4 * i);
  if (DENSE) return;
#pragma unroll
  for (int i = 0; i < GROUPS * kScaleWords / 2; i++)
    load_shared_pair(scales + (i * 2 / kScaleWords) * 32 * kScaleWords + i % (kScaleWords / 2) * 8,
                     record.scales + 2 * i);
}

struct Scales {
  float scale[2], bias[2];  // rows r, r + 8
};
// The bias also takes off the 128 of every plane.
DEVICE Scales scales_of(const Record& record, int group) {
  Scales s;
  const u32* w = record.scales + group * kScaleWords;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float bias;
    if (SCALES == 2) {
      s.scale[i] = __uint_as_float(w[2 * i]);
      bias = __uint_as_float(w[2 * i + 1]);
    } else if (SCALES == 1) {
      s.scale[i] = from_bf16(w[i] & 0xFFFFu);
      bias = __uint_as_float(w[i] & 0xFFFF0000u);
    } else {
      s.scale[i] = from_f16(w[i] & 0xFFFFu);
      bias = from_f16(w[i] >> 16);
    }
    s.bias[i] = __fmaf_rn(PLANES == 2 ? -2176.0f : -128.0f, s.scale[i], bias);
  }
  return s;
}

// Dot products of one group and plane become part of the sums: all matrix products add in this order.
DEVICE float add_plane(float sum, float part, float scale, int plane) {
  return DENSE ? __fadd_rn(sum, part) : __fmaf_rn(plane == 1 ? 16.0f * scale : scale, part, sum);
}

