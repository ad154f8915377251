// The layout of a packed matrix (ops/cuda/weight.h), for all matrix products; RecordFormat has its values.
// A scale and a bias are bf16, made smaller or larger by powers of two (kScaleExponent in
// ops/cuda/kernels/args.h): the tensor cores multiply weights times 2^-kSumExponent. Only integers have biases.
constexpr int KIND = kVariant.format.kind, PLANES = kVariant.format.planes, GROUPS = kVariant.format.groups;
constexpr bool kDense = KIND == kPlainValues, kTable = KIND >= kFirstTable, kSigned = KIND > kFirstTable,
               kBiased = KIND == kIntegers;
constexpr int kCodeBytes = kDense ? PLANES * 2048 : (KIND == kE4m3 ? 2 : PLANES) * 512;
constexpr int kCodeWords = kCodeBytes / 128;                        // words per lane
constexpr int kScaleBytes = kDense ? 0 : kBiased ? 4 : 2;           // per row and group, including its bias
constexpr int kRecordBytes = kCodeBytes + GROUPS * 16 * kScaleBytes;
constexpr int kScaleWords = kDense ? 0 : GROUPS * kScaleBytes / 2;  // words per lane: rows r, r + 8 by group
constexpr int kGroups = kDense ? 1 : GROUPS;
constexpr int kOwnExponent = KIND == kE4m3 ? kE4m3ScaleExponent : kScaleExponent;
// The final factor of sums of products.
constexpr float kSumScale = kDense ? 1.0f : (float)(1ull << kSumExponent);

// One record (64 inputs by 16 rows), as held by one lane. A word of scales is a row's scale and bias, or the
// scales of both rows.
struct Record {
  u32 codes[kCodeWords];
  u32 scales[kDense ? 1 : kScaleWords];
};

// Reads the lane's parts of the record at `at`.
DEVICE void read_record(const u8* at, Record& record) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kCodeWords / 4; i++) ((uint4*)record.codes)[i] = *(const uint4*)(at + lane * 16 + i * 512);
  const u8* scales = at + kCodeBytes + lane / 4 * 2 * kScaleBytes;
#pragma unroll
  for (int g = 0; g < (kDense ? 0 : GROUPS); g++) {
    if (kBiased)
      ((uint2*)record.scales)[g] = *(const uint2*)(scales + g * 16 * kScaleBytes);
    else
      record.scales[g] = *(const u32*)(scales + g * 16 * kScaleBytes);
  }
}

// A group's scales of rows r, r + 8, each repeated in both halves of a word. Read as a bf16 number, a nibble
// in bits 0 to 3 (or 4 to 7) of 16 is its value times 2^-133 (or 2^-129), so each position needs its own
// scale.
struct Scales {
  u32 scale[PLANES + 1][2], bias[2];  // each 2^4 smaller than the previous; plane p uses [p], [p + 1]
};
DEVICE Scales scales_of(const Record& record, int group) {
  Scales s = {};
  if (kDense) return s;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (!kBiased) {
      s.scale[0][i] = both_halves(record.scales[group], i);
      if (kTable && !kSigned) s.bias[i] = fma_bf16x2(s.scale[0][i], 0x80808080u, 0x80008000u);  // * -128 * 2^-133
      continue;
    }
    const u32 both = record.scales[group * 2 + i], scale = both_halves(both, 0);
    s.bias[i] = both_halves(both, 1);
    s.scale[PLANES - 1][i] = scale;
    s.scale[PLANES][i] = fma_bf16x2(scale, 0x3D803D80u, 0x80008000u);                  // / 16
    if (PLANES == 2) s.scale[0][i] = fma_bf16x2(scale, 0x41804180u, 0x80008000u);  // * 16
  }
  return s;
}

// Four of the table's integers, each plus 128; magnitudes are not changed.
DEVICE constexpr u32 table_word(int i) {
  u32 word = 0;
  for (int j = 0; j < 4; j++)
    word |= (u32)(kCodeTables[kTable ? KIND - kFirstTable : 0][4 * i + j] + (kSigned ? 0 : 128) & 255) << 8 * j;
  return word;
}
constexpr u32 kWord0 = table_word(0), kWord1 = table_word(1), kWord2 = table_word(2), kWord3 = table_word(3);
// The values of 4 of a word's 8 codes, the lower or the upper ones, as two pairs of bf16 numbers that are
// 2^133 times too small; without signs they are also 128 too large. The signs of the lower codes are the top
// bits of the word's bytes, the signs of the upper codes are 4 bits below.
DEVICE void look_up(u32 word, int upper, u32 pairs[2]) {
  const u32 low = (word & 0x77777777u) >> upper * 16, first = byte_perm(kWord0, kWord1, low);
  if (kSigned) {
    const u32 signs = word << upper * 4 & 0x80808080u;
    pairs[0] = byte_perm(first, signs, 0x5140);
    pairs[1] = byte_perm(first, signs, 0x7362);
    return;
  }
  const u32 which = ((word >> 1 & 0x44444444u) | 0x32103210u) >> upper * 16;
  const u32 bytes = byte_perm(first, byte_perm(kWord2, kWord3, low), which);
  pairs[0] = byte_perm(bytes, 0, 0x4140);
  pairs[1] = byte_perm(bytes, 0, 0x4342);
}

// Converts two E4M3 numbers in the upper bytes of x's halves to bf16 numbers that are 2^120 times too small.
DEVICE u32 from_e4m3(u32 x) { return (x & 0x80008000u) | (x >> 4 & 0x07F007F0u); }

// Fragments of step j (16 inputs) of a plane. Planes are numbered in the order in which the tensor cores add
// them.
DEVICE void fragment(const Record& record, const Scales& s, int plane, int j, u32 a[4]) {
  if (kDense) {
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = record.codes[plane * 16 + j * 4 + i];
    return;
  }
  if (kTable) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const u32 bias = kSigned ? 0x80008000u : s.bias[i];
      u32 pairs[2];
      look_up(record.codes[i * 2 + j / 2], j % 2, pairs);
      a[i] = fma_bf16x2(pairs[0], s.scale[0][i], bias);
      a[i + 2] = fma_bf16x2(pairs[1], s.scale[0][i], bias);
    }
    return;
  }
  if (KIND == kE4m3) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const u32 word = record.codes[j * 2 + i];
      a[i] = fma_bf16x2(from_e4m3(byte_perm(word, 0, 0x1404)), s.scale[0][i], 0x80008000u);
      a[i + 2] = fma_bf16x2(from_e4m3(byte_perm(word, 0, 0x3424)), s.scale[0][i], 0x80008000u);
    }
    return;
  }
  const int stored = PLANES - 1 - plane, shift = j % 2 * 8;  // the low nibbles are stored first
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const u32 word = record.codes[stored * 4 + i * 2 + j / 2] >> shift, bias = plane == 0 ? s.bias[i] : 0x80008000u;
    a[i] = fma_bf16x2(word & 0x000F000Fu, s.scale[plane][i], bias);
    a[i + 2] = fma_bf16x2(word & 0x00F000F0u, s.scale[plane + 1][i], bias);
  }
}
