// Sixteen-lane vectors for the CPU kernels, one source for every instruction set. Included only by
// target_*.cc through kernels.inl, inside a namespace of that target's name (ANABRANCH_TARGET).
//
//   F: 16 floats.  I: 16 int32.  B: 64 bytes, 4 per lane.
//
// Lanes are combined only in the reductions below, in one fixed order. So each target does the same
// operations in the same order for each element, and gives the same bits.
#if defined(ANABRANCH_SIMD_PORTABLE) || defined(ANABRANCH_SIMD_CALLS)
#define FN static inline  // forced inlining would take minutes to compile for sixteen lanes or sanitizers
#define UNROLL
#else
#define FN static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#endif

#if defined(ANABRANCH_SIMD_PORTABLE)
#include "ops/cpu/simd_portable.h"
#elif defined(__AVX512F__)
#include "ops/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "ops/cpu/simd_avx2.h"
#else
#include "ops/cpu/simd_neon.h"
#endif

constexpr int kLanes = 16;
constexpr int kNativeLanes = kLanes / kNatives;
constexpr int kNativeBytes = 64 / kNatives;

struct F {
  NativeF v[kNatives];
};
struct I {
  NativeI v[kNatives];
};
struct B {
  NativeB v[kNatives];
};

#define EACH(type, expression)                                     \
  type r;                                                          \
  UNROLL for (int n = 0; n < kNatives; n++) r.v[n] = (expression); \
  return r

FN F load(const float* p) {
  EACH(F, nf_load(p + n * kNativeLanes));
}
FN F load_f16(const uint16_t* p) {
  EACH(F, nf_load_f16(p + n * kNativeLanes));
}
FN F load_bf16(const uint16_t* p) {
  EACH(F, nf_load_bf16(p + n * kNativeLanes));
}
FN F load_i8(const int8_t* p) {
  EACH(F, nf_load_i8(p + n * kNativeLanes));
}
FN F load_u8(const uint8_t* p) {
  EACH(F, nf_load_u8(p + n * kNativeLanes));
}
// Loads E4M3 numbers; the codes of NaN give 480 and -480.
FN F load_e4m3(const uint8_t* p) {
  EACH(F, nf_mul(nf_load_e4m3_small(p + n * kNativeLanes), nf_set1(256.0f)));
}
// Loads powers of two: 2^(byte - 127). The code of NaN, 255, gives infinity.
FN F load_e8m0(const uint8_t* p) {
  EACH(F, nf_load_e8m0(p + n * kNativeLanes));
}
FN F load_value(const float* p) {
  return load(p);
}
FN F load_value(const uint16_t* p) {
  return load_f16(p);
}
// Loads four columns of 16 rows: lane i of to[j] is p[i * stride + j].
FN void load_columns(const float* p, int64_t stride, F to[4]) {
  UNROLL for (int n = 0; n < kNatives; n++) {
    NativeF columns[4];
    nf_load_columns(p + n * kNativeLanes * stride, stride, columns);
    UNROLL for (int j = 0; j < 4; j++) to[j].v[n] = columns[j];
  }
}
FN F splat(float x) {
  const NativeF s = nf_set1(x);
  EACH(F, s);
}
FN F zero() {
  return splat(0.0f);
}
FN F add(F a, F b) {
  EACH(F, nf_add(a.v[n], b.v[n]));
}
FN F sub(F a, F b) {
  EACH(F, nf_sub(a.v[n], b.v[n]));
}
FN F mul(F a, F b) {
  EACH(F, nf_mul(a.v[n], b.v[n]));
}
FN F div(F a, F b) {
  EACH(F, nf_div(a.v[n], b.v[n]));
}
FN F fma(F a, F b, F c) {
  EACH(F, nf_fma(a.v[n], b.v[n], c.v[n]));
}  // a * b + c, rounded once
FN F min(F a, F b) {
  EACH(F, nf_min(a.v[n], b.v[n]));
}
FN F max(F a, F b) {
  EACH(F, nf_max(a.v[n], b.v[n]));
}
FN F abs(F a) {
  EACH(F, nf_abs(a.v[n]));
}
FN F select_lt(F a, F b, F x, F y) {
  EACH(F, nf_select_lt(a.v[n], b.v[n], x.v[n], y.v[n]));
}  // a < b ? x : y
FN F to_float(I a) {
  EACH(F, nf_from_i(a.v[n]));
}
FN I to_int(F a) {
  EACH(I, nf_to_i(a.v[n]));
}  // to nearest even
FN F as_float(I a) {
  EACH(F, ni_as_f(a.v[n]));
}
FN I as_int(F a) {
  EACH(I, nf_as_i(a.v[n]));
}
FN void store(float* p, F a) {
  UNROLL for (int n = 0; n < kNatives; n++) nf_store(p + n * kNativeLanes, a.v[n]);
}
FN void store_f16(uint16_t* p, F a) {
  UNROLL for (int n = 0; n < kNatives; n++) nf_store_f16(p + n * kNativeLanes, a.v[n]);
}

