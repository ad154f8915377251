// The search for the scales of GGUF's blocks: least squares, weighted by importance, over several guesses and
// over the neighbours of each integer scale. A factor is infinite where the weights are too large for f16.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/float16.h"

namespace anabranch {

// Infinity, which stands for a factor that no f16 can hold.
constexpr uint16_t kNoHalf = 0x7c00;

// Weights w, and for each the weight h of its squared error.
struct FitGroup {
  const float *w, *h;
  int n;
};

// Codes 0 .. 2 * kHalf - 1 stand for -kHalf .. kHalf - 1.
template <int kHalf>
struct SignedGrid {
  static constexpr float kEdges[] = {-kHalf, kHalf - 1};
  static int nearest(float x) {
    const float up = x + (kHalf + 0.5f);
    return up > 0 ? (up < 2 * kHalf ? static_cast<int>(up) : 2 * kHalf - 1) : 0;
  }
  static float value(int code) { return static_cast<float>(code - kHalf); }
};

// The 16 values of IQ4_NL and IQ4_XS.
struct Iq4Grid {
  static constexpr std::array<int8_t, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
  static constexpr float kEdges[] = {-127, 113};
  // The nearest code of a value, at index floor(2 * value) + 256. This is exact, because every border between
  // two codes is a multiple of a half.
  static constexpr std::array<uint8_t, 512> kNearest = [] {
    std::array<uint8_t, 512> out{};
    for (int i = 0, code = 0; i < 512; i++) {
      while (code < 15 && i - 256 >= kValues[code] + kValues[code + 1]) code++;
      out[i] = static_cast<uint8_t>(code);
    }
    return out;
  }();
  static int nearest(float x) {
    const float at = 2 * x + 256;
    return kNearest[at > 0 ? (at < 511 ? static_cast<int>(at) : 511) : 0];
  }
  static float value(int code) { return kValues[code]; }
};

struct FitSums {
  // vw, vv: products of the grid's values with the weights, and with themselves.
  float error = 0, vw = 0, vv = 0;
};

// Sums over the group, weighted by h, for the codes that are nearest at this scale.
template <class Grid>
FitSums evaluate_scale(const FitGroup& g, float scale) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  FitSums s;
  for (int i = 0; i < g.n; i++) {
    const float v = Grid::value(Grid::nearest(g.w[i] * inverse)), e = g.w[i] - scale * v, hv = g.h[i] * v;
    s.error += g.h[i] * e * e;
    s.vw += hv * g.w[i];
    s.vv += hv * v;
  }
  return s;
}

// The scale with the least error, among scales that put the largest weight at or near an end of the grid, or
// beyond it (clipped). Infinite if errors are too large for a float.
template <class Grid>
float best_scale(const FitGroup& g) {
  constexpr float kShares[] = {0.92f, 0.96f, 1.0f, 1.04f, 1.08f, 1.13f, 1.2f, 1.3f};
  float most = 0;
  for (int i = 0; i < g.n; i++)
    if (std::fabs(g.w[i]) > std::fabs(most)) most = g.w[i];
  if (most == 0) return 0;
  float best = INFINITY, least = INFINITY;
  const auto consider = [&](float scale) {
    const FitSums s = evaluate_scale<Grid>(g, scale);
    if (s.error < least) least = s.error, best = scale;
    return s.vv > 0 ? s.vw / s.vv : scale;
  };
  for (const float edge : Grid::kEdges)
    for (const float share : kShares) consider(consider(most / (edge * share)));
  return best;
}

template <class Grid>
void choose_grid_codes(const FitGroup& g, float scale, uint8_t* codes) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  for (int i = 0; i < g.n; i++) codes[i] = static_cast<uint8_t>(Grid::nearest(g.w[i] * inverse));
}

// Fits one group with an f16 scale; returns the scale's bits.
template <class Grid>
uint16_t fit_half_scale(const FitGroup& g, uint8_t* codes) {
  const uint16_t d = float_to_f16(best_scale<Grid>(g));
  choose_grid_codes<Grid>(g, f16_to_float(d), codes);
  return d;
}

