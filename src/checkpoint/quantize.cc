#include "checkpoint/quantize.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/float16.h"

namespace anabranch {

namespace {

constexpr int kLanes = 8;
constexpr int kMaxGroup = 128;

// A group of weights, and the weight of each one's squared error; null: all are 1.
struct Group {
  const float* w;
  const float* importance;
  int n;
};

// Sums over a group for codes q = clamp(round((w - bias) / scale)).
struct Sums {
  float error, q, qq, qw;
};

float total_of(const float* x) {
  return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

// One fixed order of additions whatever the vector width: eight running sums, then their total.
template <bool kWeighted>
Sums evaluate(const Group& group, float scale, float bias, float top) {
  const float *w = group.w, *h = group.importance;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  float error[kLanes] = {}, q1[kLanes] = {}, q2[kLanes] = {}, qw[kLanes] = {};
  for (int i = 0; i < group.n; i += kLanes)
    for (int j = 0; j < kLanes; j++) {
      float t = (w[i + j] - bias) * inverse + 0.5f;
      t = t > 0 ? t : 0;
      t = t < top + 0.5f ? t : top;
      const float q = static_cast<float>(static_cast<int>(t));
      const float e = w[i + j] - (q * scale + bias);
      const float he = kWeighted ? h[i + j] * e : e, hq = kWeighted ? h[i + j] * q : q;
      error[j] += he * e;
      q1[j] += hq;
      q2[j] += hq * q;
      qw[j] += hq * w[i + j];
    }
  return {total_of(error), total_of(q1), total_of(q2), total_of(qw)};
}

struct Fit {
  float scale = 0, bias = 0;
  float error = INFINITY;
};

class GroupFit {
 public:
  GroupFit(const Group& group, int bits, bool half)
      : group_(group), bits_(bits), half_(half), top_(static_cast<float>((1 << bits) - 1)) {
    low_ = *std::min_element(group.w, group.w + group.n);
    high_ = *std::max_element(group.w, group.w + group.n);
    count_ = group.importance ? 0 : static_cast<float>(group.n);
    for (int i = 0; i < group.n; i++) {
      const float h = group.importance ? group.importance[i] : 1;
      sum_ += h * group.w[i];
      if (group.importance) count_ += h;
    }
  }

  // Like mlx.quantize (mlx/backend/cpu/quantized.cpp): the end farther from zero is represented exactly, and
  // zero is a code.
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
    for (int i = 0; i < group_.n; i++) {  // MLX chooses codes before it rounds
      const float q = std::clamp(std::rint((group_.w[i] - bias) / scale), 0.0f, top_);
      const float e = group_.w[i] - (q * fit.scale + fit.bias);
      fit.error += (group_.importance ? group_.importance[i] : 1) * e * e;
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
  // Shares of the range to try cutting off at an end: the fewer codes, the larger.
  std::span<const float> shrinks() const {
    static constexpr float k2[] = {0, 0.06f, 0.12f, 0.18f, 0.24f};
    static constexpr float k3[] = {0, 0.05f, 0.1f, 0.15f};
    static constexpr float k4[] = {0, 0.04f, 0.08f};
    static constexpr float k5[] = {0, 0.03f};
    static constexpr float k8[] = {0};
    // Where columns matter little, more may be cut off.
    static constexpr float kWeighted[] = {0, 0.06f, 0.12f, 0.2f, 0.3f};
    if (group_.importance) return bits_ <= 4 ? kWeighted : std::span<const float>(kWeighted).first(3);
    if (bits_ == 2) return k2;
    if (bits_ == 3) return k3;
    if (bits_ == 4) return k4;
    return bits_ <= 6 ? std::span<const float>(k5) : k8;
  }

  float round(float x) const {
    return half_ ? f16_to_float(float_to_f16(x)) : bf16_to_float(float_to_bf16(x));
  }

  // The next wider scale that the type can hold. With fine steps, slightly wider ones cost less than clipping
  // the ends.
  float wider(float scale) const {
    return half_ ? f16_to_float(float_to_f16(scale) + 1) : bf16_to_float(float_to_bf16(scale) + 1);
  }

  Sums evaluate_codes(float scale, float bias) const {
    return group_.importance ? evaluate<true>(group_, scale, bias, top_)
                             : evaluate<false>(group_, scale, bias, top_);
  }

  void search(float low, float high) {
    float scale = (high - low) / top_, bias = low;
    constexpr int kRefits = 2;
    for (int i = 0; i < kRefits; i++) {  // least squares for the codes at hand
      const Sums s = evaluate_codes(scale, bias);
      const float variance = s.qq - s.q * (s.q / count_);
      if (!(variance > 0)) break;
      scale = (s.qw - s.q * (sum_ / count_)) / variance;
      bias = (sum_ - scale * s.q) / count_;
    }
    const float rounded = round(scale);
    refine(rounded, bias);
    if (bits_ > 4) refine(wider(rounded), low + (scale - wider(rounded)) * top_ / 2);
  }

  // The best bias for a rounded scale.
  void refine(float scale, float bias) {
    const Sums s = evaluate_codes(scale, bias);
    consider(scale, (sum_ - scale * s.q) / count_);
    consider(scale, bias);
  }

  void consider(float scale, float bias) {
    bias = round(bias);
    const float error = evaluate_codes(scale, bias).error;
    if (error < best_.error && std::isfinite(scale) && std::isfinite(bias)) best_ = {scale, bias, error};
  }

  Group group_;
  int bits_;
  bool half_;
  float top_, low_ = 0, high_ = 0;
  float count_ = 0, sum_ = 0;  // sums of 1 and of the weights, weighted by importance
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

void quantize_row(const float* values, const float* importance, int64_t cols, const AffineFormat& format,
                  bool half, uint8_t* codes, uint16_t* scales, uint16_t* biases, QuantizeStats& stats) {
  const int n = format.group;
  CHECK(n % kLanes == 0 && n <= kMaxGroup && cols % n == 0, "{} columns in groups of {}", cols, n);
  for (int64_t at = 0, g = 0; at < cols; at += n, g++) {
    const float* w = values + at;
    double energy = 0;
    const float* h = importance ? importance + at : nullptr;
    for (int i = 0; i < n; i++) energy += (h ? h[i] : 1.0) * w[i] * w[i];
    if (!std::isfinite(energy)) {
      stats.finite = false;
      return;
    }
    GroupFit group({w, h, n}, format.bits, half);
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

WeightSource rounded_to_8_bits(WeightSource source) {
  const int group = source.cols % 64 == 0 ? 64 : 32;
  if (is_coded(source.kind) || source.cols % group != 0) return source;
  WeightSource out = source;
  out.kind = WeightKind::affine;
  out.bits = 8;
  out.group = group;
  out.scale_type = ScaleType::bf16;
  out.symmetric = true;
  out.zero_point = 128;
  out.read_dense = nullptr;
  out.read_codes = [cols = source.cols, group, read = std::move(source.read_dense)](
                       int64_t first, int64_t count, uint8_t* codes, float* scales, float*) {
    std::vector<float> values(static_cast<size_t>(count * cols));
    read(first, count, values.data());
    for (int64_t begin = 0; begin < count * cols; begin += group) {
      float most = 0;
      for (int64_t i = begin; i < begin + group; i++) most = std::max(most, std::abs(values[i]));
      const float scale = bf16_to_float(float_to_bf16(most / 127));
      const float inverse = scale > 0 ? 1 / scale : 0;
      for (int64_t i = begin; i < begin + group; i++) {
        const float steps = std::nearbyint(values[i] * inverse);  // not a number in a damaged file
        codes[i] = static_cast<uint8_t>(std::isnan(steps) ? 128 : 128 + std::clamp(steps, -128.0f, 127.0f));
      }
      scales[begin / group] = scale;
    }
  };
  return out;
}

}  // namespace anabranch