FN I splat_int(int32_t x) {
  EACH(I, ni_set1(x));
}
FN I add(I a, I b) {
  EACH(I, ni_add(a.v[n], b.v[n]));
}
FN I sub(I a, I b) {
  EACH(I, ni_sub(a.v[n], b.v[n]));
}
FN I max(I a, I b) {
  EACH(I, ni_max(a.v[n], b.v[n]));
}
FN I bit_and(I a, I b) {
  EACH(I, ni_and(a.v[n], b.v[n]));
}
template <int S>
FN I shift_left(I a) {
  EACH(I, ni_shl<S>(a.v[n]));
}
template <int S>
FN I shift_right(I a) {
  if constexpr (S == 0) {
    return a;
  } else {
    EACH(I, ni_shr<S>(a.v[n]));
  }
}
FN void store_i8(int8_t* p, I a) {  // saturating
  UNROLL for (int n = 0; n < kNatives; n++) ni_store_i8(p + n * kNativeLanes, a.v[n]);
}

FN B load_bytes(const uint8_t* p) {
  EACH(B, nb_load(p + n * kNativeBytes));
}
FN void store_bytes(uint8_t* p, B a) {
  UNROLL for (int n = 0; n < kNatives; n++) nb_store(p + n * kNativeBytes, a.v[n]);
}
FN B splat_quad(const int8_t* p) {
  const NativeB s = nb_quad(p);
  EACH(B, s);
}
FN B bit_or(B a, B b) {
  EACH(B, nb_or(a.v[n], b.v[n]));
}
// Subtracts 128 from unsigned bytes, giving signed ones; and the reverse.
FN B flip(B a) {
  const NativeB half = nb_set1(0x80);
  EACH(B, nb_xor(a.v[n], half));
}
FN I as_int(B a) {
  EACH(I, nb_as_i(a.v[n]));
}
// A table of 16 bytes, each with `extra` added (modulo 256), and the lookup of its bytes by codes (0 .. 15).
struct Table {
  NativeTable v;
};
FN Table load_table(const uint8_t* bytes, int extra) {
  alignas(16) uint8_t t[16];
  for (int i = 0; i < 16; i++) t[i] = static_cast<uint8_t>(bytes[i] + extra);
  Table r;
  r.v = nb_load_table(t);
  return r;
}
FN B look_up(const Table& table, B codes) {
  EACH(B, nb_look_up(table.v, codes.v[n]));
}
// Bits of `mask` within each byte, after moving them Shift places left (negative: right).
template <int Shift, int Mask>
FN B bits_of(B a) {
  const NativeB mask = nb_set1(Mask);
  if constexpr (Shift > 0) {
    EACH(B, nb_and(nb_shl<Shift>(a.v[n]), mask));
  } else if constexpr (Shift < 0) {
    EACH(B, nb_and(nb_shr<-Shift>(a.v[n]), mask));
  } else {
    EACH(B, nb_and(a.v[n], mask));
  }
}

// Loads and stores of the first `count` lanes (1 .. 15); the other lanes read as zero.
FN F load_part(const float* p, int64_t count) {
  float t[kLanes] = {};
  for (int64_t i = 0; i < count; i++) t[i] = p[i];
  return load(t);
}
FN F load_part(const uint16_t* p, int64_t count) {
  uint16_t t[kLanes] = {};
  for (int64_t i = 0; i < count; i++) t[i] = p[i];
  return load_f16(t);
}
FN void store_part(float* p, F a, int64_t count) {
  float t[kLanes];
  store(t, a);
  for (int64_t i = 0; i < count; i++) p[i] = t[i];
}
FN F load_upto(const float* p, int64_t count) {
  return count >= kLanes ? load(p) : load_part(p, count);
}
FN void store_upto(float* p, F a, int64_t count) {
  if (count >= kLanes)
    store(p, a);
  else
    store_part(p, a, count);
}

// Adds lane i + 8 to lane i, then i + 4, i + 2, i + 1.
FN float reduce_add(F a) {
  float t[kLanes];
  store(t, a);
  UNROLL for (int i = 0; i < 8; i++) t[i] = t[i] + t[i + 8];
  UNROLL for (int i = 0; i < 4; i++) t[i] = t[i] + t[i + 4];
  return (t[0] + t[2]) + (t[1] + t[3]);
}
FN float reduce_max(F a) {  // the order does not matter here
  NativeF most = a.v[0];
  UNROLL for (int n = 1; n < kNatives; n++) most = nf_max(most, a.v[n]);
  float t[kNativeLanes];
  nf_store(t, most);
  float m = t[0];
  UNROLL for (int i = 1; i < kNativeLanes; i++) m = t[i] > m ? t[i] : m;
  return m;
}
FN int32_t reduce_add(I a) {  // the order does not matter here either
  NativeI sum = a.v[0];
  UNROLL for (int n = 1; n < kNatives; n++) sum = ni_add(sum, a.v[n]);
  return ni_reduce_add(sum);
}
FN int32_t reduce_max(I a) {
  NativeI most = a.v[0];
  UNROLL for (int n = 1; n < kNatives; n++) most = ni_max(most, a.v[n]);
  return ni_reduce_max(most);
}

