// Portable natives: one lane at a time in plain C++, sixteen of them. Slow; the same bits. See simd.h.
using NativeF = float;
using NativeI = int32_t;
using NativeB = uint32_t;  // the 4 bytes of one lane
constexpr int kNatives = 16;

FN NativeF ni_as_f(NativeI a) {
  float x;
  __builtin_memcpy(&x, &a, 4);
  return x;
}
FN NativeI nf_as_i(NativeF a) {
  int32_t x;
  __builtin_memcpy(&x, &a, 4);
  return x;
}

FN NativeF nf_load(const float* p) {
  return *p;
}
FN void nf_store(float* p, NativeF v) {
  *p = v;
}
// Four columns of one row.
FN void nf_load_columns(const float* p, int64_t, NativeF to[4]) {
  for (int j = 0; j < 4; j++) to[j] = p[j];
}
FN NativeF nf_set1(float x) {
  return x;
}
FN NativeF nf_add(NativeF a, NativeF b) {
  return a + b;
}
FN NativeF nf_sub(NativeF a, NativeF b) {
  return a - b;
}
FN NativeF nf_mul(NativeF a, NativeF b) {
  return a * b;
}
FN NativeF nf_div(NativeF a, NativeF b) {
  return a / b;
}
FN NativeF nf_fma(NativeF a, NativeF b, NativeF c) {
  return __builtin_fmaf(a, b, c);
}
FN NativeF nf_min(NativeF a, NativeF b) {
  return a < b ? a : b;
}
FN NativeF nf_max(NativeF a, NativeF b) {
  return a > b ? a : b;
}
FN NativeF nf_abs(NativeF a) {
  return __builtin_fabsf(a);
}
FN NativeF nf_select_lt(NativeF a, NativeF b, NativeF x, NativeF y) {
  return a < b ? x : y;
}
FN NativeF nf_from_i(NativeI a) {
  return static_cast<float>(a);
}
// To nearest even, for |a| < 2^22 (all our uses): adding 1.5 * 2^23 leaves the integer in the low bits.
FN NativeI nf_to_i(NativeF a) {
  return nf_as_i(a + 12582912.0f) - 0x4B400000;
}

FN NativeF nf_load_i8(const int8_t* p) {
  return static_cast<float>(*p);
}
FN NativeF nf_load_u8(const uint8_t* p) {
  return static_cast<float>(*p);
}
FN NativeF nf_load_f16(const uint16_t* p) {
  const uint32_t h = *p, sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3FFu;
  if (exponent == 31) return ni_as_f(static_cast<int32_t>(sign | 0x7F800000u | (mantissa << 13)));
  if (exponent != 0) return ni_as_f(static_cast<int32_t>(sign | ((exponent + 112) << 23) | (mantissa << 13)));
  const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -tiny : tiny;
}
FN NativeF nf_load_bf16(const uint16_t* p) {
  return ni_as_f(static_cast<int32_t>(static_cast<uint32_t>(*p) << 16));
}
// Round to nearest even, as VCVTPS2PH.
FN void nf_store_f16(uint16_t* p, NativeF v) {
  const uint32_t bits = static_cast<uint32_t>(nf_as_i(v)), sign = (bits >> 16) & 0x8000u,
                 x = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (x > 0x7F800000u) {
    half = 0x7E00u | ((x >> 13) & 0x3FFu);
  } else if (x >= 0x47800000u) {  // 65536 and above
    half = 0x7C00u;
  } else if (x < 0x38800000u) {  // below the smallest normal: let the adder round at 2^-24
    const float magic = 0.5f;    // 2^-1: the unit of its last place is 2^-24
    half = static_cast<uint32_t>(nf_as_i(ni_as_f(static_cast<int32_t>(x)) + magic)) - 0x3F000000u;
  } else {
    half = (x - 0x38000000u + 0xFFFu + ((x >> 13) & 1u)) >> 13;
  }
  *p = static_cast<uint16_t>(sign | half);
}

// E4M3 times 2^-8: the bits of an f16 whose exponent is 8 too small.
FN NativeF nf_load_e4m3_small(const uint8_t* p) {
  const uint32_t code = *p;
  const uint16_t half = static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7Fu) << 7);
  return nf_load_f16(&half);
}
FN NativeF nf_load_e8m0(const uint8_t* p) {
  return ni_as_f(static_cast<int32_t>(*p == 0 ? 0x00400000u : static_cast<uint32_t>(*p) << 23));
}

FN NativeI ni_set1(int32_t x) {
  return x;
}
FN NativeI ni_add(NativeI a, NativeI b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
FN NativeI ni_sub(NativeI a, NativeI b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
FN NativeI ni_max(NativeI a, NativeI b) {
  return a > b ? a : b;
}
FN int32_t ni_reduce_add(NativeI a) {
  return a;
}
FN int32_t ni_reduce_max(NativeI a) {
  return a;
}
FN NativeI ni_and(NativeI a, NativeI b) {
  return a & b;
}
template <int S>
FN NativeI ni_shl(NativeI a) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) << S);
}
template <int S>
FN NativeI ni_shr(NativeI a) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) >> S);
}
FN void ni_store_i8(int8_t* p, NativeI v) {
  *p = static_cast<int8_t>(v < -128 ? -128 : v > 127 ? 127 : v);
}

FN NativeB nb_load(const uint8_t* p) {
  uint32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
}
FN void nb_store(uint8_t* p, NativeB v) {
  __builtin_memcpy(p, &v, 4);
}
FN NativeB nb_set1(uint8_t x) {
  return 0x01010101u * x;
}
FN NativeB nb_quad(const int8_t* p) {
  uint32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
}
FN NativeB nb_and(NativeB a, NativeB b) {
  return a & b;
}
FN NativeB nb_or(NativeB a, NativeB b) {
  return a | b;
}
FN NativeB nb_xor(NativeB a, NativeB b) {
  return a ^ b;
}
template <int S>
FN NativeB nb_shl(NativeB a) {
  return a << S;
}
template <int S>
FN NativeB nb_shr(NativeB a) {
  return a >> S;
}
FN NativeI nb_as_i(NativeB a) {
  return static_cast<int32_t>(a);
}

struct NativeTable {
  uint8_t bytes[16];
};
FN NativeTable nb_load_table(const uint8_t* p) {
  NativeTable t;
  __builtin_memcpy(t.bytes, p, 16);
  return t;
}
FN NativeB nb_look_up(const NativeTable& table, NativeB codes) {
  NativeB r = 0;
  for (int j = 0; j < 32; j += 8) r |= static_cast<NativeB>(table.bytes[(codes >> j) & 15u]) << j;
  return r;
}

constexpr bool kHasMaddubs = false, kSignedBytes = false;
FN NativeI ni_dot(NativeI acc, NativeB codes, NativeB x) {
  for (int j = 0; j < 32; j += 8)
    acc += static_cast<int32_t>((codes >> j) & 255u) * static_cast<int8_t>((x >> j) & 255u);
  return acc;
}
