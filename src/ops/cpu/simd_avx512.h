// AVX-512 natives (F, BW, VL, DQ; VNNI when compiled in): one register holds 16 lanes. See simd.h.
using NativeF = __m512;
using NativeI = __m512i;
using NativeB = __m512i;
constexpr int kNatives = 1;

FN NativeF nf_load(const float* p) {
  return _mm512_loadu_ps(p);
}
FN void nf_store(float* p, NativeF v) {
  _mm512_storeu_ps(p, v);
}
FN NativeF nf_set1(float x) {
  return _mm512_set1_ps(x);
}
FN NativeF nf_add(NativeF a, NativeF b) {
  return _mm512_add_ps(a, b);
}
FN NativeF nf_sub(NativeF a, NativeF b) {
  return _mm512_sub_ps(a, b);
}
FN NativeF nf_mul(NativeF a, NativeF b) {
  return _mm512_mul_ps(a, b);
}
FN NativeF nf_div(NativeF a, NativeF b) {
  return _mm512_div_ps(a, b);
}
FN NativeF nf_fma(NativeF a, NativeF b, NativeF c) {
  return _mm512_fmadd_ps(a, b, c);
}
FN NativeF nf_min(NativeF a, NativeF b) {
  return _mm512_min_ps(a, b);
}
FN NativeF nf_max(NativeF a, NativeF b) {
  return _mm512_max_ps(a, b);
}
FN NativeF nf_abs(NativeF a) {
  return _mm512_abs_ps(a);
}
FN NativeF nf_select_lt(NativeF a, NativeF b, NativeF x, NativeF y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
FN NativeF nf_from_i(NativeI a) {
  return _mm512_cvtepi32_ps(a);
}
FN NativeI nf_to_i(NativeF a) {
  return _mm512_cvtps_epi32(a);
}
FN NativeF ni_as_f(NativeI a) {
  return _mm512_castsi512_ps(a);
}
FN NativeI nf_as_i(NativeF a) {
  return _mm512_castps_si512(a);
}
FN NativeF nf_load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
FN NativeF nf_load_bf16(const uint16_t* p) {
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
FN void nf_store_f16(uint16_t* p, NativeF v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

FN NativeF nf_load_i8(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
FN NativeF nf_load_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// E4M3 times 2^-8: the bits of an f16 whose exponent is 8 too small.
FN NativeF nf_load_e4m3_small(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xBFFF));
  return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), mask));
}
FN NativeF nf_load_e8m0(const uint8_t* p) {
  const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_slli_epi32(code, 23), _mm512_set1_epi32(0x00400000)));
}

// Four columns of 16 rows. A row's four numbers are loaded into one quarter; each quarter is transposed by
// itself.
FN void nf_load_columns(const float* p, int64_t stride, NativeF to[4]) {
  NativeF rows[4];
  UNROLL for (int i = 0; i < 4; i++) {
    const float* row = p + i * stride;
    rows[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 4 * stride), 1);
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 8 * stride), 2);
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 12 * stride), 3);
  }
  const NativeF a = _mm512_unpacklo_ps(rows[0], rows[1]), b = _mm512_unpacklo_ps(rows[2], rows[3]),
                c = _mm512_unpackhi_ps(rows[0], rows[1]), d = _mm512_unpackhi_ps(rows[2], rows[3]);
  to[0] = _mm512_shuffle_ps(a, b, 0x44);
  to[1] = _mm512_shuffle_ps(a, b, 0xEE);
  to[2] = _mm512_shuffle_ps(c, d, 0x44);
  to[3] = _mm512_shuffle_ps(c, d, 0xEE);
}

FN NativeI ni_set1(int32_t x) {
  return _mm512_set1_epi32(x);
}
FN NativeI ni_add(NativeI a, NativeI b) {
  return _mm512_add_epi32(a, b);
}
FN NativeI ni_sub(NativeI a, NativeI b) {
  return _mm512_sub_epi32(a, b);
}
FN NativeI ni_max(NativeI a, NativeI b) {
  return _mm512_max_epi32(a, b);
}
template <int N>
FN __m256i half_of(NativeI a) {  // avoids plain casts and _mm512_reduce_*, which make GCC 12 warn
  return _mm512_maskz_extracti64x4_epi64(0xFF, a, N);
}
FN int32_t ni_reduce_add(NativeI a) {
  const __m256i h = _mm256_add_epi32(half_of<0>(a), half_of<1>(a));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 1)));
}
FN int32_t ni_reduce_max(NativeI a) {
  const __m256i h = _mm256_max_epi32(half_of<0>(a), half_of<1>(a));
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 1)));
}
FN NativeI ni_and(NativeI a, NativeI b) {
  return _mm512_and_si512(a, b);
}
template <int S>
FN NativeI ni_shl(NativeI a) {
  return _mm512_slli_epi32(a, S);
}
template <int S>
FN NativeI ni_shr(NativeI a) {
  return _mm512_srli_epi32(a, S);
}
FN void ni_store_i8(int8_t* p, NativeI v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v));
}

FN NativeB nb_load(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
FN void nb_store(uint8_t* p, NativeB v) {
  _mm512_storeu_si512(p, v);
}
FN NativeB nb_set1(uint8_t x) {
  return _mm512_set1_epi8(static_cast<char>(x));
}
FN NativeB nb_quad(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}
FN NativeB nb_and(NativeB a, NativeB b) {
  return _mm512_and_si512(a, b);
}
FN NativeB nb_or(NativeB a, NativeB b) {
  return _mm512_or_si512(a, b);
}
template <int S>
FN NativeB nb_shl(NativeB a) {
  return _mm512_slli_epi16(a, S);
}
template <int S>
FN NativeB nb_shr(NativeB a) {
  return _mm512_srli_epi16(a, S);
}
FN NativeI nb_as_i(NativeB a) {
  return a;
}

using NativeTable = NativeB;
FN NativeTable nb_load_table(const uint8_t* p) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
FN NativeB nb_look_up(NativeTable table, NativeB codes) {
  return _mm512_shuffle_epi8(table, codes);
}

#if defined(__AVX512VNNI__)
constexpr bool kHasMaddubs = false, kSignedBytes = false;
FN NativeI ni_dot(NativeI acc, NativeB codes, NativeB x) {
  return _mm512_dpbusd_epi32(acc, codes, x);
}
#else
constexpr bool kHasMaddubs = true, kSignedBytes = true;
FN NativeI n16_maddubs(NativeB codes, NativeB x) {
  return _mm512_maddubs_epi16(codes, x);
}
FN NativeI n16_add(NativeI a, NativeI b) {
  return _mm512_add_epi16(a, b);
}
FN NativeI n16_widen(NativeI a) {
  return _mm512_madd_epi16(a, _mm512_set1_epi16(1));
}
// Signed bytes as factors of maddubs: see AffineCodes in simd.h.
FN NativeB nb_magnitude(NativeB codes) {
  return _mm512_abs_epi8(codes);
}
FN NativeB nb_with_sign(NativeB x, NativeB codes) {
  const __mmask64 negative = _mm512_movepi8_mask(codes);
  const NativeB flipped = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
  return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(codes, codes), flipped);
}
#endif
FN NativeB nb_xor(NativeB a, NativeB b) {
  return _mm512_xor_si512(a, b);
}