// How a matrix's codes, expanded to bytes, are multiplied with int8 activations and summed in int32, four per
// lane and call; the sums are exact.
//
// With maddubs (u8 x s8 pairs into saturating int16) sums stay in int16 for kRun quads, the largest number
// that cannot saturate: 8 * 2 * 15 * 127 = 30480, 4 * 2 * 31 * 127 = 31496, 2 * 2 * 63 * 127 = 32004. Signed
// bytes are multiplied as |c| * (x with the sign of c): 2 * 128 * 127 = 32512, 2 * 2 * 64 * 127 = 32512.
template <int Bits>
struct AffineCodes {
  static constexpr int kBits = Bits, kRun = Bits <= 4 ? 8 : Bits == 5 ? 4 : Bits == 6 ? 2 : 1;
  static constexpr bool kSigned = Bits == 8 && kSignedBytes;
  static constexpr bool kCentred = kSigned;  // 128 is subtracted from the codes before the product, ...
  static constexpr int kMissing = kCentred ? 128 : 0;  // ... so each activation's product lacks this
  static constexpr bool kBias = true;
};
// 4-bit codes that have been replaced by bytes of a table, with magnitudes up to Most, which is 16 (less than
// 16 when positive), 64 or 128.
template <int Most>
struct TableCodes {
  static constexpr int kBits = 4;
  static constexpr bool kSmall = kHasMaddubs && Most == 16;
  static constexpr bool kSigned = kSignedBytes && !kSmall, kCentred = false;
  static constexpr int kRun = kSmall ? 4 : 128 / Most;
  static constexpr int kMissing = kSigned ? 0 : kSmall ? -16 : -128;
  static constexpr bool kBias = false;
};

template <class Format>
struct Dot {
  I sum, run;

  // The missing term is added at the start; with maddubs, where registers are short, at the end.
  static constexpr bool kAtEnd = kHasMaddubs && Format::kMissing != 0;
  static constexpr bool kAtStart = !kHasMaddubs && Format::kMissing != 0;

  // x_sum: the sum of the activations in the product.
  FN Dot start(int32_t x_sum) {
    Dot d;
    d.sum = splat_int(kAtStart ? Format::kMissing * x_sum : 0);
    return d;
  }
  // The exact sum.
  __attribute__((always_inline)) I total(int32_t x_sum) const {
    return kAtEnd ? add(sum, splat_int(Format::kMissing * x_sum)) : sum;
  }
};

// A quad's codes, prepared once for several rows of activations.
template <class Format>
struct Codes {
  B c, magnitude;
};
template <class Format>
FN Codes<Format> prepare(B codes) {
  Codes<Format> r;
  r.c = codes;
  if constexpr (Format::kCentred) r.c = flip(codes);
#if !defined(ANABRANCH_SIMD_PORTABLE) && defined(__x86_64__)
  if constexpr (Format::kSigned) {
    UNROLL for (int n = 0; n < kNatives; n++) r.magnitude.v[n] = nb_magnitude(r.c.v[n]);
  }
#endif
  return r;
}

// Adds quad Q of a 32-block; quads First .. Last are added in order. Runs end at multiples of kRun.
template <int Q, int First, int Last, class Format>
FN void accumulate(Dot<Format>& d, const Codes<Format>& codes, B x) {
#if !defined(ANABRANCH_SIMD_PORTABLE) && defined(__x86_64__) && !defined(__AVX512VNNI__)
  constexpr int kRun = Format::kRun;
  constexpr bool first = Q % kRun == 0 || Q == First, last = Q % kRun == kRun - 1 || Q == Last;
  UNROLL for (int n = 0; n < kNatives; n++) {
    NativeI p;
    if constexpr (Format::kSigned)
      p = n16_maddubs(codes.magnitude.v[n], nb_with_sign(x.v[n], codes.c.v[n]));
    else
      p = n16_maddubs(codes.c.v[n], x.v[n]);
    d.run.v[n] = first ? p : n16_add(d.run.v[n], p);
    if (last) d.sum.v[n] = ni_add(d.sum.v[n], n16_widen(d.run.v[n]));
  }
#else
  UNROLL for (int n = 0; n < kNatives; n++) d.sum.v[n] = ni_dot(d.sum.v[n], codes.c.v[n], x.v[n]);
#endif
}
