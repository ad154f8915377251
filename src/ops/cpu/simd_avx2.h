// AVX2 + FMA + F16C natives: two registers hold 16 lanes. See simd.h.
using NativeF = __m256;
using NativeI = __m256i;
using NativeB = __m256i;
constexpr int kNatives = 2;

FN NativeF nf_load(const float* p) {
  return _mm256_loadu_ps(p);
}
FN void nf_store(float* p, NativeF v) {
  _mm256_storeu_ps(p, v);
}
FN NativeF nf_set1(float x) {
  return _mm256_set1_ps(x);
}
FN NativeF nf_add(NativeF a, NativeF b) {
  return _mm256_add_ps(a, b);
}
FN NativeF nf_sub(NativeF a, NativeF b) {
  return _mm256_sub_ps(a, b);
}
FN NativeF nf_mul(NativeF a, NativeF b) {
  return _mm256_mul_ps(a, b);
}
FN NativeF nf_div(NativeF a, NativeF b) {
  return _mm256_div_ps(a, b);
}
FN NativeF nf_fma(NativeF a, NativeF b, NativeF c) {
  return _mm256_fmadd_ps(a, b, c);
}
FN NativeF nf_min(NativeF a, NativeF b) {
  return _mm256_min_ps(a, b);
}
FN NativeF nf_max(NativeF a, NativeF b) {
  return _mm256_max_ps(a, b);
}
FN NativeF nf_abs(NativeF a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
FN NativeF nf_select_lt(NativeF a, NativeF b, NativeF x, NativeF y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
FN NativeF nf_from_i(NativeI a) {
  return _mm256_cvtepi32_ps(a);
}
FN NativeI nf_to_i(NativeF a) {
  return _mm256_cvtps_epi32(a);
}
FN NativeF ni_as_f(NativeI a) {
  return _mm256_castsi256_ps(a);
}
FN NativeI nf_as_i(NativeF a) {
  return _mm256_castps_si256(a);
}
FN NativeF nf_load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
FN NativeF nf_load_bf16(const uint16_t* p) {
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
FN void nf_store_f16(uint16_t* p, NativeF v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

FN NativeF nf_load_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
FN NativeF nf_load_u8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// E4M3 times 2^-8: the bits of an f16 whose exponent is 8 too small.
FN NativeF nf_load_e4m3_small(const uint8_t* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i half = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(static_cast<int16_t>(0xBFFF)));
  return _mm256_cvtph_ps(half);
}
FN NativeF nf_load_e8m0(const uint8_t* p) {
  const __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_slli_epi32(code, 23), _mm256_set1_epi32(0x00400000)));
}

// Four columns of 8 rows. A row's four numbers are loaded into one half; each half is transposed by itself.
FN void nf_load_columns(const float* p, int64_t stride, NativeF to[4]) {
  NativeF rows[4];
  UNROLL for (int i = 0; i < 4; i++) rows[i] = _mm256_insertf128_ps(
      _mm256_castps128_ps256(_mm_loadu_ps(p + i * stride)), _mm_loadu_ps(p + (i + 4) * stride), 1);
  const NativeF a = _mm256_unpacklo_ps(rows[0], rows[1]), b = _mm256_unpacklo_ps(rows[2], rows[3]),
                c = _mm256_unpackhi_ps(rows[0], rows[1]), d = _mm256_unpackhi_ps(rows[2], rows[3]);
  to[0] = _mm256_shuffle_ps(a, b, 0x44);
  to[1] = _mm256_shuffle_ps(a, b, 0xEE);
  to[2] = _mm256_shuffle_ps(c, d, 0x44);
  to[3] = _mm256_shuffle_ps(c, d, 0xEE);
}

FN NativeI ni_set1(int32_t x) {
  return _mm256_set1_epi32(x);
}
FN NativeI ni_add(NativeI a, NativeI b) {
  return _mm256_add_epi32(a, b);
}
FN NativeI ni_sub(NativeI a, NativeI b) {
  return _mm256_sub_epi32(a, b);
}
FN NativeI ni_max(NativeI a, NativeI b) {
  return _mm256_max_epi32(a, b);
}
FN int32_t ni_reduce_add(NativeI a) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 1)));
}
FN int32_t ni_reduce_max(NativeI a) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 1)));
}
FN NativeI ni_and(NativeI a, NativeI b) {
  return _mm256_and_si256(a, b);
}
template <int S>
FN NativeI ni_shl(NativeI a) {
  return _mm256_slli_epi32(a, S);
}
template <int S>
FN NativeI ni_shr(NativeI a) {
  return _mm256_srli_epi32(a, S);
}
FN void ni_store_i8(int8_t* p, NativeI v) {
  const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(w, w));
}

FN NativeB nb_load(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
FN void nb_store(uint8_t* p, NativeB v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
FN NativeB nb_set1(uint8_t x) {
  return _mm256_set1_epi8(static_cast<char>(x));
}
FN NativeB nb_quad(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm256_set1_epi32(x);
}
FN NativeB nb_and(NativeB a, NativeB b) {
  return _mm256_and_si256(a, b);
}
FN NativeB nb_or(NativeB a, NativeB b) {
  return _mm256_or_si256(a, b);
}
FN NativeB nb_xor(NativeB a, NativeB b) {
  return _mm256_xor_si256(a, b);
}
template <int S>
FN NativeB nb_shl(NativeB a) {
  return _mm256_slli_epi16(a, S);
}
template <int S>
FN NativeB nb_shr(NativeB a) {
  return _mm256_srli_epi16(a, S);
}
FN NativeI nb_as_i(NativeB a) {
  return a;
}

using NativeTable = NativeB;
FN NativeTable nb_load_table(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
FN NativeB nb_look_up(NativeTable table, NativeB codes) {
  return _mm256_shuffle_epi8(table, codes);
}

constexpr bool kHasMaddubs = true, kSignedBytes = true;
FN NativeI n16_maddubs(NativeB codes, NativeB x) {
  return _mm256_maddubs_epi16(codes, x);
}
FN NativeI n16_add(NativeI a, NativeI b) {
  return _mm256_add_epi16(a, b);
}
FN NativeI n16_widen(NativeI a) {
  return _mm256_madd_epi16(a, _mm256_set1_epi16(1));
}
// Signed bytes as factors of maddubs: see AffineCodes in simd.h.
FN NativeB nb_magnitude(NativeB codes) {
  return _mm256_abs_epi8(codes);
}
FN NativeB nb_with_sign(NativeB x, NativeB codes) {
  return _mm256_sign_epi8(x, codes);
}
