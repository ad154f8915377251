// AArch64 Advanced SIMD natives: four registers hold 16 lanes. See simd.h.
using NativeF = float32x4_t;
using NativeI = int32x4_t;
using NativeB = uint8x16_t;
constexpr int kNatives = 4;

FN NativeF nf_load(const float* p) {
  return vld1q_f32(p);
}
FN void nf_store(float* p, NativeF v) {
  vst1q_f32(p, v);
}
FN NativeF nf_set1(float x) {
  return vdupq_n_f32(x);
}
FN NativeF nf_add(NativeF a, NativeF b) {
  return vaddq_f32(a, b);
}
FN NativeF nf_sub(NativeF a, NativeF b) {
  return vsubq_f32(a, b);
}
FN NativeF nf_mul(NativeF a, NativeF b) {
  return vmulq_f32(a, b);
}
FN NativeF nf_div(NativeF a, NativeF b) {
  return vdivq_f32(a, b);
}
FN NativeF nf_fma(NativeF a, NativeF b, NativeF c) {
  return vfmaq_f32(c, a, b);
}
FN NativeF nf_abs(NativeF a) {
  return vabsq_f32(a);
}
FN NativeF nf_select_lt(NativeF a, NativeF b, NativeF x, NativeF y) {
  return vbslq_f32(vcltq_f32(a, b), x, y);
}
// a < b ? a : b, like x86 (a NaN gives b), unlike FMIN.
FN NativeF nf_min(NativeF a, NativeF b) {
  return nf_select_lt(a, b, a, b);
}
FN NativeF nf_max(NativeF a, NativeF b) {
  return nf_select_lt(b, a, a, b);
}
FN NativeF nf_from_i(NativeI a) {
  return vcvtq_f32_s32(a);
}
FN NativeI nf_to_i(NativeF a) {
  return vcvtnq_s32_f32(a);
}
FN NativeF ni_as_f(NativeI a) {
  return vreinterpretq_f32_s32(a);
}
FN NativeI nf_as_i(NativeF a) {
  return vreinterpretq_s32_f32(a);
}
FN NativeF nf_load_f16(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
FN NativeF nf_load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
FN void nf_store_f16(uint16_t* p, NativeF v) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

FN NativeF nf_load_i8(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
FN NativeF nf_load_u8(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, 4);
  return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))));
}

// E4M3 times 2^-8: the bits of an f16 whose exponent is 8 too small.
FN NativeF nf_load_e4m3_small(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  const int16x4_t wide = vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))));
  const uint16x4_t half = vand_u16(vreinterpret_u16_s16(vshl_n_s16(wide, 7)), vdup_n_u16(0xBFFF));
  return vcvt_f32_f16(vreinterpret_f16_u16(half));
}
FN NativeF nf_load_e8m0(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, 4);
  const uint32x4_t code = vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)))));
  return vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(code, 23), vdupq_n_u32(0x00400000)));
}

// Four columns of 4 rows.
FN void nf_load_columns(const float* p, int64_t stride, NativeF to[4]) {
  NativeF rows[4];
  UNROLL for (int i = 0; i < 4; i++) rows[i] = vld1q_f32(p + i * stride);
  const NativeF a = vzip1q_f32(rows[0], rows[2]), b = vzip1q_f32(rows[1], rows[3]),
                c = vzip2q_f32(rows[0], rows[2]), d = vzip2q_f32(rows[1], rows[3]);
  to[0] = vzip1q_f32(a, b);
  to[1] = vzip2q_f32(a, b);
  to[2] = vzip1q_f32(c, d);
  to[3] = vzip2q_f32(c, d);
}

FN NativeI ni_set1(int32_t x) {
  return vdupq_n_s32(x);
}
FN NativeI ni_add(NativeI a, NativeI b) {
  return vaddq_s32(a, b);
}
FN NativeI ni_sub(NativeI a, NativeI b) {
  return vsubq_s32(a, b);
}
FN NativeI ni_max(NativeI a, NativeI b) {
  return vmaxq_s32(a, b);
}
FN int32_t ni_reduce_add(NativeI a) {
  return vaddvq_s32(a);
}
FN int32_t ni_reduce_max(NativeI a) {
  return vmaxvq_s32(a);
}
FN NativeI ni_and(NativeI a, NativeI b) {
  return vandq_s32(a, b);
}
template <int S>
FN NativeI ni_shl(NativeI a) {
  return vshlq_n_s32(a, S);
}
template <int S>
FN NativeI ni_shr(NativeI a) {
  return S == 0 ? a : vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), S == 0 ? 1 : S));
}
FN void ni_store_i8(int8_t* p, NativeI v) {
  const int16x4_t h = vqmovn_s32(v);
  const int8x8_t b = vqmovn_s16(vcombine_s16(h, h));
  const int32_t x = vget_lane_s32(vreinterpret_s32_s8(b), 0);
  __builtin_memcpy(p, &x, 4);
}

FN NativeB nb_load(const uint8_t* p) {
  return vld1q_u8(p);
}
FN void nb_store(uint8_t* p, NativeB v) {
  vst1q_u8(p, v);
}
FN NativeB nb_set1(uint8_t x) {
  return vdupq_n_u8(x);
}
FN NativeB nb_quad(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return vreinterpretq_u8_s32(vdupq_n_s32(x));
}
FN NativeB nb_and(NativeB a, NativeB b) {
  return vandq_u8(a, b);
}
FN NativeB nb_or(NativeB a, NativeB b) {
  return vorrq_u8(a, b);
}
FN NativeB nb_xor(NativeB a, NativeB b) {
  return veorq_u8(a, b);
}
template <int S>
FN NativeB nb_shl(NativeB a) {
  return vshlq_n_u8(a, S);
}
template <int S>
FN NativeB nb_shr(NativeB a) {
  return vshrq_n_u8(a, S);
}
FN NativeI nb_as_i(NativeB a) {
  return vreinterpretq_s32_u8(a);
}

using NativeTable = NativeB;
FN NativeTable nb_load_table(const uint8_t* p) {
  return vld1q_u8(p);
}
FN NativeB nb_look_up(NativeTable table, NativeB codes) {
  return vqtbl1q_u8(table, codes);
}

constexpr bool kHasMaddubs = false, kSignedBytes = true;
// Codes are at most 127 or signed here (AffineCodes in simd.h), so both operands are signed.
FN NativeI ni_dot(NativeI acc, NativeB codes, NativeB x) {
  const int8x16_t a = vreinterpretq_s8_u8(codes), b = vreinterpretq_s8_u8(x);
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(acc, a, b);
#else
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
  const int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(b)));
  return vaddq_s32(acc, vpaddq_s32(low, high));
#endif
}
