// exp, exp2, sigmoid, silu, softplus, tanh, gelu_tanh, gelu_erf, expm1 on sixteen lanes, by the same
// operations on every target. Included through kernels.inl.

// exp(x) by 2^n * p(r), r = x - n ln 2 in two steps (Cody & Waite 1980), p of degree 7 (Taylor; |r| <= 0.35,
// so its remainder is below 1e-8). Relative error at most 1.5 ulp. 0 below -87.3; the value at 88.3
// above 88.3.
FN F exp(F x) {
  const F clamped = min(max(x, splat(-87.33f)), splat(88.3f));
  const F magic = splat(12582912.0f);  // 1.5 * 2^23
  const F shifted = fma(clamped, splat(1.44269504f), magic);
  const F n = sub(shifted, magic);
  F r = fma(n, splat(-0.693145752f), clamped);  // ln 2 = 0.693145752 + 1.42860677e-6; the first has 15 bits
  r = fma(n, splat(-1.42860677e-6f), r);
  F p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  const I exponent = shift_left<23>(sub(as_int(shifted), splat_int(0x4B400000)));
  const F y = as_float(add(as_int(p), exponent));
  return select_lt(x, splat(-87.33f), zero(), y);
}

// 2^x for x < 128, for softmax: 2^n p(r), r = x - n exact, p of degree 5 (minimax of the relative error on
// |r| <= 0.5 with p(0) = 1: 9.2e-8, by Lawson's algorithm). Relative error at most 1.5 ulp; exactly 1 at 0, 0
// below -126.
FN F exp2(F x) {
  const F shifted =
      add(x, splat(12582912.0f));  // 1.5 * 2^23: leaves n in the low bits, with zeros above it up to bit 8
  const F r = sub(x, sub(shifted, splat(12582912.0f)));
  F p = splat(0.0013264727f);
  p = fma(p, r, splat(0.009671513f));
  p = fma(p, r, splat(0.055507336f));
  p = fma(p, r, splat(0.24022242f));
  p = fma(p, r, splat(0.693147f));
  p = fma(p, r, splat(1.0f));
  const F y = as_float(add(as_int(p), shift_left<23>(as_int(shifted))));
  return select_lt(x, splat(-126.0f), zero(), y);
}

// 1 / (1 + exp(-x)); x / (1 + exp(-x)). Relative error at most 3 ulp.
FN F sigmoid(F x) {
  return div(splat(1.0f), add(splat(1.0f), exp(sub(zero(), x))));
}
FN F silu(F x) {
  return div(x, add(splat(1.0f), exp(sub(zero(), x))));
}

// tanh(x) = 2 sigmoid(2 x) - 1. Absolute error at most 3e-7.
FN F tanh(F x) {
  return fma(splat(2.0f), sigmoid(add(x, x)), splat(-1.0f));
}
// x / 2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). Absolute error at most 4e-7 |x|.
FN F gelu_tanh(F x) {
  const F cubic = fma(mul(x, x), splat(0.044715f), splat(1.0f));
  return mul(x, sigmoid(mul(mul(x, splat(1.5957691216f)), cubic)));
}

// x P(x) with the normal distribution's P(x) = (1 + erf(x / sqrt 2)) / 2. Below 0, P(x) = t p(t) exp(-x^2 /
// 2), t = 1 / (1 + 0.2316419 |x|) (Hastings 1955; Abramowitz & Stegun 26.2.17: 7.5e-8), above it 1 - P(-x).
// Absolute error at most 3e-7 |x|.
FN F gelu_erf(F x) {
  const F t = div(splat(1.0f), fma(abs(x), splat(0.2316419f), splat(1.0f)));
  F p = splat(0.530702714f);
  p = fma(p, t, splat(-0.726576013f));
  p = fma(p, t, splat(0.710706871f));
  p = fma(p, t, splat(-0.142248368f));
  p = fma(p, t, splat(0.127414796f));
  const F below = mul(mul(p, t), exp(mul(mul(x, x), splat(-0.5f))));
  return mul(x, select_lt(x, zero(), below, sub(splat(1.0f), below)));
}

// log(1 + exp(x)) = max(x, 0) + log1p(e), e = exp(-|x|) in (0, 1]; log1p(e) = 2 atanh(z), z = e / (2 + e) <=
// 1/3, by its series to z^17. Relative error at most 3 ulp.
FN F softplus(F x) {
  const F e = exp(sub(zero(), abs(x)));
  const F z = div(e, add(splat(2.0f), e));
  const F z2 = mul(z, z);
  F p = splat(1.0f / 17);
  p = fma(p, z2, splat(1.0f / 15));
  p = fma(p, z2, splat(1.0f / 13));
  p = fma(p, z2, splat(1.0f / 11));
  p = fma(p, z2, splat(1.0f / 9));
  p = fma(p, z2, splat(1.0f / 7));
  p = fma(p, z2, splat(1.0f / 5));
  p = fma(p, z2, splat(1.0f / 3));
  p = fma(p, z2, splat(1.0f));
  return fma(add(z, z), p, max(x, zero()));
}

// expm1(x) - y. Where exp(x) is near 1, by the series of (exp(x) - 1 - x) / x^2, so that nothing is lost if y
// is near x.
FN F expm1_minus(F x, F y) {
  F p = splat(1.0f / 40320);
  p = fma(p, x, splat(1.0f / 5040));
  p = fma(p, x, splat(1.0f / 720));
  p = fma(p, x, splat(1.0f / 120));
  p = fma(p, x, splat(1.0f / 24));
  p = fma(p, x, splat(1.0f / 6));
  p = fma(p, x, splat(0.5f));
  const F small = fma(mul(x, x), p, sub(x, y));
  const F large = sub(sub(exp(x), splat(1.0f)), y);
  return select_lt(abs(x), splat(0.5f), small, large);
}