// Fits 256 weights in groups of kGroup, whose scales are integers from `low` to `high` times a common f16.
template <class Grid, int kGroup>
class ScaledBlockFit {
 public:
  static constexpr int kGroups = 256 / kGroup;

  ScaledBlockFit(const float* w, const float* h, int low, int high) : low_(low), high_(high) {
    for (int g = 0; g < kGroups; g++) {
      groups_[g] = {w + g * kGroup, h + g * kGroup, kGroup};
      wanted_[g] = best_scale<Grid>(groups_[g]);
    }
  }

  uint16_t run(int8_t* scales, uint8_t* codes) {
    float most = 0;
    for (const float s : wanted_)
      if (std::fabs(s) > std::fabs(most)) most = s;
    for (const int end : {low_, low_ + 1, high_, high_ - 1}) {
      float d = most / static_cast<float>(end);
      constexpr int kRefits = 3;
      for (int i = 0; i < kRefits; i++) d = consider(float_to_f16(d));
    }
    for (int g = 0; g < kGroups; g++) {
      scales[g] = best_[g];
      choose_grid_codes<Grid>(groups_[g], f16_to_float(d_) * static_cast<float>(best_[g]),
                              codes + g * kGroup);
    }
    return d_;
  }

 private:
  // Chooses the integers for this factor, and keeps them if they are the best so far. Returns the best factor
  // for the resulting codes.
  float consider(uint16_t bits) {
    const float d = f16_to_float(bits);
    if (!std::isfinite(d)) return d;
    std::array<int8_t, kGroups> chosen{};
    double error = 0, vw = 0, vv = 0;
    for (int g = 0; g < kGroups; g++) {
      const int near = d == 0 ? 0 : round_within(wanted_[g] / d);
      FitSums best;
      best.error = INFINITY;
      for (int s = std::max(near - 1, low_); s <= std::min(near + 1, high_); s++) {
        const FitSums sums = evaluate_scale<Grid>(groups_[g], d * static_cast<float>(s));
        if (sums.error < best.error) best = sums, chosen[g] = static_cast<int8_t>(s);
      }
      error += best.error;
      vw += double{best.vw} * chosen[g];
      vv += double{best.vv} * chosen[g] * chosen[g];
    }
    if (error < least_) least_ = error, best_ = chosen, d_ = bits;
    return vv > 0 ? static_cast<float>(vw / vv) : d;
  }

  int round_within(float x) const {
    return static_cast<int>(
        std::clamp(std::nearbyint(x), static_cast<float>(low_), static_cast<float>(high_)));
  }

  int low_, high_;
  std::array<FitGroup, kGroups> groups_;
  std::array<float, kGroups> wanted_{};
  std::array<int8_t, kGroups> best_{};
  uint16_t d_ = kNoHalf;
  double least_ = INFINITY;
};

// Returns the bits of the common factor.
template <class Grid, int kGroup>
uint16_t fit_scaled_block(const float* w, const float* h, int low, int high, int8_t* scales, uint8_t* codes) {
  return ScaledBlockFit<Grid, kGroup>(w, h, low, high).run(scales, codes);
}

// 256 weights in groups of 32: a weight is d * scale * code - dmin * min, with scales and mins of 6 bits.
struct AffineBlock {
  uint16_t d = kNoHalf, dmin = 0;  // f16
  std::array<uint8_t, 8> scales{}, mins{};
  uint8_t codes[256];
};

// 32 weights: scale * code + bias, both of f16.
struct AffineGroup {
  uint16_t scale = kNoHalf, bias = 0;
  uint8_t codes[32];
};

// Codes from 0 to `top`.
AffineGroup fit_affine_group(const float* w, const float* h, int top);
AffineBlock fit_affine_block(const float* w, const float* h, int top);

}  // namespace anabranch
