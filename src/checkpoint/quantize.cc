#include "checkpoint/quantize.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/float16.h"

namespace anabranch {

namespace {

constexpr int kLanes = 8;
constexpr int kMaxGroup = 128;

// Sums over a group for codes q = clamp(round((w - bias) / scale)).
struct Sums {
  float error, q, qq, qw;
};

// One fixed order of additions whatever the vector width: eight running sums, then their total.
Sums evaluate(const float* w, int n, float scale, float bias, float top) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  float error[kLanes] = {}, q1[kLanes] = {}, q2[kLanes] = {}, qw[kLanes] = {};
  for (int i = 0; i < n; i += kLanes)
    for (int j = 0; j < kLanes; j++) {
      float t = (w[i + j] - bias) * inverse + 0.5f;
      t = t > 0 ? t : 0;
      t = t < top + 0.5f ? t : top;
      const float q = static_cast<float>(static_cast<int>(t));
      const float e = w[i + j] - (q * scale + bias);
      error[j] += e * e;
      q1[j] += q;
      q2[j] += q * q;
      qw[j] += q * w[i + j];
    }
  const auto total = [](const float* x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
  };
  return {total(error), total(q1), total(q2), total(qw)};
}

struct Fit {
  float scale = 0, bias = 0;
  float error = INFINITY;
};

class GroupFit {
 public:
  GroupFit(const float* w, int n, int bits, bool half)
      : w_(w), n_(n), bits_(bits), half_(half), top_(static_cast<float>((1 << bits) - 1)) {
    low_ = *std::min_element(w, w + n);
    high_ = *std::max_element(w, w + n);
    for (int i = 0; i < n; i++) sum_ += w[i];
  }

  // As mlx.quantize (mlx/backend/cpu/quantized.cpp): the end farther from zero is met exactly and zero is a
  // code.
  Fit minmax() const {
    const float eps = 1e-7f;
    const bool from_low = std::abs(low_) > std::abs(high_);
    float scale = std::max((high_ - low_) / top_, eps);
    if (!from_low) scale = -scale;
    const float edge = from_low ? low_ : high_;
    const float zero = std::rint(edge / scale);
    if (zero != 0) scale = edge / zero;
    const float bias = zero == 0 ? 0 : edge;
    Fit fit{round(scale), round(bias), 0};
    for (int i = 0; i < n_; i++) {  // MLX chooses codes before it rounds
      const float q = std::clamp(std::rint((w_[i] - bias) / scale), 0.0f, top_);
      const float e = w_[i] - (q * fit.scale + fit.bias);
      fit.error += e * e;
    }
    return fit;
  }

  Fit best(const Fit& start) {
    consider(start.scale, start.bias);
    const float range = high_ - low_;
    if (!(range > 0)) {
      consider(0, low_);
      return best_;
    }
    for (float below : shrinks())
      for (float above : shrinks()) search(low_ + below * range, high_ - above * range);
    return best_;
  }

 private:
  // Shares of the range worth cutting off at an end: the fewer codes, the more.
  std::span<const float> shrinks() const {
    static constexpr float k2[] = {0, 0.06f, 0.12f, 0.18f, 0.24f};
    static constexpr float k3[] = {0, 0.05f, 0.1f, 0.15f};
    static constexpr float k4[] = {0, 0.04f, 0.08f};
    static constexpr float k5[] = {0, 0.03f};
    static constexpr float k8[] = {0};
    if (bits_ == 2) return k2;
    if (bits_ == 3) return k3;
    if (bits_ == 4) return k4;
    return bits_ <= 6 ? std::span<const float>(k5) : k8;
  }

  float round(float x) const {
    return half_ ? f16_to_float(float_to_f16(x)) : bf16_to_float(float_to_bf16(x));
  }

  // The next wider scale: clipping the ends costs more than slightly wider steps when steps are fine.
  float wider(float scale) const {
    return half_ ? f16_to_float(float_to_f16(scale) + 1) : bf16_to_float(float_to_bf16(scale) + 1);
  }

  void search(float low, float high) {
    float scale = (high - low) / top_, bias = low;
    constexpr int kRefits = 2;
    for (int i = 0; i < kRefits; i++) {  // least squares for the codes at hand
      const Sums s = evaluate(w_, n_, scale, bias, top_);
      const float variance = s.qq - s.q * (s.q / n_);
      if (!(variance > 0)) break;
      scale = (s.qw - s.q * (sum_ / n_)) / variance;
      bias = (sum_ - scale * s.q) / n_;
    }
    const float rounded = round(scale);
    refine(rounded, bias);
    if (bits_ > 4) refine(wider(rounded), low + (scale - wider(rounded)) * top_ / 2);
  }

  // The best bias for a rounded scale.
  void refine(float scale, float bias) {
    const Sums s = evaluate(w_, n_, scale, bias, top_);
    consider(scale, (sum_ - scale * s.q) / n_);
    consider(scale, bias);
  }

  void consider(float scale, float bias) {
    bias = round(bias);
    const float error = evaluate(w_, n_, scale, bias, top_).error;
    if (error < best_.error && std::isfinite(scale) && std::isfinite(bias)) best_ = {scale, bias, error};
  }

  const float* w_;
  int n_, bits_;
  bool half_;
  float top_, low_ = 0, high_ = 0, sum_ = 0;
  Fit best_;
};

void choose_codes(const float* w, int n, const Fit& fit, float top, uint8_t* codes) {
  const float inverse = fit.scale == 0 ? 0 : 1 / fit.scale;
  for (int i = 0; i < n; i++) {  // exactly as evaluate()
    float t = (w[i] - fit.bias) * inverse + 0.5f;
    t = t > 0 ? t : 0;
    t = t < top + 0.5f ? t : top;
    codes[i] = static_cast<uint8_t>(static_cast<int>(t));
  }
}

}  // namespace

void quantize_row(const float* values, int64_t cols, const AffineFormat& format, bool half, uint8_t* codes,
                  uint16_t* scales, uint16_t* biases, QuantizeStats& stats) {
  const int n = format.group;
  CHECK(n % kLanes == 0 && n <= kMaxGroup && cols % n == 0, "{} columns in groups of {}", cols, n);
  for (int64_t at = 0, g = 0; at < cols; at += n, g++) {
    const float* w = values + at;
    double energy = 0;
    for (int i = 0; i < n; i++) energy += static_cast<double>(w[i]) * w[i];
    if (!std::isfinite(energy)) {
      stats.finite = false;
      return;
    }
    GroupFit group(w, n, format.bits, half);
    const Fit plain = group.minmax();
    const Fit fit = group.best(plain);
    if (!std::isfinite(fit.error)) {  // f16 has no scale that large
      stats.finite = false;
      return;
    }
    choose_codes(w, n, fit, static_cast<float>((1 << format.bits) - 1), codes + at);
    scales[g] = half ? float_to_f16(fit.scale) : float_to_bf16(fit.scale);
    biases[g] = half ? float_to_f16(fit.bias) : float_to_bf16(fit.bias);
    stats.error += fit.error;
    stats.minmax_error += plain.error;
    stats.energy += energy;
  }
}

}  // namespace anabranch
