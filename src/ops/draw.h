// The arithmetic for drawing tokens, the same to the bit on the host and in a kernel: single additions,
// multiplications and divisions in a fixed order, and integers. decode/sampler.h describes the draw.
#pragma once

#ifdef __CUDACC__
#define ANABRANCH_BOTH __device__ __forceinline__
#else
#include <bit>
#include <cstdint>
#define ANABRANCH_BOTH inline
#endif

namespace anabranch::ops {

using Word = unsigned int;
using LongWord = unsigned long long;

// Prevents the kernel compiler from fusing some of these operations into one (fma).
#ifdef __CUDACC__
ANABRANCH_BOTH double plus(double a, double b) {
  return __dadd_rn(a, b);
}
ANABRANCH_BOTH double times(double a, double b) {
  return __dmul_rn(a, b);
}
ANABRANCH_BOTH LongWord bits_of(double x) {
  return (LongWord)__double_as_longlong(x);
}
ANABRANCH_BOTH double from_bits(LongWord x) {
  return __longlong_as_double((long long)x);
}
ANABRANCH_BOTH Word bits_of(float x) {
  return __float_as_uint(x);
}
ANABRANCH_BOTH float from_bits(Word x) {
  return __uint_as_float(x);
}
ANABRANCH_BOTH int leading_zeros(Word x) {
  return __clz((int)x);
}
#else
ANABRANCH_BOTH double plus(double a, double b) {
  return a + b;
}
ANABRANCH_BOTH double times(double a, double b) {
  return a * b;
}
ANABRANCH_BOTH LongWord bits_of(double x) {
  return std::bit_cast<LongWord>(x);
}
ANABRANCH_BOTH double from_bits(LongWord x) {
  return std::bit_cast<double>(x);
}
ANABRANCH_BOTH Word bits_of(float x) {
  return std::bit_cast<Word>(x);
}
ANABRANCH_BOTH float from_bits(Word x) {
  return std::bit_cast<float>(x);
}
ANABRANCH_BOTH int leading_zeros(Word x) {
  return std::countl_zero(x);
}
#endif

// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by the seed, at
// counter (token, position): the first two words.
struct RandomWords {
  Word first, second;
};
ANABRANCH_BOTH RandomWords random_words(LongWord seed, LongWord position, Word token) {
  Word c0 = token, c1 = 0, c2 = (Word)position, c3 = (Word)(position >> 32);
  Word k0 = (Word)seed, k1 = (Word)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const LongWord p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = (Word)(p1 >> 32) ^ c1 ^ k0, c1 = (Word)p1;
    c2 = (Word)(p0 >> 32) ^ c3 ^ k1, c3 = (Word)p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c0, c1};
}

// Uniform in (0, 1), made from 52 bits: bits + 0.5 stays exact.
ANABRANCH_BOTH double uniform(RandomWords words) {
  const LongWord bits = (LongWord)words.first << 20 | words.second >> 12;
  return times(plus((double)bits, 0.5), 0x1p-52);
}

// The natural logarithm of a normal number. The mantissa is brought to [sqrt(1/2), sqrt(2)); its logarithm is
// the series of 2 atanh(f / (2 + f)).
ANABRANCH_BOTH double log_of(double x) {
  constexpr double kSeries[] = {1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11,
                                1. / 9,  1. / 7,  1. / 5,  1. / 3,  1.};
  const LongWord bits = bits_of(x);
  int exponent = (int)(bits >> 52) - 1023;
  double m = from_bits((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.4142135623730951) m = times(m, 0.5), exponent++;
  const double f = plus(m, -1), s = f / plus(f, 2), z = times(s, s);
  double sum = 0;
  for (const double c : kSeries) sum = plus(times(sum, z), c);
  return plus(times(exponent, 0.6931471805599453), times(times(s, 2), sum));
}

// Gumbel noise, within (-4, 37).
constexpr float kMostNoise = 37, kLeastNoise = -4;
ANABRANCH_BOTH float noise_of(RandomWords words) {
  return (float)-log_of(-log_of(uniform(words)));
}
// A cheap upper bound of the noise: -log(-log u) <= -log(1 - u).
ANABRANCH_BOTH float most_noise(RandomWords words) {
  const Word rest = ~words.first;
  return rest == 0 ? kMostNoise : 0.6932f * (float)(leading_zeros(rest) + 1);
}

// The weight of a candidate: 2^40 exp(x) without its fraction, x <= 0. Sums of weights are exact in any
// order.
ANABRANCH_BOTH LongWord weight_of(double x) {
  constexpr double kSeries[] = {
      1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040,
      1. / 720,        1. / 120,       1. / 24,       1. / 6,       1. / 2,      1.,         1.};
  if (!(x > -27.72)) return 0;
  const int n = (int)plus(times(x, 1.4426950408889634), -0.5);
  const double r = plus(x, times(n, -0.6931471805599453));
  double sum = 0;
  for (const double c : kSeries) sum = plus(times(sum, r), c);
  return (LongWord)times(sum, from_bits((LongWord)(n + 40 + 1023) << 52));
}

// Packs a float and a token into one word that sorts by value, then by the lower token. 0 is below all of
// them.
ANABRANCH_BOTH LongWord rank_of(float value, int token) {
  const Word bits = bits_of(value + 0.0f);  // -0 becomes +0
  const Word ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (LongWord)ordered << 32 | (Word)~token;
}
ANABRANCH_BOTH float value_of(LongWord rank) {
  const Word ordered = (Word)(rank >> 32);
  return from_bits(ordered >> 31 ? ordered & 0x7FFFFFFFu : ~ordered);
}
ANABRANCH_BOTH int token_of(LongWord rank) {
  return (int)~(Word)rank;
}

}  // namespace anabranch::ops
